"""Many tasks of Celery on pqd and on Redis, one after the other, while their worker is killed again and again: how
many a second, how many are lost, and how many start more than once.

It starts a Redis of its own. Install redis-server and pqbridge[celery], celery[redis], start pqd, then:

    python celery_kills.py 127.0.0.1:4222 100000 20    # tasks, kills

Tasks are acknowledged when they are done, so a worker that is killed may have done what it has not acknowledged: each
kill may have one of its two processes' tasks start again. With "early" behind the numbers they are acknowledged when
they start."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from celery import Celery

import pqbridge.kombu  # noqa: F401: from here on kombu knows pq://

AWAY = 5  # seconds until others get what a killed worker holds: the lease, and the visibility timeout
PROCESSES = 2
STUCK = 60  # seconds without a start after which nothing more is expected

REDIS = {"visibility_timeout": AWAY, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}

DIR = Path(os.environ.get("KILLS_DIR", ""))
BROKER = os.environ.get("KILLS_BROKER", "")

app = Celery("kills", broker=BROKER)
app.conf.update(
    broker_transport_options={"lease": AWAY} if BROKER.startswith("pq") else REDIS,
    broker_connection_retry_on_startup=True,
    task_acks_late="early" not in os.environ.get("KILLS_WHEN", ""),
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
)


@app.task
def work(number: int) -> None:
    with (DIR / "starts").open("ab", buffering=0) as file:
        file.write(b"%7d\n" % number)


def send(tasks: int) -> None:
    for number in range(tasks):
        work.delay(number)


class Side:
    """A broker, and what its workers have started."""

    def __init__(self, broker: str, tasks: int, kills: int, when: str) -> None:
        self.dir = Path(tempfile.mkdtemp())
        self._tasks, self._kills = tasks, kills
        self._env = {**os.environ, "KILLS_BROKER": broker, "KILLS_DIR": str(self.dir), "KILLS_WHEN": when, "C_FORCE_ROOT": "1"}

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.dir / "log").open("a") as log:
            here = Path(__file__).parent
            return subprocess.Popen([sys.executable, *arguments], cwd=here, env=self._env, stdout=log, stderr=log, start_new_session=True)

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._run("-m", "celery", "-A", "celery_kills", "worker", "-c", str(PROCESSES), "--without-gossip", "--without-mingle")

    @property
    def _starts(self) -> int:
        file = self.dir / "starts"
        return file.stat().st_size // 8 if file.exists() else 0

    def run(self) -> str:
        began = time.monotonic()
        sender = self._run("-c", f"import celery_kills as kills; kills.send({self._tasks})")
        worker = self._worker()
        killed, last, since, sent = 0, 0, began, 0.0
        while time.monotonic() < since + STUCK and (self._distinct() < self._tasks if self._starts >= self._tasks else True):
            if not sent and sender.poll() is not None:
                sent = time.monotonic() - began
            if self._starts > last:
                last, since = self._starts, time.monotonic()
            if killed < self._kills and self._starts >= (killed + 1) * self._tasks // (self._kills + 1):
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
                worker, killed, since = self._worker(), killed + 1, time.monotonic()
            time.sleep(0.02)
        took = since - began
        if sender.wait():
            raise SystemExit((self.dir / "log").read_text())
        time.sleep(2 * AWAY)  # what would start again does so now
        worker.terminate()
        worker.wait()
        counts = Counter((self.dir / "starts").read_bytes().split())
        shutil.rmtree(self.dir)
        doubled = sum(count > 1 for count in counts.values())
        return (
            f"{self._tasks} tasks sent in {sent:.0f} s, started in {took:.0f} s ({len(counts) / took:.0f} a second), "
            f"{killed} kills, {self._tasks - len(counts)} lost, {doubled} doubled"
        )

    def _distinct(self) -> int:
        return len(set((self.dir / "starts").read_bytes().split()))


def main(pqd: str, tasks: int, kills: int, when: str) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--loglevel", "warning"], stdout=subprocess.DEVNULL)
    try:
        for name, broker in (("pqd", f"pq://{pqd}"), ("Redis", f"redis://127.0.0.1:{port}")):
            print(f"{name}: {Side(broker, tasks, kills, when).run()}", flush=True)
    finally:
        redis.terminate()
        redis.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "".join(sys.argv[4:5]))
