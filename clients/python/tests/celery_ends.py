"""A program that ends while the results of its tasks have not come, or stand unread. It has read one before, or none."""

from __future__ import annotations

import sys

from celery_world import PATIENCE, URL, until
from pqbridge import sync

import celery_app as tasks


def main(reads: str, name: str) -> None:
    tasks.late.delay(name)
    queue = tasks.app.backend.oid
    if reads == "reads":
        assert tasks.add.delay(1, 2).get(timeout=PATIENCE) == 3
    else:
        tasks.add.delay(1, 2)
        with sync.connect(URL) as client:
            until("a result stands unread", lambda: client.queue(queue).info()["ready"])
    print(queue, flush=True)


main(*sys.argv[1:])
