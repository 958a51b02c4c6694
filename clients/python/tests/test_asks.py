"""The workers of a consumer ask together, beside the settlements of what they have done."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import AsyncMock, patch

from pqbridge import Item, LeaseLostError, NewItem
from pqbridge.asks import Asks
from pqbridge.supply import Supply
from pqbridge.taking import Selection
from test_together import Holding, size
from world import PATIENCE, Answer, TestCase, failure, fresh


class Consuming(TestCase):
    async def test_workers_ask_together(self) -> None:
        """One pop for as many items as workers are idle, none for a busy one. The settlement and the next ask leave at
        the same time, and the next item begins when both are answered."""
        given = iter(range(1000))
        acks = Holding()

        def item(n: int) -> str:
            return f"PQ-Id: i{n}\nPQ-Ack: {f.prefix}.jobs.ack.c.t{n}\n"

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if "ack" in verb:
                acks.answer(f, m, Answer(body="+OK\n" * size(m)))
                return None
            asked = json.loads(m.data).get("bundle", 1)
            asks.append(asked)
            if sum(asks) > 16:
                return None
            if asked == 1:
                one = next(given)
                return Answer({"PQ-Id": f"i{one}", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t{one}"})
            several = [item(next(given)) for _ in range(asked)]
            return Answer({"PQ-Bundle": str(asked)}, "".join(f"{len(one)} 0\n{one}\n" for one in several))

        asks: list[int] = []
        f = await self.fake(respond, ask_again_after=PATIENCE)
        begun: list[str] = []
        go = asyncio.Event()

        async def work(item: Item) -> None:
            begun.append(item.id)
            await go.wait()

        consumer = f.client.queue("jobs").consume(work, concurrency=8)
        await self.until("all work", lambda: len(begun) == 8)
        self.assertEqual(asks, [1, 1, 6])
        go.set()
        await self.until("all have asked again", lambda: sum(asks) == 16)
        await f.client.connection.flush()
        self.assertEqual((asks, len(begun)), ([1, 1, 6] * 2, 8))
        acks.told.set()
        await self.until("all have begun again", lambda: len(begun) == 16)
        await consumer.stop()

    async def test_the_next_item_is_held_during_a_settlement(self) -> None:
        """If its lease is lost all the same, nobody begins with it."""
        for lost in (False, True):
            with self.subTest(lost=lost):
                acks, given, held = Holding(), iter("abc"), asyncio.Event()

                def respond(verb: str, n: int, m: Any) -> Answer | None:
                    if "ack" not in verb:
                        one = next(given, None)
                        return None if one is None else Answer({"PQ-Id": one, "PQ-Ack": f"{f.prefix}.jobs.ack.c.{one}"})
                    if m.data == b"+WPI" and m.subject.endswith(".b"):
                        held.set()
                        return failure(410, "taken") if lost else Answer()
                    if m.data == b"+WPI":
                        return Answer()
                    acks.answer(f, m, Answer())
                    return None

                f = await self.fake(respond, ask_again_after=PATIENCE)
                begun: list[str] = []
                errors: list[tuple[str, type[BaseException]]] = []

                async def work(item: Item) -> None:
                    begun.append(item.id)

                def report(err: BaseException, item: Item | None) -> None:
                    errors.append((item.id if item else "", type(err)))

                consumer = f.client.queue("jobs").consume(work, lease=3, on_error=report)
                await held.wait()
                for connection in (f.bridge, f.client.connection) * 3:
                    await connection.flush()
                self.assertEqual(begun, ["a"])
                acks.told.set()
                await self.until("it goes on", lambda: len(begun) == (2 if lost else 3))
                self.assertEqual((begun, errors), (["a", "c"], [("b", LeaseLostError)]) if lost else (["a", "b", "c"], []))
                await consumer.stop()

    async def test_an_ask_that_gets_fewer_items(self) -> None:
        """The other workers ask again."""
        q = self.queue()
        seen: list[str] = []

        async def work(item: Item) -> None:
            seen.append(item.text)

        async with q.consume(work, concurrency=10):
            for n in range(20):
                await q.push(str(n))
            await self.until("all are done", lambda: len(seen) == 20)
        self.assertEqual(sorted(map(int, seen)), list(range(20)))

    async def test_a_wait_of_workers_is_one_subscription(self) -> None:
        c = await self.connect()
        q = c.queue(fresh())
        await q.configure({})
        before = set(c.connection._subs)
        consumer = q.consume(lambda item: asyncio.sleep(0), concurrency=10)

        async def waiting() -> bool:
            return (await self.client.queue(q.name).info())["waiting"] == 3

        await self.until("they wait", waiting)
        self.assertEqual(len(set(c.connection._subs) - before), 3 + (not before))  # two are for bells
        await consumer.stop()
        await self.client.queue(q.name).push("late")
        self.assertEqual((await self.client.queue(q.name).pop(lease="1h")).deliveries, 1)

    async def test_stop_when_empty_behind_a_settlement(self) -> None:
        """The pop overtakes the acknowledgement, and finds nothing because of it."""
        acks, pops = Holding(), list[int]()

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if "ack" in verb:
                acks.answer(f, m, Answer())
                return None
            pops.append(n)
            if len(pops) == 2:
                asyncio.get_running_loop().call_later(0.02, acks.told.set)
            if len(pops) in (1, 3):
                return Answer({"PQ-Id": f"i{len(pops)}", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t{len(pops)}"})
            return failure(404, "leased")

        f = await self.fake(respond, ask_again_after=PATIENCE)
        seen: list[str] = []

        async def work(item: Item) -> None:
            seen.append(item.id)

        await f.client.queue("jobs").consume(work, stop_when_empty=True, limit=2)
        self.assertEqual((seen, len(pops)), (["i1", "i3"], 3))

    async def test_a_worker_without_an_item_may_ask_at_once(self) -> None:
        """It has its place of the limit back when it hears that there is nothing, and not a pass of the loop later."""
        f = await self.fake(lambda verb, n, m: None)
        supply = Supply(f.client.queue("jobs"), "min", Selection(), 1, True, lambda err, item: None)
        for answers in ({"return_value": None}, {"side_effect": OSError("no")}):
            with patch.object(supply, "take", AsyncMock(**answers)):
                asks = Asks(supply)
                worker = asks.ask()
                self.assertFalse(supply.reserve())
                await asks._pop([worker])
                self.assertTrue(worker.done() and supply.reserve())
                supply.release()
                worker.exception()
                asks.stop()
                await asks.left()

    async def test_a_limit_holds(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(100)])
        seen: list[str] = []

        async def work(item: Item) -> None:
            seen.append(item.text)

        await q.consume(work, concurrency=64, limit=5)
        info = await q.info()
        self.assertEqual((len(seen), info["ready"], info["leased"]), (5, 95, 0))

    async def test_what_comes_at_the_end_goes_back(self) -> None:
        q = self.queue()
        await q.configure({})
        for n in range(5):
            consumer = q.consume(lambda item: asyncio.sleep(0), concurrency=20)

            async def waiting() -> bool:
                return (await q.info())["waiting"] > 0

            await self.until("they wait", waiting)
            push = asyncio.ensure_future(q.push_many([NewItem(str(i)) for i in range(30)]))
            await asyncio.sleep(0)
            consumer.drain()
            await consumer.stop()
            await push

            async def nothing() -> bool:
                return (await q.info())["leased"] == 0

            await self.until("nothing is leased", nothing)
            left = [item async for item in q.list()]
            self.assertTrue(all(item.interruptions == 0 and item.failures == 0 for item in left))
            await q.purge()

    async def test_a_shared_failure_is_told_once(self) -> None:
        told: list[BaseException] = []
        f = await self.fake(lambda verb, n, m: failure(500) if b"bundle" in m.data else None, ask_again_after=PATIENCE)
        consumer = f.client.queue("jobs").consume(lambda item: asyncio.sleep(0), concurrency=10, on_error=lambda err, item: told.append(err))
        await self.until("it is told", lambda: told)
        self.assertEqual(len(told), 1)
        await consumer.stop()
