"""Celery with a login, over TLS, with a user who has the permissions that the page about Celery names, and with a
worker of threads."""

from __future__ import annotations

from celery.exceptions import TaskRevokedError

from celery_world import PATIENCE, Worker, until

import celery_app as tasks


def main() -> None:
    worker = Worker("-P", "threads", "-E").ready()
    assert tasks.add.delay(1, 2).get(timeout=PATIENCE) == 3
    assert tasks.again.delay("again").get(timeout=PATIENCE) == 2
    assert (tasks.add.s(1, 2) | tasks.add.s(3)).apply_async().get(timeout=PATIENCE) == 6
    assert tasks.note.apply_async(("later",), countdown=0.1).get(timeout=PATIENCE) == "later"
    both = [tasks.late.delay("one"), tasks.late.delay("other")]
    until("both run at a time", lambda: {"one", "other"} <= set(tasks.starts()))
    for name in ("one", "other"):
        tasks.tell(name)
    assert [result.get(timeout=PATIENCE) for result in both] == ["one", "other"]
    waits = tasks.note.apply_async(("never",), countdown=3600)
    waits.revoke()
    try:
        waits.get(timeout=PATIENCE)
        raise AssertionError("it was not revoked")
    except TaskRevokedError:
        pass
    worker.stop()
    tasks.app.close()
    print("done", flush=True)


main()
