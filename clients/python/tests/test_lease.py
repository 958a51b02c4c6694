"""Leases: settlements, extension, what is given back."""

from __future__ import annotations

import asyncio
from typing import Any

from pqbridge import BadRequestError, GiveUp, LeaseLostError, NotLeasedError, RetryAfter, SettledError
from world import PATIENCE, TestCase


class Leases(TestCase):
    async def test_settlements(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b", "c"])
        a = await q.pop(lease="30s")
        before = a.lease_expires
        await a.extend()
        self.assertTrue(before and a.lease_expires and a.lease_expires >= before)
        await a.nak()
        again = await q.pop(lease=30)
        self.assertEqual((again.text, again.deliveries, again.fence), ("a", 2, 2))
        await self.fails(a.ack(), SettledError)
        b = await again.ack_next()
        assert b is not None
        self.assertEqual((b.text, b.lease_term), ("b", 30))
        await b.nak(delay="1h")
        c = await q.pop(lease=30)
        await c.term("no good" + " " * 100_000 + "bad")
        dead = await self.client.queue(q.name + "-dead").pop(lease=30)
        assert dead.dead is not None
        self.assertEqual((dead.text, dead.dead.reason, dead.dead.origin, dead.dead.origin_id), ("c", "no good", q.name, c.id))
        self.assertIsNone(await dead.ack_next())
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"], info["delayed"]), (0, 0, 1))

    async def test_progress(self) -> None:
        """The next holder gets what the one before has said, alone or beside others, and hears what was dropped."""
        q = self.queue()
        await q.configure({"max_bytes": 4000})
        await q.push("a")
        item = await q.pop(lease="1m")
        self.assertEqual((item.progress, item.progress_at), ("", None))
        before = item.lease_expires
        for text in ("1 of 9", '{"page": 3, "zu": "spät"}', "p" * 4096):
            self.assertTrue(await item.report(text))
            found = await q.get(item.id)
            self.assertEqual(found.progress, text)
            self.assertIsNotNone(found.progress_at)
        self.assertTrue(before and item.lease_expires and item.lease_expires >= before)
        await item.extend()
        await item.nak()
        again = await q.pop(lease="1m")
        self.assertEqual(again.progress, "p" * 4096)
        other = self.client.attach(again.ack_subject)
        self.assertEqual(await asyncio.gather(again.report("4 of 9"), other.report("4 of 9"), again.extend()), [True, True, None])
        await q.configure({"max_bytes": 1})
        self.assertEqual(await asyncio.gather(again.report("x" * 1000), other.report("y" * 1000)), [False, False])
        self.assertFalse(await again.report("z" * 4096))
        self.assertEqual((await q.get(again.id)).progress, "4 of 9")
        await self.fails(again.report("two\nlines"), BadRequestError, 400)
        wrong: Any = 3
        await self.fails(again.report(wrong), TypeError)
        await again.ack()
        await self.fails(again.report("late"), SettledError)

    async def test_give_back(self) -> None:
        q = self.queue()
        await q.push("a")
        await (await q.pop(lease="1m")).give_back()
        item = await q.pop(lease="1m")
        await item.give_back("stopped")
        await self.fails(item.give_back(), SettledError)
        stored = await q.get(item.id, attempts=True)
        self.assertEqual([(a.outcome, a.reason) for a in stored.last_attempts], [("back", "stopped")])

    async def test_lost(self) -> None:
        q = self.queue()
        await q.push("a")
        item = await q.pop(lease="1m")
        await q.purge()
        err = await self.fails(item.ack(), LeaseLostError, 410, "gone")
        self.assertEqual((err.op, err.queue), ("ack", q.name))
        await q.push("b")
        plain = await q.pop()
        await self.fails(plain.ack(), NotLeasedError)
        with self.assertRaises(NotLeasedError):
            plain.hold()

    async def test_attach(self) -> None:
        q = self.queue()
        await q.push("a")
        item = await q.pop(lease="1m")
        other = await self.connect()
        await other.attach(item.ack_subject).ack()
        self.assertEqual((await q.info())["leased"], 0)
        for wrong in ("pq.x.push", f"xx.{q.name}.ack.c.t", f"pq.{q.name}.ack.c.t.u", "pq._x.ack.c.t"):
            with self.assertRaises(ValueError):
                other.attach(wrong)

    async def test_hand_over(self) -> None:
        one, two = self.queue(), self.queue()
        await one.configure({"hand_over": two.name})
        await one.push("order")
        item = await one.pop(lease="1m")
        done = await item.hand_over(two, "pizza")
        self.assertTrue(item.settled and not done.duplicate)
        self.assertEqual(((await one.info())["leased"], (await two.pop()).text), (0, "pizza"))

    async def test_ack_many(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(4)])
        items = await q.pop_many(4, lease="1m")
        await items[0].ack()
        await self.client.attach(items[1].ack_subject).ack()
        results = await q.ack_many(items)
        self.assertEqual([type(r) for r in results], [SettledError, LeaseLostError, type(None), type(None)])
        self.assertTrue(all(i.settled for i in items))
        with self.assertRaises(ValueError):
            await self.queue().ack_many(items)

    async def test_blocks_settle(self) -> None:
        q = self.queue()
        dead = self.client.queue(q.name + "-dead")
        await q.push("a")
        async with await q.pop(lease="1m"):
            pass
        self.assertEqual((await q.info())["leased"], 0)
        await q.push("b")
        async with await q.pop(lease="1m"):
            raise GiveUp("why")
        self.assertEqual((await dead.info())["ready"], 1)
        await q.push("c")
        async with await q.pop(lease="1m"):
            raise RetryAfter("1h")
        self.assertEqual((await q.info())["delayed"], 1)
        fails = self.queue()
        await fails.configure({"backoff": ["1h"]})  # or it is back before a busy machine has looked
        await fails.push("d")
        with self.assertRaises(ZeroDivisionError):
            async with await fails.pop(lease="1m"):
                1 / 0
        self.assertEqual((await fails.info())["delayed"], 1)
        await q.push("e")
        async with await q.pop(lease="1m") as item:
            await item.nak()
        self.assertEqual((await q.info())["ready"], 1)

        async def work() -> None:
            async with await q.pop(lease="1m"):
                held.set()
                await asyncio.sleep(PATIENCE)

        held = asyncio.Event()
        task = asyncio.create_task(work())
        await held.wait()
        task.cancel()
        await asyncio.wait({task})
        self.assertTrue(task.cancelled())
        self.assertEqual((await q.pop()).text, "e")  # given back, without a delay

    async def test_a_block_keeps_its_lease(self) -> None:
        q = self.queue()
        await q.push("a")
        async with await q.pop(lease=3) as item:
            first = item.lease_expires
            await self.until("the lease was extended twice", lambda: first and item.lease_expires and (item.lease_expires - first).total_seconds() > 1.5)
        self.assertEqual((await q.info())["leased"], 0)

    async def test_a_lost_lease_cancels_the_block(self) -> None:
        q = self.queue()
        await q.push("a")
        with self.assertRaises(LeaseLostError):
            async with await q.pop(lease=0.3):
                await q.purge()
                await asyncio.sleep(PATIENCE)
                self.fail("the block goes on")
        await asyncio.sleep(0)  # this task is not cancelled
        await q.push("b")
        with self.assertRaises(LeaseLostError):
            async with (await q.pop(lease=0.3)).hold():
                await q.purge()
                await asyncio.sleep(PATIENCE)
                self.fail("the block goes on")

    async def test_a_pop_that_is_cancelled_gives_back_what_arrives(self) -> None:
        q = self.queue()
        other = self.queue(await self.connect())
        other.name = q.name
        pop = asyncio.create_task(q.pop(lease="1h", wait="1m"))

        async def waits() -> bool:
            return (await other.info())["waiting"] == 1

        await other.configure({"lease": "1h"})
        await self.until("the pop waits", waits)
        pop.cancel()
        await asyncio.wait({pop})
        await other.push("a")
        self.assertEqual((await other.pop(wait=PATIENCE, timeout=PATIENCE)).text, "a")
