"""Links: what gives the items of a queue to another store."""

from __future__ import annotations

import json
import unittest
from datetime import datetime, timezone
from typing import Any

from pqbridge import BadRequestError, ConflictError, ForbiddenError, NotFoundError, Queue, SourceChange, UnknownResultError, sync
from world import PATIENCE, URL, Answer, TestCase, fresh, quiet

TO = "another-store"


class Links(TestCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.q = self.client.queue(fresh())

    async def taken(self, q: Queue, done: int, batch: str = "") -> str:
        """What a taker asks for; the id of its batch."""
        ask = {"taker": TO, "done": done, "batch": batch}
        m = await self.client.connection.request(f"pq.{q.name}.link.hub", json.dumps(ask).encode(), timeout=PATIENCE)
        assert m.headers
        return str(m.headers["PQ-Link-Batch"].split(" ")[1])

    async def test_make_show_pause_remove(self) -> None:
        q = self.q
        await self.fails(q.link("hub"), NotFoundError, 404, "unknown")
        made = await q.set_link("hub", {"to": TO})
        self.assertEqual((made.name, made.to, made.paused, made.state, made.batch, made.held, made.since, made.given), ("hub", TO, False, "starting", 0, 0, None, 0))
        self.assertEqual(await q.link("hub"), made)
        self.assertEqual((await q.set_link("hub", {"paused": True})).state, "paused")
        self.assertEqual(((await q.resume_link("hub")).paused, (await q.pause_link("hub")).paused), (False, True))
        await q.set_link("a", {"to": TO})
        self.assertEqual([found.name async for found in q.links(page=1)], ["a", "hub"])
        self.assertEqual([found.name async for found in q.links(after="a")], ["hub"])
        self.assertEqual(await q.delete_link("hub"), 0)
        await self.fails(q.delete_link("hub"), NotFoundError, 404, "unknown")

    async def test_held(self) -> None:
        q = self.q
        await q.set_link("hub", {"to": TO})
        id = (await q.push("a")).id
        self.assertFalse((await q.get(id)).held)
        first = await self.taken(q, 0)
        held = await q.get(id)
        self.assertEqual((held.held, held.state, held.holder, held.lease_expires, held.headers), (True, "leased", "link:hub", None, {}))
        self.assertEqual([(i.id, i.held, i.due) async for i in q.list(state="leased")], [(id, True, None)])
        info = await q.info()
        self.assertEqual((info["leased"], info["held"]), (1, 1))
        shown = await q.link("hub")
        assert shown.since
        self.assertEqual((shown.state, shown.batch, shown.held, shown.given), ("running", 1, 1, 0))
        self.assertLess(abs((datetime.now(timezone.utc) - shown.since).total_seconds()), PATIENCE)
        await self.fails(q.remove(id), ConflictError, 409, "held")
        await q.push("b")
        await self.taken(q, 1, first)
        self.assertEqual((await q.link("hub")).given, 1)
        await self.fails(q.delete_link("hub"), ConflictError, 409, "held")
        self.assertEqual(await q.delete_link("hub", force=True), 1)
        self.assertNotIn("held", await q.info())
        self.assertEqual((await q.pop()).text, "b")

    async def test_source(self) -> None:
        q = self.client.queue("linked")  # the one that may take them
        edge: SourceChange = {"remote": "self", "queue": "edge7.orders", "link": "hub"}
        made = await q.set_source("edge", {**edge, "batch": 7, "paused": True})
        self.assertEqual((made.stream, made.queue, made.link, made.mode, made.start, made.batch), ("", "edge7.orders", "hub", "", None, 7))
        self.assertEqual([s async for s in q.sources()], [made])
        await self.fails(q.set_source("edge", {"link": "other"}), BadRequestError, 400)
        await self.fails(self.client.queue("mail").set_source("edge", edge), ForbiddenError, 403)
        await q.delete_source("edge")

    async def test_repeat(self) -> None:
        await self.q.set_link("hub", {"to": TO, "paused": True})
        client, _ = await self.lossy()
        self.assertFalse((await client.queue(self.q.name).resume_link("hub")).paused)
        client, _ = await self.lossy(timeout=0.5)
        await self.fails(client.queue(self.q.name).delete_link("hub"), UnknownResultError, 504)

    async def test_wrong(self) -> None:
        q = self.q
        for name in ("a.b", "", "s" * 65):
            await self.fails(q.link(name), ValueError)
        wrong: list[Any] = [{"too": TO}, "x"]
        for change, error in zip(wrong, (ValueError, TypeError)):
            await self.fails(q.set_link("hub", change), error)
        await self.fails(q.set_link("hub", {}), BadRequestError, 400)
        await q.set_link("hub", {"to": TO})
        await self.fails(q.set_link("hub", {"to": "other"}), BadRequestError, 400)
        fake = await self.fake(lambda verb, n, m: Answer(body=json.dumps({"name": "hub", "to": TO})))
        await self.fails(fake.client.queue("q").link("hub"), UnknownResultError, 504)


class Synchronous(unittest.TestCase):
    def test_calls(self) -> None:
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(fresh())
        q.set_link("hub", {"to": TO})
        self.assertEqual([found.state for found in q.links()], ["starting"])
        self.assertTrue(q.link("hub").to == TO and q.pause_link("hub").paused and not q.resume_link("hub").paused)
        self.assertEqual(q.delete_link("hub"), 0)


if __name__ == "__main__":
    unittest.main()
