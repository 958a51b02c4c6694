"""Sources: streams that feed a queue."""

from __future__ import annotations

import json
import unittest
from datetime import datetime, timezone
from typing import Any

from pqbridge import BadRequestError, ForbiddenError, NotFoundError, SourceChange, UnknownResultError, sync
from world import PATIENCE, URL, Answer, TestCase, quiet

ORDERS: SourceChange = {"remote": "self", "stream": "ORDERS"}
QUEUE = "copies"  # which may read it
AT = datetime(2099, 1, 31, 9, 0, 0, 500_000, tzinfo=timezone.utc)


class Sources(TestCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.q = self.client.queue(QUEUE)
        stream = {"name": "ORDERS", "subjects": ["orders.>"]}
        await self.client.connection.request("$JS.API.STREAM.CREATE.ORDERS", json.dumps(stream).encode(), timeout=PATIENCE)

    async def publish(self, text: str, headers: dict[str, str] | None = None) -> int:
        m = await self.client.connection.request("orders.eu", text.encode(), timeout=PATIENCE, headers=headers)
        return int(json.loads(m.data)["seq"])

    async def test_make_show_change_remove(self) -> None:
        q = self.q
        await self.fails(q.source("s"), NotFoundError, 404, "unknown")
        made = await q.set_source("s", {**ORDERS, "filter": ("orders.eu", "orders.us"), "start": 2**60 + 1, "batch": 7, "paused": True, "map": {"priority": {"header": "Prio", "default": 9}, "key": {"token": 2}, "weight": 3}})
        self.assertEqual((made.name, made.remote, made.stream, made.mode, made.filter, made.start, made.batch), ("s", "self", "ORDERS", "copy", ["orders.eu", "orders.us"], 2**60 + 1, 7))
        self.assertEqual((made.paused, made.state, made.reason, made.since, made.seq, made.time, made.lag), (True, "paused", "", None, 0, None, 0))
        self.assertEqual(made.map, {"priority": {"header": "Prio", "default": "9"}, "key": {"token": 2}, "weight": "3"})
        self.assertEqual(await q.source("s"), made)
        changed = await q.set_source("s", {"filter": [], "map": {}})
        self.assertEqual((changed.filter, changed.map, changed.start), ((), {}, made.start))
        self.assertEqual(((await q.resume_source("s")).paused, (await q.pause_source("s")).paused), (False, True))
        await q.delete_source("s")
        await self.fails(q.delete_source("s"), NotFoundError, 404, "unknown")
        self.assertEqual((await q.set_source("s", {**ORDERS, "start": AT, "paused": True})).start, AT)
        self.assertEqual((await q.set_source("t", {**ORDERS, "start": "new", "paused": True})).start, "new")
        self.assertEqual([s.name async for s in q.sources(page=1)], ["s", "t"])
        self.assertEqual([s.name async for s in q.sources(after="s")], ["t"])
        client, _ = await self.lossy(timeout=0.5)
        await self.fails(client.queue(QUEUE).resume_source("t", accept=True), UnknownResultError, 504)
        for name in "st":
            await q.delete_source(name)

    async def test_it_feeds(self) -> None:
        q = self.q
        seq = await self.publish("a book", {"Nats-Msg-Id": "order-7", "Season": "autumn"})
        await q.set_source("orders", {**ORDERS, "start": seq})
        item = await q.pop(wait=PATIENCE)
        assert item.source and item.source.time
        self.assertEqual((item.text, item.headers), ("a book", {"Season": ["autumn"]}))
        self.assertEqual((item.source.name, item.source.subject, item.source.seq, item.source.msg_id), ("orders", "orders.eu", seq, "order-7"))
        self.assertLess(abs((datetime.now(timezone.utc) - item.source.time).total_seconds()), PATIENCE)
        shown = await q.source("orders")
        self.assertEqual((shown.seq, shown.time, shown.counts.delivered), (seq, item.source.time, 1))

        # A message that is no item stops it.
        poison = await self.publish("too many headers", {f"H{n}": "x" for n in range(1001)})
        await self.publish("a pen")

        async def stopped() -> bool:
            return (await q.source("orders")).state == "stopped"

        await self.until("it has stopped", stopped)
        shown = await q.source("orders")
        self.assertTrue(shown.reason.startswith("poisoned: ") and shown.since is not None, shown)
        await self.fails(q.resume_source("orders"), BadRequestError, 400)
        self.assertEqual((await q.resume_source("orders", skip=True)).counts.poisoned, 1)
        item = await q.pop(wait=PATIENCE)
        self.assertEqual(item.source and item.source.seq, poison + 1)
        await q.resume_source("orders", from_time=shown.time)
        self.assertEqual((await q.pop(wait=PATIENCE)).text, "a book")
        await q.pause_source("orders")
        self.assertEqual((await q.resume_source("orders", from_seq=2**62 + 2)).seq, 2**62 + 1)
        await q.delete_source("orders")

    async def test_wrong(self) -> None:
        q = self.q
        for name in ("a.b", "", "s" * 65):
            await self.fails(q.source(name), ValueError)
        wrong: list[dict[str, Any]] = [{"streams": "ORDERS"}, {"mode": "move"}, {"start": "last"}, {"start": 0}, {"start": datetime(2099, 1, 31)}]
        for change in wrong:
            with self.assertRaises(ValueError, msg=str(change)):
                await q.set_source("s", change)  # type: ignore[arg-type]
        await self.fails(q.set_source("s", {"start": None}), TypeError)  # type: ignore[typeddict-item]
        await self.fails(q.resume_source("s", skip=True, accept=True), ValueError)
        await self.fails(q.set_source("s", {"remote": "self"}), BadRequestError, 400)
        await self.fails(q.set_source("s", {**ORDERS, "stream": "AUDIT"}), ForbiddenError, 403)
        await self.fails(self.client.queue("mail").set_source("s", ORDERS), ForbiddenError, 403)
        fake = await self.fake(lambda verb, n, m: Answer(body=json.dumps({**ORDERS, "name": "s", "start": "first"})))
        await self.fails(fake.client.queue(QUEUE).source("s"), UnknownResultError, 504)


class Synchronous(unittest.TestCase):
    def test_calls(self) -> None:
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(QUEUE)
        q.set_source("s", {**ORDERS, "paused": True})
        self.assertEqual([s.state for s in q.sources()], ["paused"])
        self.assertTrue(q.source("s").paused and not q.resume_source("s", from_seq=2**40).paused and q.pause_source("s").paused)
        q.delete_source("s")


if __name__ == "__main__":
    unittest.main()
