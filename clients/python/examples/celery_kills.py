"""Many tasks of Celery on pqd and on Redis while their worker is killed again and again: how many a second, how many
are lost, and how many start more than once.

It starts a Redis of its own. Install redis-server and pqbridge[celery], celery[redis], start pqd, then:

    python celery_kills.py 127.0.0.1:4222 100000 20    # tasks, kills

Tasks are acknowledged when they are done, so a worker that is killed may have done what it has not acknowledged: each
kill may have one task of each of its processes start again. With --early they are acknowledged when they start."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from celery import Celery

import pqbridge.kombu  # noqa: F401: from here on kombu knows pq://

STUCK = 60  # seconds without a start after which nothing more is expected
READY = 600  # the same for a worker that has not started anything yet

DIR = Path(os.environ.get("KILLS_DIR", ""))
BROKER = os.environ.get("KILLS_BROKER", "")
AWAY = float(os.environ.get("KILLS_AWAY", 5))

REDIS = {"visibility_timeout": AWAY, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}

app = Celery("kills", broker=BROKER)
app.conf.update(
    broker_transport_options={"lease": AWAY} if BROKER.startswith("pq") else REDIS,
    broker_connection_retry_on_startup=True,
    task_acks_late="KILLS_EARLY" not in os.environ,
    task_ignore_result=True,
)


@app.task
def work(number: int) -> None:
    with (DIR / "starts").open("ab", buffering=0) as file:
        file.write(b"%7d\n" % number)


def send(first: int, step: int, tasks: int, seconds: float) -> None:
    """It says on its output how many it has sent."""
    end, sent = time.monotonic() + seconds, 0
    with app.producer_or_acquire() as producer:
        for number in range(first, tasks, step):
            work.apply_async((number,), producer=producer)
            sent += 1
            if time.monotonic() > end:
                break
    print(sent)


class Side:
    """A broker, and what its workers have started."""

    def __init__(self, broker: str, options: argparse.Namespace) -> None:
        self._dir = Path(tempfile.mkdtemp())
        self._starts: Counter[bytes] = Counter()
        self._read = 0
        self._options = options
        self._env = {**os.environ, "KILLS_BROKER": broker, "KILLS_DIR": str(self._dir), "KILLS_AWAY": str(options.away), "C_FORCE_ROOT": "1"}
        if options.early:
            self._env["KILLS_EARLY"] = "yes"

    def _run(self, *arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        with (self._dir / "log").open("a") as log:
            here = Path(__file__).parent
            return subprocess.Popen([sys.executable, *arguments], cwd=here, env=self._env, stdout=stdout or log, stderr=log, start_new_session=True)

    def _worker(self) -> subprocess.Popen[bytes]:
        o = self._options
        size = ["-P", o.pool, "-c", str(o.processes), "--prefetch-multiplier", str(o.prefetch)]
        return self._run("-m", "celery", "-A", "celery_kills", "worker", "--without-gossip", "--without-mingle", *size)

    def _look(self) -> int:
        """How often tasks have started."""
        if (self._dir / "starts").exists():
            with (self._dir / "starts").open("rb") as file:
                file.seek(self._read)
                lines = file.read()
            self._read += len(lines)
            self._starts.update(lines.split())
        return self._read // 8

    def run(self) -> str:
        o = self._options
        parts = [f"{n}, {o.senders}, {o.tasks}, float('{o.seconds}')" for n in range(o.senders)]
        senders = [self._run("-c", f"import celery_kills as kills; kills.send({part})", stdout=subprocess.PIPE) for part in parts]
        self._workers = [self._worker()]
        try:
            return self._judge(senders)
        finally:
            for process in senders + self._workers:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            shutil.rmtree(self._dir)

    def _judge(self, senders: list[subprocess.Popen[bytes]]) -> str:
        o, began = self._options, time.monotonic()
        killed, last, struck, since, took, sent = 0, 0, 0, began, 0.0, 0
        while not took or len(self._starts) < sent and time.monotonic() < since + (STUCK if last > struck else READY):
            if not took and all(sender.poll() is not None for sender in senders):
                took = time.monotonic() - began
                if any(sender.returncode for sender in senders):
                    raise SystemExit((self._dir / "log").read_text())
                sent = sum(int(sender.communicate()[0]) for sender in senders)
            starts = self._look()
            if starts > last:
                last, since = starts, time.monotonic()
            so_far = max(starts / o.tasks, (time.monotonic() - began) / o.seconds)
            if killed < o.kills and starts > struck and so_far >= (killed + 1) / (o.kills + 1):
                os.killpg(self._workers[-1].pid, signal.SIGKILL)
                self._workers[-1].wait()
                self._workers.append(self._worker())
                killed, struck, since = killed + 1, starts, time.monotonic()
            time.sleep(0.02)
        lasted = since - began
        time.sleep(2 * o.away)  # what would start again does so now
        self._workers[-1].terminate()
        self._workers[-1].wait()
        self._look()
        doubled = sum(count > 1 for count in self._starts.values())
        return (
            f"{sent} tasks sent in {took:.0f} s, started in {lasted:.0f} s ({len(self._starts) / lasted:.0f} a second), "
            f"{killed} kills, {sent - len(self._starts)} lost, {doubled} doubled"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("pqd", help="the address of pqd, such as 127.0.0.1:4222")
    parser.add_argument("tasks", type=int)
    parser.add_argument("kills", type=int)
    parser.add_argument("--early", action="store_true", help="acknowledge when tasks start")
    parser.add_argument("--pool", default="prefork", help="of the worker (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="of the worker (%(default)s)")
    parser.add_argument("--prefetch", type=int, default=1, help="how many tasks it takes for each of them (%(default)s)")
    parser.add_argument("--senders", type=int, default=1, help="how many programs send (%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which they send nothing more")
    parser.add_argument("--away", type=float, default=5, help="seconds until others get what a killed worker holds: the lease, and the visibility timeout (%(default)s)")
    parser.add_argument("--together", action="store_true", help="both brokers at a time, so that what else runs slows down both")
    options = parser.parse_args()

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--loglevel", "warning"], stdout=subprocess.DEVNULL)
    try:
        brokers = {"pqd": f"pq://{options.pqd}", "Redis": f"redis://127.0.0.1:{port}"}
        with ThreadPoolExecutor(2 if options.together else 1) as sides:
            for name, result in zip(brokers, sides.map(lambda broker: Side(broker, options).run(), brokers.values())):
                print(f"{name}: {result}", flush=True)
    finally:
        redis.terminate()
        redis.wait()


if __name__ == "__main__":
    main()
