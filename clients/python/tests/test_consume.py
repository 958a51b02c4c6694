"""Workers and iterators."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from nats.aio.msg import Msg

from pqbridge import Consumer, EmptyError, ForbiddenError, GiveUp, Item, LeaseLostError, NotFoundError, RetryAfter, UnavailableError, default_backoff
from world import PATIENCE, Answer, TestCase, failure


class Workers(TestCase):
    async def test_what_becomes_of_items(self) -> None:
        q = self.queue()
        await q.push_many(["done", "again", "give up", "settled", "fails"])
        errors: list[tuple[str, str]] = []
        seen: list[str] = []

        async def work(item: Item) -> None:
            seen.append(f"{item.text} {item.deliveries}")
            if item.text == "again" and item.deliveries == 1:
                raise RetryAfter(0)
            if item.text == "give up":
                raise GiveUp("why")
            if item.text == "settled":
                await item.nak("1h")
            if item.text == "fails":
                raise ValueError("broken")

        def on_error(err: BaseException, item: Item | None) -> None:
            errors.append((type(err).__name__, item.text if item else ""))

        consumer = q.consume(work, stop_when_empty=True, backoff=lambda n: 3600 * n, on_error=on_error)
        await consumer
        self.assertEqual(sorted(seen), sorted(["done 1", "again 1", "again 2", "give up 1", "settled 1", "fails 1"]))
        self.assertEqual(sorted(errors), sorted([("RetryAfter", "again"), ("GiveUp", "give up"), ("ValueError", "fails")]))
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"], info["delayed"]), (0, 0, 2))
        dead = await self.client.queue(q.name + "-dead").pop()
        assert dead.dead is not None
        self.assertEqual(dead.dead.reason, "why")
        for n, least, most in ((1, 0.5, 1.5), (2, 1, 3), (99, 150, 450)):
            self.assertTrue(least <= default_backoff(n) <= most)

    async def test_concurrency_and_limit(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(10)])
        now = most = 0
        three = asyncio.Event()

        async def work(item: Item) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 3:
                three.set()
            await three.wait()
            now -= 1

        await q.consume(work, concurrency=3, limit=7)
        self.assertEqual(most, 3)
        self.assertEqual((await q.info())["ready"], 3)

    async def test_stop_waits_for_handlers(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b"])
        began, go = asyncio.Event(), asyncio.Event()

        async def work(item: Item) -> None:
            began.set()
            await go.wait()

        consumer = q.consume(work, lease=3)
        await began.wait()
        first = (await anext(q.list(state="leased"))).due
        stop = asyncio.create_task(consumer.stop())

        async def extended() -> bool:
            due = (await anext(q.list(state="leased"))).due
            return bool(first and due and due > first)

        await self.until("the lease is extended", extended)
        self.assertFalse(stop.done())
        go.set()
        await stop
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"]), (1, 0))

    async def test_stop_with_grace_hands_back(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b", "c"])
        began: list[Item] = []

        async def work(item: Item) -> None:
            began.append(item)
            await asyncio.sleep(PATIENCE)

        async with q.consume(work, concurrency=2, lease="1h") as consumer:
            await self.until("both work", lambda: len(began) == 2)
            await consumer.stop(grace=0.01)
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"], info["delayed"]), (3, 0, 0))

    async def test_a_program_that_is_cancelled_hands_back(self) -> None:
        q = self.queue()
        await q.push("a")
        began = asyncio.Event()

        async def work(item: Item) -> None:
            began.set()
            await asyncio.sleep(PATIENCE)

        async def program() -> None:
            await q.consume(work, lease="1h", concurrency=2)

        task = asyncio.create_task(program())
        await began.wait()
        task.cancel()
        await asyncio.wait({task})
        self.assertTrue(task.cancelled())
        self.assertEqual((await q.pop(wait=PATIENCE)).text, "a")  # the abandoned pop of the other worker may have had it

    async def test_a_lost_lease_cancels_the_handler(self) -> None:
        q = self.queue()
        await q.push("a")
        ended: list[str] = []
        errors: list[BaseException] = []

        async def work(item: Item) -> None:
            try:
                await q.purge()
                await asyncio.sleep(PATIENCE)
            finally:
                ended.append(item.text)

        await q.consume(work, lease=0.3, limit=1, on_error=lambda err, item: errors.append(err))
        self.assertEqual(ended, ["a"])
        self.assertEqual([type(e) for e in errors], [LeaseLostError])

    async def test_what_ends_a_consumer(self) -> None:
        async def work(item: Item) -> None:
            raise AssertionError

        few = await self.connect(user="few", password="few", inbox_prefix=b"_INBOX.few")
        await self.fails(few.queue("jobs").consume(work, concurrency=3).wait(), ForbiddenError, 403)
        other = await self.connect()
        consumer = other.queue("none").consume(work)
        await asyncio.sleep(0.05)
        await other.close()
        with self.assertRaises((UnavailableError, Exception)):
            await consumer.wait()

        q = self.queue()
        await q.push_many(["a", "b"])

        def on_error(err: BaseException, item: Item | None) -> None:
            raise KeyError("enough")

        async with contextlib.AsyncExitStack() as stack:
            consumer = q.consume(work, on_error=on_error, backoff=lambda n: 0)
            with self.assertRaises(KeyError):
                await consumer
            stack.push_async_callback(asyncio.sleep, 0)
        self.assertEqual((await q.info())["ready"], 2)
        with self.assertRaises(TypeError):
            q.consume("work")  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            q.consume(work, concurrency=0)
        consumer = q.consume(work, lease=-1)
        with self.assertRaises(ValueError):
            await consumer

    async def test_troubles_are_reported_and_end(self) -> None:
        reported: list[BaseException] = []
        f = await self.fake(lambda verb, n, m: failure(500) if n < 3 else Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t"}) if "pop" in verb else Answer())
        seen: list[str] = []

        async def work(item: Item) -> None:
            seen.append(item.id)

        await f.client.queue("jobs").consume(work, limit=1, on_error=lambda err, item: reported.append(err))
        self.assertEqual((seen, len(reported)), (["i"], 2))

    async def test_nothing_answers(self) -> None:
        """It is said once, and again after an answer."""
        for retry_for in (0, 0.001):  # one pop that is repeated, and many
            away, damaged, reported = failure(503, text="away"), failure(506, text="damaged"), list[str]()
            say: list[Answer | None] = [away]

            def respond(verb: str, n: int, m: Msg) -> Answer:
                if ".ack." in verb:
                    return Answer()
                now = say.pop(0) if len(say) > 1 else say[0]
                return now or Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t"})

            f = await self.fake(respond, retry_for=retry_for, ask_again_after=PATIENCE)
            f.client.patience = replace(f.client.patience, absence=0)

            async def work(item: Item) -> None:
                pass

            consumer = f.client.queue("jobs").consume(work, limit=1, on_error=lambda err, item: reported.append(str(err)))
            await self.until("it has asked for some time", lambda: len(f.requests) > 4)
            say[:] = [damaged, away]
            await self.until("it says so again", lambda: len(reported) > 2)
            say[:] = [None]
            await consumer
            self.assertEqual(reported, ["pop jobs: away (503)", "pop jobs: damaged (506)", "pop jobs: away (503)"])

    async def test_a_queue_that_does_not_exist(self) -> None:
        """It is said once."""

        async def work(item: Item) -> None:
            pass

        for concurrency in (1, 8):
            q, reported = self.queue(), list[BaseException]()
            consumer = q.consume(work, concurrency=concurrency, limit=1, on_error=lambda err, item: reported.append(err))
            await self.until("it is said", lambda: reported)
            await q.push("x")
            await consumer
            consumer = q.consume(work, concurrency=concurrency, on_error=lambda err, item: reported.append(err))  # it is empty

            async def waits() -> bool:
                return (await q.info())["waiting"] > 0

            await self.until("it waits", waits)
            await consumer.stop()
            await q.delete()
            await q.consume(work, concurrency=concurrency, stop_when_empty=True, on_error=lambda err, item: reported.append(err))
            text = f"consume {q.name}: queue {q.name} does not exist yet: expected its first push, or another name (404)"
            self.assertEqual([(type(err), str(err)) for err in reported], [(NotFoundError, text)] * 2)

    async def test_drain_from_a_handler(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b"])
        consumers: list[Consumer] = []

        async def work(item: Item) -> None:
            consumers[0].drain()

        consumers.append(q.consume(work))
        await consumers[0]
        self.assertEqual((await q.info())["ready"], 1)


class Iteration(TestCase):
    async def test_items(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b", "c"])
        seen = []
        async for item in q.items(stop_when_empty=True):
            seen.append(item.text)
            async with item:
                if item.text == "b":
                    raise GiveUp("b")
        self.assertEqual(seen, ["a", "b", "c"])
        self.assertEqual((await q.info())["leased"], 0)
        await self.fails(q.pop(), EmptyError, 404, "empty")

    async def test_what_is_not_settled_is_given_back(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b"])
        seen = []
        async with contextlib.aclosing(q.items(lease=3)) as items:
            async for item in items:
                seen.append((item.text, item.deliveries))
                if len(seen) == 2:
                    await item.ack()
                if len(seen) == 3:
                    first = item.lease_expires
                    await self.until("its lease is extended", lambda: first and item.lease_expires and item.lease_expires > first)
                    break
        self.assertEqual(seen, [("a", 1), ("a", 2), ("b", 1)])
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"]), (1, 0))
