"""Programs that work until they are told to stop, and what they hand back."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path
from unittest import mock

from pqbridge import Item, sync
from pqbridge.consume import Told
from world import PATIENCE, URL, TestCase, fresh, quiet

DEPLOYS = int(os.environ.get("PQ_TEST_DEPLOYS", "10"))


class Workers(TestCase):
    async def test_run_stops_at_signals(self) -> None:
        """It takes nothing more, and what ends within the grace is done."""
        for sign in (signal.SIGTERM, signal.SIGINT):
            q = self.queue()
            await q.push_many(["a", "b"])
            before = signal.getsignal(sign)
            seen: list[str] = []

            @q.worker(lease="1h")
            async def work(item: Item) -> None:
                """Works."""
                seen.append(item.text)
                os.kill(os.getpid(), sign)
                await asyncio.sleep(0.01)

            await work.run(grace=PATIENCE)
            self.assertEqual((seen, signal.getsignal(sign), work.__doc__), (["a"], before, "Works."))
            info = await q.info()
            self.assertEqual((info.ready, info["leased"]), (1, 0))

    async def test_a_second_signal_ends_the_grace(self) -> None:
        """One within a second is the same: some supervisors send each twice."""
        now = 0.0
        clock = mock.patch("pqbridge.consume.monotonic", lambda: now)
        clock.start()
        self.addCleanup(clock.stop)
        told = Told()
        heard = []
        for now in (0.0, 0.9, 1.0):
            told.tell()
            heard.append((told.once.is_set(), told.twice.is_set()))
        self.assertEqual(heard, [(True, False), (True, False), (True, True)])
        q = self.queue()
        id = (await q.push("a")).id
        began = asyncio.Event()

        async def work(item: Item) -> None:
            began.set()
            await asyncio.sleep(PATIENCE)

        running = asyncio.ensure_future(q.consume(work, lease="1h", holder="w1").run(grace="1h"))
        other = asyncio.ensure_future(self.queue().consume(work).run(grace="1h"))  # both hear of it
        await began.wait()
        for now in (0.0, 0.9, 1.0):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)  # the loop hears of it
            await asyncio.sleep(0)
        await asyncio.gather(running, other)
        item = await q.get(id, attempts=True)
        self.assertEqual((item.state, [(a.outcome, a.reason) for a in item.last_attempts]), ("ready", [("back", "stopped")]))

    async def test_only_the_main_thread_hears_of_signals(self) -> None:
        q = self.queue()

        def elsewhere() -> None:
            async def run() -> None:
                with self.assertRaisesRegex(RuntimeError, "main thread"):
                    await q.consume(print, stop_when_empty=True).run()  # type: ignore[arg-type]

            asyncio.run(run())

        await asyncio.to_thread(elsewhere)

    async def test_stop_hands_back(self) -> None:
        """Running, prefetched and waiting: deploys count as no failure and no interruption of any item, and only those
        that ran have attempts."""
        q = self.queue()
        await q.configure({"max_deliveries": 2, "backoff": ["1h"]})
        ids = {done.id for done in await q.push_many([str(n) for n in range(5)])}
        began: set[str] = set()

        async def work(item: Item) -> None:
            began.add(item.id)
            await asyncio.sleep(PATIENCE)

        for n in range(DEPLOYS):
            consumer = q.consume(work, lease="1h", concurrency=8, repeatable=bool(n % 2))
            if n % 3:
                await self.until("all run", lambda: len(began) == 5 or len(consumer._handling) == 5)
            await consumer.stop(grace=0)

        async def back() -> bool:
            return (await q.info()).ready == 5

        await self.until("all are back", back)
        found = await q.pop_many(9, lease="1h")
        self.assertEqual({item.id for item in found}, ids)
        for item in found:
            self.assertEqual((item.failures, item.interruptions), (0, 0))
            attempts = (await q.get(item.id, attempts=True)).last_attempts
            self.assertEqual({(a.outcome, a.reason) for a in attempts}, {("back", "stopped")})

    async def test_a_revoked_lease_is_one_line_in_the_log(self) -> None:
        q = self.queue()
        id = (await q.push("a")).id

        async def work(item: Item) -> None:
            await q.revoke(id, delay="1h")
            await asyncio.sleep(PATIENCE)

        with self.assertLogs("pqbridge") as logs:
            await q.consume(work, limit=1, lease="1h")
        self.assertEqual([line for record in logs.records for line in logging.Formatter().format(record).splitlines()], [f"item {id} of {q.name}: extend {q.name}: lease lost: revoked (410)"])

    async def test_what_fails_counts(self) -> None:
        q = self.queue()
        await q.configure({"max_deliveries": 2})
        await q.push("a")

        async def work(item: Item) -> None:
            raise ValueError("why")

        await q.consume(work, limit=2, backoff=lambda n: 0, on_error=lambda err, item: None)
        dead = await self.client.queue(q.name + "-dead").pop()
        self.assertEqual((dead.text, dead.dead and dead.dead.reason), ("a", "max_deliveries"))

    async def test_words(self) -> None:
        q = self.queue()
        self.assertIsNone(await q.pop_nowait())
        await q.push(json={"a": [None, "ü"]})
        item = await q.pop_nowait(lease="1m")
        assert item is not None
        self.assertEqual(item.json(), {"a": [None, "ü"]})
        await item.release(0, reason="why")
        again = await q.pop(lease="1m")
        await again.reject("hopeless")
        dead = await self.client.queue(q.name + "-dead").pop()
        self.assertEqual((dead.dead and dead.dead.reason, dead.json()), ("hopeless", {"a": [None, "ü"]}))
        await q.push(json=None)
        self.assertIsNone((await q.pop()).json())
        with self.assertRaisesRegex(TypeError, "^the payload is missing"):
            await q.push()
        with self.assertRaisesRegex(TypeError, "^a payload together with json"):
            await q.push("x", json=1)

    async def test_info(self) -> None:
        q = self.queue()
        await q.push("x")
        info = await q.info()
        self.assertEqual((info.ready, info["ready"], info.config["lease"], info.held, info.get("queue")), (1, 1, "0s", 0, q.name))
        self.assertNotIn("held", info)


PROGRAM = """
import sys
from pqbridge import sync
with sync.connect(sys.argv[1]) as client:
    @client.queue(sys.argv[2]).worker(lease="1h", concurrency=2)
    def work(item):
        print("begun", flush=True)
        item.lost.wait()
        raise ValueError("it was told to stop")
    work.run(grace=0.01)
print("done", flush=True)
"""


class Synchronous(unittest.TestCase):
    def test_stop_hands_back(self) -> None:
        """A program that gets SIGTERM ends in order."""
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(fresh())
        id = q.push("a").id
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, URL, q.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert program.stdout is not None
        self.addCleanup(program.stdout.close)
        self.assertEqual(program.stdout.readline(), "begun\n")
        program.terminate()
        self.assertEqual((program.stdout.readline(), program.wait(PATIENCE)), ("done\n", 0))
        item = q.get(id, attempts=True)
        self.assertEqual((item.state, [(a.outcome, a.reason) for a in item.last_attempts]), ("ready", [("back", "stopped")]))
        self.assertIsNone(q.pop_nowait(max=-1))

    def test_the_example_for_containers(self) -> None:
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(fresh())
        q.push_many(["a", ""])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        example = Path(__file__).parents[1] / "examples" / "worker.py"
        env = {**os.environ, "QUEUE": q.name, "HEALTH_PORT": port}
        worker = subprocess.Popen([sys.executable, example], env=env, stderr=subprocess.PIPE, text=True)
        assert worker.stderr is not None
        self.addCleanup(worker.stderr.close)
        self.assertEqual(client.queue(q.name + "-dead").pop(wait=PATIENCE).text, "")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as answer:
            self.assertEqual(answer.status, 200)
        worker.terminate()
        self.assertEqual(worker.wait(PATIENCE), 0)
        said = worker.stderr.read()
        self.assertIn("a: done, attempt 1", said)
        self.assertTrue(said.endswith("stopped\n"), said)
