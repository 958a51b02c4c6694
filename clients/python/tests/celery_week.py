"""A task with a countdown of a week, while everything ends and starts again. For how long pqd has to be away stands
on the output; a line on the input says that it runs again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from celery_world import URL, Worker, until
from pqbridge import sync

import celery_app as tasks

WEEK = timedelta(days=7)


def away(time: str) -> None:
    print(f"away {time}", flush=True)
    input()


def waits(queue: str) -> datetime:
    """When the one task of a queue is due."""
    with sync.connect(URL) as client:
        info = client.queue(queue).info()
        assert (info["delayed"], info["ready"], info["leased"]) == (1, 0, 0), info
        [item] = client.queue(queue).list(state="delayed")
        due = client.queue(queue).get(item.id).not_before
        assert due is not None
        return due


def main() -> None:
    queue = "week"
    tasks.app.amqp.queues.add(queue)
    worker = Worker(queues=queue).ready()
    began = datetime.now(timezone.utc)
    tasks.note.apply_async(("week",), queue=queue, countdown=WEEK.total_seconds())
    due = waits(queue)
    assert timedelta(0) <= due - began - WEEK < timedelta(minutes=5), due
    worker.kill()
    tasks.app.close()
    away("0s")
    again = waits(queue)
    assert abs(again - due) < timedelta(seconds=10), (again, due)
    away("167h")
    worker = Worker(queues=queue).ready()
    waits(queue)
    worker.kill()
    assert tasks.starts() == [], tasks.starts()
    away("1h")
    worker = Worker(queues=queue)
    until("it starts", lambda: tasks.starts())
    with sync.connect(URL) as client:
        until("it is done", lambda: client.queue(queue).info()["leased"] == 0)
        info = client.queue(queue).info()
    worker.stop()
    assert (tasks.starts(), info["delayed"], info["ready"]) == (["week"], 0, 0), (tasks.starts(), info)
    print("done", flush=True)


main()
