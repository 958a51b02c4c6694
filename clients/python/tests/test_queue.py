"""Items and queues: what a push says, a pop shows; what an administrator asks for, happens."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from pqbridge import BadRequestError, BusyError, ConflictError, Death, EmptyError, Import, LeaseLostError, NewItem, NotFoundError, Queue, TooLargeError, UnavailableError
from world import Answer, TestCase, fresh, pushed


class Queues(TestCase):
    async def test_both_ends(self) -> None:
        q = self.queue()
        for priority, text in ((5, "news"), (-1, "fire"), (9, "desk"), (-(2**63), "first"), (2**63 - 1, "last")):
            done = await q.push(text, priority=priority)
            self.assertEqual(done.priority, priority)
            self.assertFalse(done.duplicate)
        self.assertEqual((await q.peek(end="max")).text, "last")
        self.assertEqual((await q.pop()).priority, -(2**63))
        self.assertEqual((await q.pop(end="max")).priority, 2**63 - 1)
        self.assertEqual((await q.pop(min=0, max=6)).text, "news")
        await self.fails(q.pop(min=10), EmptyError, 404, "band")
        self.assertEqual([i.text for i in await q.peek_many(10)], ["fire", "desk"])
        self.assertEqual([i.text for i in await q.pop_many(10, end="max")], ["desk", "fire"])
        await self.fails(q.pop(), EmptyError, 404, "empty")
        await self.fails(q.peek(wait=0.02), EmptyError, 408)

    async def test_all_that_an_item_has(self) -> None:
        q = self.queue()
        start = datetime.now(timezone.utc) - timedelta(seconds=5)
        await q.push(b"\x00\xff", priority=3, headers={"Where": "kitchen", "Many": ["one", "two"]}, key="ann & bob", unique="u", ttl="1h")
        shown = await q.peek()
        self.assertEqual((shown.data, shown.priority, shown.key, shown.headers["Where"], shown.leased), (b"\x00\xff", 3, "ann & bob", ["kitchen"], False))
        self.assertTrue(shown.pushed and start < shown.pushed)
        item = await q.get(shown.id)
        self.assertEqual((item.state, item.unique, item.key_ahead), ("ready", "u", 0))
        self.assertTrue(item.expires and item.expires > start + timedelta(minutes=50))
        [whole] = await q.pop_many(1)
        self.assertEqual(whole.headers, {"Where": ["kitchen"], "Many": ["one", "two"]})

    async def test_push_many(self) -> None:
        q = self.queue()
        done = await q.push_many(["a", NewItem("b", priority=-1, headers={"H": "ü"}), NewItem(b"c", msg_id="c", key="k"), NewItem("d", delay="1h")])
        self.assertEqual([d.priority for d in done], [0, -1, 0, 0])
        again = await q.push_many([NewItem(b"c", msg_id="c")])
        self.assertEqual((again[0].id, again[0].duplicate), (done[2].id, True))
        self.assertEqual([i.text for i in await q.pop_many(9)], ["b", "a", "c"])
        self.assertEqual((await q.get(done[3].id)).state, "delayed")
        self.assertEqual(await q.push_many([]), [])
        err = await self.fails(q.push_many(["x", NewItem("y", headers={"Nats-TTL": "5s"})]), BadRequestError, 400)
        self.assertEqual((err.item, err.queue), (1, q.name))
        await q.configure({"max_length": 2})
        none = await self.connect(retry_for=0.001)
        err = await self.fails(none.queue(q.name).push_many(["x", "y", "z"]), BusyError, 429, "full")
        self.assertEqual(err.item, 1)

    async def test_import(self) -> None:
        q, to = self.queue(), self.queue()
        now = datetime.now(timezone.utc)
        await q.push(b"\x00x", priority=4, headers={"Season": "autumn"}, key="ann", unique="u", unique_until="leased", delay="1h", ttl="2h")
        [listed] = [item async for item in q.list(state="delayed")]
        item = await q.get(listed.id)
        await q.move(item.id, -2)
        moved = await q.get(item.id)
        self.assertEqual((await to.import_item(Import.of(moved))).priority, -2)
        self.assertTrue((await to.import_item(Import.of(moved))).duplicate)
        found = await to.get(item.id)
        for name in ("id", "data", "priority", "headers", "key", "unique", "unique_until", "state", "pushed"):
            self.assertEqual(getattr(found, name), getattr(moved, name), name)
        for name in ("not_before", "expires"):
            self.assertAlmostEqual(getattr(found, name), getattr(moved, name), delta=timedelta(seconds=1), msg=name)
        self.assertTrue(found.not_before and found.not_before > now + timedelta(minutes=50))
        await self.fails(to.import_item(Import(item.id, "another")), ConflictError, 409, "occupied")

        await q.push("dies", headers={"H": "1"})
        await (await q.pop(lease="1m")).term("why")
        dead = await self.client.queue(q.name + "-dead").pop(lease="1m")
        history = Import.of(await self.client.queue(q.name + "-dead").get(dead.id))
        await to.import_item(replace(history, fence=2**62))
        again = await to.pop(lease="1m")
        self.assertEqual((again.dead, again.pushed, again.deliveries), (dead.dead, dead.pushed, 2))
        self.assertGreater(again.fence, 2**62)
        with self.assertRaisesRegex(ValueError, "expected 1 to"):
            await to.import_item(Import("?", "x"))

    async def test_when(self) -> None:
        q = self.queue()
        await q.push("later", not_before=datetime.now(timezone.utc) + timedelta(hours=1))
        await q.push("soon", delay=timedelta(milliseconds=30))
        self.assertEqual((await q.pop(wait=30)).text, "soon")
        await q.push("gone", ttl=0.001)
        await self.until("it has expired", lambda: self._reason(q, "delayed"))

    async def _reason(self, q: Queue, reason: str) -> bool:
        try:
            await q.peek()
        except EmptyError as err:
            return err.reason == reason
        return False

    async def test_once(self) -> None:
        q = self.queue()
        first = await q.push("a", msg_id="one")
        second = await q.push("a", msg_id="one")
        self.assertEqual((second.id, second.duplicate), (first.id, True))
        await q.push("draft 1", unique="7", priority=5, key="k")
        replaced = await q.push("draft 2", unique="7", on_conflict="replace", key="k")
        self.assertTrue(replaced.duplicate)
        raised = await q.push("x", unique="7", on_conflict="raise", priority=-3)
        self.assertEqual((raised.priority, (await q.pop(lease=60)).text), (-3, "draft 2"))
        await self.fails(q.push("x", unique="7", on_conflict="replace", key="k"), ConflictError, 409, "leased")
        taken = [await q.pop(pop_id="p", max=0) for _ in range(2)]
        self.assertEqual([i.id for i in taken], [first.id, first.id])

    async def test_administration(self) -> None:
        q = self.queue()
        self.assertEqual((await q.configure({"lease": "30s", "max_deliveries": 3}))["max_deliveries"], 3)
        self.assertEqual((await q.config())["lease"], "30s")
        ids = [(await q.push(str(n), priority=n)).id for n in range(5)]
        await q.move(ids[4], -1)
        await q.remove(ids[0])
        await self.fails(q.get(ids[0]), NotFoundError, 404, "unknown")
        self.assertEqual([i.priority async for i in q.list(page=2)], [-1, 1, 2, 3])
        listed = [i async for i in q.list(bodies=True, min=-5, max=1, after=ids[4])]
        self.assertEqual([(i.data, i.id, i.state) for i in listed], [(b"1", ids[1], "ready")])
        await q.pause()
        await self.fails(q.pop(), EmptyError, 404, "paused")
        await q.resume()
        held = await q.pop()
        self.assertTrue(held.leased)
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"], info["config"]["lease"]), (3, 1, "30s"))
        self.assertEqual([i.id async for i in q.list(state="leased")], [held.id])
        self.assertIn(q.name, [name async for name in self.client.queues(prefix=q.name)])
        self.assertEqual(await q.purge(), 4)
        await q.delete()
        await self.fails(q.info(), NotFoundError, 404, "unknown")
        self.assertEqual((await self.client.system())["prefix"], "pq")
        err = await self.fails(self.client.cluster(), BadRequestError, 400)
        self.assertEqual(err.op, "cluster")

    async def test_dead_letters_come_back(self) -> None:
        q = self.queue()
        await q.push("a", priority=3, key="k", headers={"H": "x"})
        await (await q.pop(lease="1m")).term("no")
        morgue = self.client.queue(q.name + "-dead")
        [listed] = [i async for i in morgue.list(preview=1)]
        dead = listed.dead
        assert dead is not None and dead.at is not None
        self.assertEqual((dead.reason, dead.deliveries, listed.preview, listed.data), ("no", 1, b"a", None))
        done = await q.requeue(listed.id)
        item = await q.pop(lease="1m")
        self.assertEqual((item.id, item.priority, item.key, item.headers, item.deliveries), (done.id, 3, "k", {"H": ["x"]}, 1))
        await self.fails(q.requeue(listed.id), NotFoundError, 404, "unknown")
        await item.nak()
        await self.fails(self.client.attach(item.ack_subject).nak(), LeaseLostError, 410, "returned")

    async def test_how_leases_ended(self) -> None:
        counts = {"failures": 3, "interruptions": 2, "returns": 1}
        died = Death("interruptions", "jobs", "j", None, 6, 2)
        headers = {f"PQ-{name.capitalize()}": str(n) for name, n in counts.items()}
        item = {"PQ-Id": "i", "PQ-Deliveries": "7", "PQ-Dead-Reason": "interruptions", "PQ-Origin": "jobs", "PQ-Origin-Id": "j", "PQ-Dead-Deliveries": "6", "PQ-Dead-Interruptions": "2", **headers}
        row = {"id": "i", "priority": 0, "state": "leased", "deliveries": 7, "pushed": "2026-01-01T00:00:00Z", "since": "2026-01-02T00:00:00Z", "size": 1, **counts}
        row["dead"] = {"reason": "interruptions", "origin": "jobs", "origin_id": "j", "deliveries": 6, "interruptions": 2}
        f = await self.fake(lambda verb, n, m: pushed() if "import" in verb else Answer(item, "x") if ".get." in verb else Answer(body=json.dumps({"items": [row]})))
        q = f.client.queue("dead")
        found, [listed] = await q.get("i"), [i async for i in q.list(state="leased")]
        for shown in (found, listed):
            self.assertEqual(({name: getattr(shown, name) for name in counts}, shown.dead), (counts, died))
        self.assertEqual(listed.since and listed.since.day, 2)
        await q.import_item(Import.of(found))
        sent = f.requests[-1][1].headers or {}
        self.assertEqual({name: sent.get(name) for name in (*headers, "PQ-Dead-Interruptions")}, {**headers, "PQ-Dead-Interruptions": "2"})

    async def test_history(self) -> None:
        q = self.queue()
        await q.push("a")
        self.assertEqual((len((await q.history())["push"]), (await self.client.history())["step"]), (60, 60))

    async def test_keys(self) -> None:
        q = self.queue()
        await q.configure({"fair": "priority", "lease": "1m"})
        await q.push_many([NewItem("bob 1", key="bob"), NewItem("bob 2", key="bob"), NewItem("ann 1", key="Ann & Söhne", weight=3)])
        self.assertEqual(await q.set_key("bob", {"limit": 1}), {"limit": 1})
        self.assertEqual((await q.key("Ann & Söhne")).weight, 3)
        taken = await q.pop_many(9)
        self.assertEqual(sorted(i.text for i in taken), ["ann 1", "bob 1"])
        found = {k.key: (k.ready, k.leased, k.waits_for, k.weight) async for k in q.keys(page=1)}
        self.assertEqual(found, {"Ann & Söhne": (0, 1, "", 1), "bob": (1, 1, "key_limit", 1)})
        self.assertEqual(await q.ack_many(taken), [None, None])
        self.assertEqual((await q.key("Ann & Söhne")).ready, 0)
        self.assertEqual(await q.set_key("bob", {"limit": None}), {})
        await self.fails(q.pop(end="max"), ConflictError, 409, "only_min")
        self.assertEqual([i.key async for i in q.list(key="bob")], ["bob"])

    async def test_events(self) -> None:
        q = self.queue()
        async with self.client.events(q.name) as events:
            await q.push("x", priority=4)
            item = await q.pop(lease="1m")
            await item.term("no good")
            event = await anext(aiter(events))
        self.assertEqual((event.type, event.queue, event.id, event.reason, event.dead_letter), ("dead", q.name, item.id, "no good", q.name + "-dead"))

    async def test_all_that_events_have(self) -> None:
        q = self.queue()
        async with self.client.events(q.name) as events:
            await q.push("x")
            item = await q.pop(lease="1m", holder="w1")
            await q.revoke(item.id, delay="1h", reason="it hangs")
            event = await anext(events)
            self.assertEqual((event.type, event.holder, event.reason, event.returns, event.more), ("revoked", "w1", "it hangs", 1, {}))
            self.assertTrue(event.not_before and event.not_before > event.time + timedelta(minutes=50))
            missed = {"name": "daily", "from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z", "count": 3, "at_least": True, "reason": "down", "new": 1}
            about = {"type": "io.pq.v1.event.schedule_missed", "time": "2026-01-04T00:00:00Z", "queue": q.name}
            await self.client.connection.publish(f"pq.{q.name}.event.schedule_missed", json.dumps({**about, **missed}).encode())
            event = await anext(events)
        self.assertEqual((event.name, event.count, event.at_least, event.reason, event.more), ("daily", 3, True, "down", {"new": 1}))
        self.assertEqual([t and t.day for t in (event.from_time, event.to_time, event.time)], [1, 3, 4])
        with self.assertRaisesRegex(ValueError, "^type is 'push': expected"):
            self.client.events(type="push")  # type: ignore[arg-type]

    async def test_order_of_pushes_that_overlap(self) -> None:
        q = self.queue()
        await asyncio.gather(*(q.push(str(n)) for n in range(200)))
        self.assertEqual([i.text for i in await q.pop_many(200)], [str(n) for n in range(200)])

    async def test_large(self) -> None:
        q = self.queue()
        most = self.client.connection.max_payload - 1024 - 100
        await q.push(b"x" * most)
        await self.fails(q.push(b"x" * (most + 2000)), TooLargeError, 413)
        self.assertEqual([len(i.data) for i in await q.pop_many(2)], [most])
        self.assertEqual((await q.push("y")).priority, 0)  # the connection goes on

    async def test_nobody(self) -> None:
        client = await self.connect(prefix=fresh("nobody"), retry_for=0.05)
        await self.fails(client.queue("q").push("x"), UnavailableError, 503)
        await self.fails(client.queue("q").pop(), UnavailableError, 503)
