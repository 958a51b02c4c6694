"""Programs that end before a result has come: one that has read another one, and three of a cron job. And a result that finds no
queue. A line on the output says that somebody may look at them, one on the input that this is done."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

from celery_world import PATIENCE, URL, Worker, until
from pqbridge import sync

import celery_app as tasks


def program(reads: str, name: str) -> str:
    command = [sys.executable, str(Path(__file__).with_name("celery_ends.py")), reads, name]
    queue = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().strip()
    tasks.tell(name)
    return queue


def main() -> None:
    worker = Worker().ready()
    queues = [program("reads", "first"), *(program("sends", f"cron-{n}") for n in range(3)), str(uuid.uuid4())]
    tasks.note.apply_async(("late",), reply_to=queues[-1])
    with sync.connect(URL) as client:
        client.queue(queues[-1]).peek(wait=PATIENCE)
        until("all are done", lambda: not any(client.queue("tasks").info()[state] for state in ("ready", "leased")))
        until("results that nobody reads are gone", lambda: not any(client.queue(queue).info()["ready"] for queue in queues[:-1]))
    print("look", flush=True)
    input()
    worker.stop()
    tasks.app.close()
    print("done", flush=True)


main()
