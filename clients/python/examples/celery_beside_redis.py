"""One Celery program on Redis, with a short visibility timeout, and on pqd, with a short lease: how often does
a task start that takes longer than that, and one that is to run later than that?

It starts a Redis of its own. Install redis-server and pqbridge[celery], celery[redis], start pqd, then:

    python celery_beside_redis.py 127.0.0.1:4222"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from celery import Celery

import pqbridge.kombu  # noqa: F401: from here on kombu knows pq://

SHORT = 2  # seconds: the visibility timeout, and the lease
LONG = 5

# By default kombu looks only every 100 s for messages whose visibility timeout is over.
REDIS = {"visibility_timeout": SHORT, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}

DIR = Path(os.environ.setdefault("BESIDE_DIR", ""))

app = Celery("beside", broker=os.environ.get("BESIDE_BROKER"))
app.conf.broker_transport_options = {"lease": SHORT} if os.environ.get("BESIDE_BROKER", "").startswith("pq") else REDIS
app.conf.broker_connection_retry_on_startup = True


def _start(name: str) -> None:
    with (DIR / "starts").open("a") as file:
        file.write(name + "\n")


@app.task(acks_late=True)
def long() -> None:
    _start("long")
    time.sleep(LONG)


@app.task
def later() -> None:
    _start("later")


def send() -> None:
    while not app.control.ping(timeout=1):
        pass
    long.delay()
    later.apply_async(countdown=LONG)


class Side:
    """A broker, a worker, and what it has started."""

    def __init__(self, broker: str) -> None:
        self.dir = Path(tempfile.mkdtemp())
        self._env = {**os.environ, "BESIDE_BROKER": broker, "BESIDE_DIR": str(self.dir), "C_FORCE_ROOT": "1"}
        self._log = (self.dir / "log").open("w")
        self._worker = self._run("-m", "celery", "-A", "celery_beside_redis", "worker", "-c", "4")
        self._sender = self._run("-c", "import celery_beside_redis as beside; beside.send()")

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        here = Path(__file__).parent
        return subprocess.Popen([sys.executable, *arguments], cwd=here, env=self._env, stdout=self._log, stderr=self._log)

    def sent(self) -> None:
        if self._sender.wait(120):
            raise SystemExit((self.dir / "log").read_text())

    def starts(self, name: str) -> int:
        file = self.dir / "starts"
        return file.read_text().split().count(name) if file.exists() else 0

    def end(self) -> None:
        for signal in (self._worker.terminate, self._worker.kill):
            signal()
            try:
                self._worker.wait(2 * LONG)
                break
            except subprocess.TimeoutExpired:
                continue
        self._log.close()
        shutil.rmtree(self.dir)


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def main(pqd: str) -> None:
    port = _free()
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--loglevel", "warning"], stdout=subprocess.DEVNULL)
    try:
        sides = {"Redis": Side(f"redis://127.0.0.1:{port}"), "pqd": Side(f"pq://{pqd}")}
        for side in sides.values():
            side.sent()
        end = time.monotonic() + LONG + 1
        while time.monotonic() < end or not all(side.starts("later") for side in sides.values()):
            time.sleep(0.1)
        for name, text in (("long", f"a task of {LONG} s"), ("later", f"a task with a countdown of {LONG} s")):
            for broker, side in sides.items():
                print(f"{text} on {broker}: {side.starts(name)} starts", flush=True)
        for side in sides.values():
            side.end()
    finally:
        redis.terminate()
        redis.wait()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:4222")
