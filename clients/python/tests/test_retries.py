"""Backoff, attempts, holders, and leases that are taken away."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any


from pqbridge import BadRequestError, ConflictError, GiveUp, Item, LeaseLostError, Queue, RetryAfter, UnknownResultError
from world import PATIENCE, TestCase

SELF = f"{socket.gethostname()}-{os.getpid()}"


def away(item: Item) -> int:
    """In how many hours an item is ready again, rounded up; 0: it is."""
    if item.state == "ready":
        return 0
    assert item.not_before is not None
    return -int((datetime.now(timezone.utc) - item.not_before).total_seconds() // 3600)


def told(item: Item) -> list[tuple[int, str, str, str]]:
    return [(a.n, a.outcome, a.holder, a.reason) for a in item.last_attempts]


class Retries(TestCase):
    async def with_backoff(self, *delays: str) -> Queue:
        q = self.queue()
        await q.configure({"backoff": list(delays)})
        return q

    async def test_nak_under_a_backoff(self) -> None:
        q = await self.with_backoff("2h")
        cases: list[tuple[dict[str, Any], int, str]] = [
            ({}, 2, ""),
            ({"delay": 0}, 0, ""),
            ({"delay": "5h"}, 5, ""),
            ({"reason": "it is closed"}, 2, "it is closed"),
            ({"delay": 0, "reason": "€" * 1000}, 0, "€" * 66),
            ({"delay": 0, "reason": "a\nb\ud800"}, 0, "a b?"),
        ]
        for options, hours, reason in cases:
            id = (await q.push("x")).id
            item = await q.pop(lease="1m", holder="wörker 1")
            self.assertEqual((item.backoff, item.holder), (7200, ""))
            self.assertEqual((await q.get(id)).holder, "wörker 1")
            await item.nak(**options)
            back = await q.get(id, attempts=True)
            self.assertEqual((away(back), back.attempts, told(back)), (hours, 1, [(1, "nak", "wörker 1", reason)]))
            [one] = back.last_attempts
            self.assertTrue(one.start and one.start <= one.end)
            self.assertEqual((await q.get(id)).last_attempts, [])
            await q.remove(id)
        await q.push("x")
        item = await q.pop(lease="1m")
        await self.fails(item.nak(reason=5), TypeError)  # type: ignore[arg-type]
        await item.nak(0)
        for holder in ("", "a\x07", "é" * 65, " a"):
            await self.fails(q.pop(holder=holder), ValueError)

    async def test_holders(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b", "c"])
        first = await q.pop(lease="1m", holder="w1")
        second = await first.ack_next()
        assert second is not None
        self.assertEqual((second.backoff, (await q.get(second.id)).holder), (0, "w1"))
        third = await second.ack_next(holder="w2")
        assert third is not None
        self.assertEqual([(i.id, i.holder) async for i in q.list(state="leased", holder="w2")], [(third.id, "w2")])
        self.assertEqual([i.id async for i in q.list(state="leased", holder="w1")], [])
        await self.fails(anext(q.list(holder="w1")), BadRequestError, 400)

    async def test_revoke(self) -> None:
        q = self.queue()
        id = (await q.push("x")).id
        item = await q.pop(lease="1h", holder="w1")
        await self.fails(q.revoke(id, fence=item.fence + 1), BadRequestError, 400)
        await q.revoke(id, fence=item.fence, delay="1h", reason="it hangs")
        await self.fails(item.ack(), LeaseLostError, 410, "taken")
        await self.fails(q.revoke(id), ConflictError, 409, "not_leased")
        [listed] = [i async for i in q.list(state="delayed", attempts=True)]
        self.assertEqual((listed.attempts, [(a.outcome, a.holder, a.reason) for a in listed.last_attempts]), (1, [("revoked", "w1", "it hangs")]))
        with self.assertRaises(ValueError):
            await q.revoke(id, fence=0)

    async def test_revoke_whose_answer_is_lost(self) -> None:
        q = self.queue()
        id = (await q.push("x")).id
        item = await q.pop(lease="1h")
        client, lost = await self.lossy()
        await client.queue(q.name).revoke(id, fence=item.fence)
        self.assertEqual(lost, ["revoke"])
        await q.pop(lease="1h")
        client, _ = await self.lossy(timeout=0.5)
        await self.fails(client.queue(q.name).revoke(id), UnknownResultError, 504)
        self.assertEqual((await q.get(id)).state, "ready")  # it was done once

    async def test_consume_under_a_backoff(self) -> None:
        cases: list[tuple[Callable[[int], str] | None, int]] = [(None, 2), (lambda n: "10h", 10)]
        for own, hours in cases:
            q = await self.with_backoff("2h")
            id = (await q.push("x")).id
            held = ""

            async def work(item: Item) -> None:
                nonlocal held
                held = (await q.get(item.id)).holder
                raise RuntimeError("it is closed")

            await q.consume(work, limit=1, backoff=own, on_error=lambda err, item: None)
            back = await q.get(id, attempts=True)
            self.assertEqual((held, away(back), told(back)), (SELF, hours, [(1, "nak", SELF, f"RuntimeError: it is closed (test_retries.py:{work.__code__.co_firstlineno + 3} in work)")]))

    async def test_what_nobody_worked_on(self) -> None:
        q = await self.with_backoff("1h")
        id = (await q.push("x")).id
        begun = asyncio.Event()

        async def work(item: Item) -> None:
            begun.set()
            await asyncio.sleep(PATIENCE)

        consumer = q.consume(work, holder="w1")
        await begun.wait()
        await consumer.stop(grace=0)
        self.assertEqual((await q.get(id)).state, "ready")
        items = q.items(holder="w1")
        async for item in items:
            break
        await items.aclose()
        self.assertEqual((await q.get(id)).state, "ready")
        async for item in q.items(stop_when_empty=True):
            pass  # passed over
        self.assertEqual((await q.get(id)).state, "delayed")

    async def test_what_attempts_say(self) -> None:
        q = self.queue()
        await q.push_many(["fails", "later", "caused", "bare", "wordy", "hopeless"])

        async def work(item: Item) -> None:
            match item.text:
                case "fails":
                    raise ValueError("it is closed")
                case "later":
                    raise RetryAfter("1h")
                case "caused":
                    raise RetryAfter("1h") from OSError("busy")
                case "bare":
                    raise ValueError
                case "wordy":
                    open("€" * 500)
                case _:
                    raise GiveUp("it cannot be done")

        await q.consume(work, limit=6, holder="w1", backoff=lambda n: "1h", on_error=lambda err, item: None)
        reasons = sorted([i.last_attempts[0].reason async for i in q.list(state="delayed", attempts=True)])
        line = work.__code__.co_firstlineno
        where = [f" (test_retries.py:{line + n} in work)" for n in (3, 9, 11)]
        wordy = reasons.pop(0)
        self.assertEqual((wordy[:7], wordy[wordy.index("…") :]), ("OSError", "…" + where[2]))
        self.assertEqual(reasons, ["OSError: busy", "RetryAfter: again in 1h", "ValueError" + where[1], "ValueError: it is closed" + where[0]])
        dead = self.client.queue(q.name + "-dead")
        self.assertEqual(told(await dead.get((await dead.peek()).id, attempts=True)), [(1, "terminated", "w1", "it cannot be done")])
