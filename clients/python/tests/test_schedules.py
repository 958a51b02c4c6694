"""Schedules."""

from __future__ import annotations

import unittest
from datetime import datetime, timedelta, timezone
from typing import Any

from pqbridge import BadRequestError, BusyError, NotFoundError, ScheduleItem, UnknownResultError, sync
from world import PATIENCE, URL, TestCase, fresh, quiet

AT = datetime(2099, 1, 31, 9, tzinfo=timezone.utc)


class Schedules(TestCase):
    async def test_make_show_change_remove(self) -> None:
        q = self.queue()
        await self.fails(q.schedule("s"), NotFoundError, 404, "unknown")
        item = ScheduleItem("report", {"A": ["b"], "C": ["d", "e"]}, -(2**63), "k", 3, "1h0m0s")
        made = await q.set_schedule("s", {"spec": "0 12 1 1 *", "zone": "Europe/Berlin", "start": AT, "catch_up": timedelta(hours=2), "jitter": 90, "item": item})
        self.assertEqual((made.name, made.zone, made.start, made.next, made.item), ("s", "Europe/Berlin", AT, datetime(2100, 1, 1, 11, tzinfo=timezone.utc), item))
        self.assertEqual((made.catch_up, made.jitter, made.overlap, made.missed, made.count, made.counts.fired), ("2h0m0s", "1m30s", "skip", "one", 0, 0))
        assert made.next and made.due
        self.assertTrue(timedelta(0) <= made.due - made.next <= timedelta(seconds=90))
        shown = await q.schedule("s")
        self.assertEqual((len(shown.times), shown.times[0], made.times), (10, made.next, []))
        assert shown.item is not None
        self.assertEqual((await q.set_schedule("t", {"spec": "@daily", "item": shown.item})).item, item)
        soon = await q.set_schedule("s", {"start": None})
        self.assertTrue(soon.start is None and soon.next and soon.next < AT)
        self.assertEqual((await q.set_schedule("s", {"item": ScheduleItem(b"\x00\xff")})).item, ScheduleItem(b"\x00\xff"))
        self.assertEqual(await q.schedule_times("new", {"spec": "@at 2099-01-31T09:00:00Z"}), [AT])
        paused = await q.pause_schedule("s")
        self.assertEqual((paused.paused, paused.next), (True, None))
        self.assertEqual((await q.resume_schedule("s")).next, soon.next)
        self.assertEqual((await q.resume_schedule("s", from_now=True)).next, soon.next)
        await q.delete_schedule("s")
        await self.fails(q.delete_schedule("s"), NotFoundError, 404, "unknown")

    async def test_pages(self) -> None:
        q = self.queue()
        for name in "abcde":
            await q.set_schedule(name, {"spec": "0 12 1 1 *"})
        self.assertEqual([(s.name, s.item) async for s in q.schedules(page=2)], [(name, None) for name in "abcde"])
        self.assertEqual([s.name async for s in q.schedules(after="d")], ["e"])

    async def test_it_fires(self) -> None:
        q = self.queue()
        made = await q.set_schedule("tick", {"spec": "@every 1s", "count": 1, "item": ScheduleItem("work")})
        item = await q.pop(wait=PATIENCE)
        assert made.next and item.scheduled_at
        self.assertEqual((item.text, item.schedule, item.headers), ("work", "tick", {}))
        self.assertGreaterEqual(item.scheduled_at, made.next)
        shown = await q.schedule("tick")
        self.assertEqual((shown.done, shown.last, shown.counts.fired), (True, item.scheduled_at, 1))

    async def test_run(self) -> None:
        q = self.queue()
        await q.set_schedule("s", {"spec": "0 12 1 1 *", "overlap": "allow", "item": ScheduleItem("x")})
        first = await q.run_schedule("s", msg_id="a")
        again = await q.run_schedule("s", msg_id="a")
        self.assertEqual((first.duplicate, again.duplicate, again.id), (False, True, first.id))
        client, lost = await self.lossy()
        second = await client.queue(q.name).run_schedule("s", msg_id="b")
        self.assertEqual((lost, [i.id for i in await q.pop_many(9)]), (["admin"], [first.id, second.id]))
        client, _ = await self.lossy(timeout=0.5)
        await self.fails(client.queue(q.name).run_schedule("s"), UnknownResultError, 504)
        self.assertEqual((await q.info())["ready"], 1)

    async def test_wrong(self) -> None:
        q = self.queue()
        for name in ("a.b", "", "s" * 65):
            await self.fails(q.schedule(name), ValueError)
        wrong: list[dict[str, Any]] = [
            {"cron": "@daily"}, {"start": datetime(2099, 1, 31)}, {"overlap": "never"}, {"jitter": "some"},
            {"item": ScheduleItem(headers={"PQ-Key": "x"})}, {"item": ScheduleItem("a\ud800")}, {"item": ScheduleItem(weight=0)},
        ]
        for change in wrong:
            with self.assertRaises(ValueError, msg=str(change)):
                await q.set_schedule("s", change)  # type: ignore[arg-type]
        await self.fails(q.set_schedule("s", {"item": {}}), TypeError)  # type: ignore[typeddict-item]
        await self.fails(q.set_schedule("s", {"spec": "often"}), BadRequestError, 400)
        for n in range(100):
            await q.set_schedule(f"s{n}", {"spec": "@every 1s", "paused": True})
        impatient = await self.connect(retry_for=0.001)
        await self.fails(impatient.queue(q.name).set_schedule("more", {"spec": "@every 1s"}), BusyError, 429, "schedules")


class Synchronous(unittest.TestCase):
    def test_calls(self) -> None:
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(fresh())
        q.set_schedule("s", {"spec": "0 12 1 1 *", "item": ScheduleItem("x")})
        self.assertEqual([s.name for s in q.schedules()], ["s"])
        self.assertEqual((len(q.schedule("s").times), len(q.schedule_times("s", {"spec": "@at 2099-01-31T09:00:00Z"}))), (10, 1))
        self.assertTrue(q.pause_schedule("s").paused and not q.resume_schedule("s").paused)
        run = q.run_schedule("s")
        item = q.pop(lease="1m", holder="w1")
        self.assertEqual((item.id, item.schedule, q.get(item.id).holder), (run.id, "s", "w1"))
        q.revoke(item.id, fence=item.fence, delay=0)
        self.assertEqual([a.outcome for a in q.get(item.id, attempts=True).last_attempts], ["revoked"])
        again = q.pop(lease="1m")
        again.nak(reason="why not")
        self.assertEqual(q.bulk("remove", all=True).done, 1)
        q.delete_schedule("s")


if __name__ == "__main__":
    unittest.main()
