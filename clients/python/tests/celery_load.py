"""Tasks through a restart of pqd, and of their worker. What the one who started this program has to do stands
on its output; a line on its input says that it is done."""

from __future__ import annotations

from celery_world import PATIENCE, Worker, until

import celery_app as tasks


def ask(what: str) -> None:
    print(what, flush=True)
    input()


def main() -> None:
    queue = "load"
    tasks.app.amqp.queues.add(queue)
    worker = Worker(queues=queue).ready()
    held = tasks.late.apply_async(("held",), queue=queue)
    until("it runs", lambda: "held" in tasks.starts())
    delayed = [tasks.note.apply_async((f"delayed-{n}",), queue=queue, countdown=1.5) for n in range(5)]
    ask("restart")
    tasks.tell("held")
    results = [held, *delayed, *[tasks.note.apply_async((f"plain-{n}",), queue=queue) for n in range(5)]]
    for result in results:
        result.get(timeout=PATIENCE)
    worker.ready()  # remote control goes on, too
    tasks.late.apply_async(("killed",), queue=queue)
    later = [tasks.note.apply_async((f"later-{n}",), queue=queue, countdown=1.5) for n in range(5)]
    until("it runs", lambda: "killed" in tasks.starts())
    worker.kill()
    ask("restart")
    tasks.tell("killed")
    worker = Worker(queues=queue)
    for result in later:
        result.get(timeout=PATIENCE)
    until("the killed one has run again", lambda: tasks.starts().count("killed") == 2)
    worker.stop()
    counts = {name: tasks.starts().count(name) for name in tasks.starts()}
    expected = {"held": 1, "killed": 2, **{f"{what}-{n}": 1 for what in ("delayed", "plain", "later") for n in range(5)}}
    assert counts == expected, counts
    print("done", flush=True)


main()
