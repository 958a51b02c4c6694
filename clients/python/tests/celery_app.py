"""Tasks that say when they start, and end when they are told."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

import pqbridge.kombu  # noqa: F401: from here on kombu knows pq://

DIR = Path(os.environ["CELERY_DIR"])
LEASE = 10.0  # longer than anything here is kept from running by what else the machine does

app = Celery("tests", broker=os.environ["CELERY_BROKER"], backend="rpc://")
app.conf.update(
    broker_transport_options={"lease": LEASE},
    worker_hijack_root_logger=False,
    task_default_queue="tasks",
    broker_connection_retry_on_startup=True,
    result_expires=3600,
    broker_use_ssl={"ca_certs": os.environ["CELERY_CA"]} if "CELERY_CA" in os.environ else None,
)


def starts() -> list[str]:
    file = DIR / "starts"
    return file.read_text().split() if file.exists() else []


def _start(name: str) -> None:
    with (DIR / "starts").open("a") as file:
        file.write(name + "\n")


def tell(name: str) -> None:
    """The task with this name may end."""
    (DIR / f"end-{name}").touch()


def _until_told(name: str) -> None:
    while not (DIR / f"end-{name}").exists():
        time.sleep(0.01)


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
def note(name: str) -> str:
    _start(name)
    return name


@app.task
def fail(text: str) -> None:
    raise ValueError(text)


@app.task
def early(name: str) -> str:
    _start(name)
    _until_told(name)
    return name


@app.task(acks_late=True)
def late(name: str) -> str:
    _start(name)
    _until_told(name)
    return name


@app.task(bind=True)
def again(self: Any, name: str) -> int:
    _start(name)
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return int(self.request.retries)


@app.task(bind=True, acks_late=True)
def reject(self: Any, name: str, requeue: bool) -> bool:
    _start(name)
    if not self.request.delivery_info["redelivered"]:
        raise Reject("no", requeue=requeue)
    return True


@app.task(bind=True)
def seen(self: Any) -> list[Any]:
    """What the worker knows of the task."""
    return [self.request.eta, self.request.delivery_info["priority"], self.request.id]


@app.task(acks_late=True, reject_on_worker_lost=True)
def killed(name: str) -> None:
    _start(name)
    os.kill(os.getpid(), signal.SIGKILL)


def _says(task: Any, spent: list[int]) -> Any:
    for cost in spent:
        pqbridge.kombu.spent(cost)
    return (task.request.headers or {}).get("PQ-Cost")


@app.task(bind=True, acks_late=True)
def costs(self: Any, *spent: int, fails: bool = False) -> Any:
    """Says what it has spent, and returns what its message says."""
    if fails:
        _says(self, list(spent))
        raise ValueError("no sum")
    return _says(self, list(spent))


@app.task(bind=True, acks_late=True)
def costs_again(self: Any, spent: int) -> Any:
    if not self.request.retries:
        _says(self, [spent])
        raise self.retry(countdown=0)
    return _says(self, [spent + 1])


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def costs_and_dies(self: Any, spent: int) -> None:
    _says(self, [spent])
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True)
def costs_too_late(self: Any, spent: int) -> None:
    _says(self, [spent])
