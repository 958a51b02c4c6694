"""Workers of Celery as processes of their own, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL = os.environ["NATS_URL"]
PATIENCE = 60 * float(os.environ.get("PQ_TEST_SLOW", "1"))

os.environ.setdefault("CELERY_DIR", tempfile.mkdtemp())
os.environ.setdefault("CELERY_BROKER", "pq://" + URL.partition("://")[2])

import celery_app  # noqa: E402
from pqbridge import sync  # noqa: E402
from world import fresh  # noqa: E402


def until(what: str, true: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"it was not true in time that {what}; starts: {celery_app.starts()}\n" + logs())
        time.sleep(0.02)
    return found


def logs() -> str:
    return "\n".join(file.read_text() for file in Path(os.environ["CELERY_DIR"]).glob("*.log"))


class Worker:
    _number = 0

    def __init__(self, *options: str, queues: str = "tasks", concurrency: int = 2) -> None:
        Worker._number += 1
        self.name = f"w{Worker._number}-{os.getpid()}@test"
        command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-n", self.name, "-Q", queues, "-c", str(concurrency)]
        with (Path(os.environ["CELERY_DIR"]) / f"{self.name}.log").open("w") as log:
            self._process = subprocess.Popen(
                [*command, "-l", "info", *options],
                cwd=Path(__file__).parent,
                env={**os.environ, "C_FORCE_ROOT": "1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ready(self) -> Worker:
        until(f"{self.name} is ready", lambda: celery_app.app.control.ping([self.name], timeout=0.5))
        return self

    def kill(self) -> None:
        """As a machine that loses its power."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """It ends the tasks that it has begun."""
        self.terminate()
        self.wait()

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end in time\n{logs()}") from None


class AtPqd(unittest.TestCase):
    """Tests that look at the queues of tasks."""

    client: sync.Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = sync.connect(URL, timeout=PATIENCE)
        cls.addClassCleanup(cls.client.close)

    def info(self, queue: str) -> Any:
        return self.client.queue(queue).info()

    def alone(self) -> str:
        """A queue that no worker has."""
        queue = fresh("alone")
        celery_app.app.amqp.queues.add(queue)
        self.addCleanup(celery_app.app.amqp.queues.pop, queue, None)
        return queue
