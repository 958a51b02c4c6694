"""What programs give, and what bridges answer."""

from __future__ import annotations

import pickle
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from pqbridge import BadRequestError, ConflictError, EmptyError, NewItem, UnknownResultError
from pqbridge.bundle import bundle, unbundled
from pqbridge.duration import duration_text, seconds, time_of, time_text
from pqbridge.item_data import Death, ItemData
from pqbridge.message import Message
from pqbridge.subjects import AckSubjects, Grammar, check_queue
from world import Answer, TestCase, pushed


class Values(unittest.TestCase):
    def test_durations(self) -> None:
        for given, want in ((1, "1000ms"), (0.0015, "1500000ns"), ("1h30m", "5400000ms"), (timedelta(milliseconds=2), "2ms"), ("1.5s", "1500ms"), ("0", "0ms"), (1e-12, "1ns")):
            self.assertEqual(duration_text(seconds(given, "it", zero=True)), want)
        for wrong in (-1, float("nan"), "x", "5", "1h ", 1e12, "", 0, "0"):
            with self.assertRaisesRegex(ValueError, "it is .*: expected seconds"):
                seconds(wrong, "it")
        for other in (None, True, b""):
            with self.assertRaises(TypeError):
                seconds(other, "it")  # type: ignore[arg-type]

    def test_a_header_that_informs_costs_no_item(self) -> None:
        item = ItemData("jobs", "")
        for name, value in (
            ("PQ-Id", "i"), ("PQ-Schedule", "s"), ("PQ-Scheduled-At", "nonsense"), ("PQ-Num-Pending", "many"), ("PQ-Backoff", "soon"),
            ("PQ-Attempts", '[{"n":1,"end":"then","outcome":"nak"}]'), ("PQ-Dead-At", "0"), ("PQ-Origin", "home"), ("Nats-Time-Stamp", "then"),
        ):
            item.read_header(name, [value])
        self.assertEqual((item.id, item.schedule, item.scheduled_at, item.pending, item.backoff, item.attempts, item.last_attempts, item.pushed), ("i", "s", None, 0, 0.0, 0, [], None))
        self.assertEqual(item.dead, Death(origin="home"))
        for name in ("PQ-Priority", "PQ-Fence", "PQ-Lease-Expires"):
            with self.assertRaises(ValueError):
                item.read_header(name, ["x"])

    def test_times(self) -> None:
        at = datetime(2026, 11, 5, 1, 2, 3, 123456, tzinfo=timezone.utc)
        self.assertEqual(time_of("2026-11-05T01:02:03.123456789Z"), at)
        self.assertEqual(time_of("2026-11-05T02:02:03.123456+01:00"), at)
        self.assertEqual(time_of("2026-11-05T01:02:03Z"), at.replace(microsecond=0))
        self.assertEqual(time_text(at, "it"), "2026-11-05T01:02:03.123456Z")
        for wrong in ("", "2026-11-05", "2026-13-05T01:02:03Z"):
            with self.assertRaises(ValueError):
                time_of(wrong)
        with self.assertRaises(ValueError):
            time_text(at.replace(tzinfo=None), "it")

    def test_items(self) -> None:
        wrong: list[Callable[[], Any]] = [
            lambda: NewItem(5),  # type: ignore[arg-type]
            lambda: NewItem("x", priority=True),
            lambda: NewItem("x", priority=2**63),
            lambda: NewItem("x", priority="high"),  # type: ignore[arg-type]
            lambda: NewItem("x", headers={"PQ-Key": "x"}),
            lambda: NewItem("x", headers={"a b": "x"}),
            lambda: NewItem("x", headers={"A": "x\ny"}),
            lambda: NewItem("x", headers={"A": " x"}),
            lambda: NewItem("x", headers={"A": "\ud800"}),
            lambda: NewItem("x", headers={"A": 5}),  # type: ignore[dict-item]
            lambda: NewItem("x", headers="A: b"),  # type: ignore[arg-type]
            lambda: NewItem("x", key=""),
            lambda: NewItem("x", key="a\x01"),
            lambda: NewItem("x", key="k" * 129),
            lambda: NewItem("x", weight=2),
            lambda: NewItem("x", key="k", weight=1001),
            lambda: NewItem("x", on_conflict="raise"),
            lambda: NewItem("x", unique="u", on_conflict="drop"),  # type: ignore[arg-type]
            lambda: NewItem("x", msg_id="i", without_msg_id=True),
            lambda: NewItem("x", delay=1, not_before=datetime.now(timezone.utc)),
            lambda: NewItem("x", ttl=0),
            lambda: NewItem("x", result_ttl=0),
            lambda: NewItem("x", result_ttl="168.1h"),
        ]
        for n, item in enumerate(wrong):
            with self.subTest(n), self.assertRaisesRegex((TypeError, ValueError), "expected"):
                item().wire()

    def test_names(self) -> None:
        for good in ("a", "A-_9", "x" * 64, "x" * 64 + "-dead"):
            check_queue(good)
        for wrong in ("", "_x", "a.b", "x" * 65, "a b", "ü", None, "a\n"):
            with self.assertRaises(ValueError):
                check_queue(wrong)
        for prefix in ("", "_pq", "a..b", "x" * 129):
            with self.assertRaises(ValueError):
                Grammar(prefix)

    def test_ack_subjects_lead_nowhere_else(self) -> None:
        acks = AckSubjects(Grammar("mine.pq"), Grammar("pq"))
        self.assertEqual(acks.read("pq.jobs.ack.c.t"), ("jobs", "mine.pq.jobs.ack.c.t"))
        self.assertEqual(acks.read("mine.pq.jobs.ack.c.t"), ("jobs", "mine.pq.jobs.ack.c.t"))
        self.assertEqual(acks.written("mine.pq.jobs.ack.c.t"), "pq.jobs.ack.c.t")
        for forged in ("pq.jobs.admin.purge", "pq.jobs.ack.c", "pq.jobs.ack.c.t.u", "other.jobs.ack.c.t", "pq.jobs.ack.*.t", ""):
            self.assertIsNone(acks.read(forged))
        self.assertEqual(acks.of("jobs", Message({"PQ-Ack": ["pq.other.ack.c.t"]}, b"")), "")
        self.assertEqual(acks.of("jobs", Message({"PQ-Ack": ["pq.jobs.ack.c.t"]}, b"", "x")), "mine.pq.jobs.ack.c.t")

    def test_bundles(self) -> None:
        body = bundle([([], b"read the news"), ([("PQ-Priority", "-1")], b"put out the fire")])
        self.assertEqual(body, b"0 13\nread the news\n16 16\nPQ-Priority: -1\nput out the fire\n")
        for end in (body, body[:-1]):
            first, second, last = unbundled(Message({"PQ-Bundle": ["2"]}, end))
            self.assertEqual((first.data, second.get("PQ-Priority"), second.data, last.ends_batch), (b"read the news", "-1", b"put out the fire", True))
        for broken in (b"x", b"0 5\nabc", b"3 0\na:b", b"2 0\n:\n\n", b"01 0\n\n", b"0 1\nab", b"9" * 40):
            found = unbundled(Message({"PQ-Bundle": ["1"]}, broken))
            self.assertFalse(found[-1].is_item or found[-1].ends_batch, broken)

    def test_errors_are_values(self) -> None:
        err = ConflictError("push", "q", 409, "text", "leased", 3)
        same = pickle.loads(pickle.dumps(err))
        self.assertEqual((str(same), same.code, same.reason, same.item), ("push q: text (409)", 409, "leased", 3))


class Answers(TestCase):
    async def test_answers_that_cannot_be_read(self) -> None:
        for answer in ("", "x", "[]", "{}", '{"id":"i"}', '{"id":"i","seq":"x","priority":0}', '{"id":"","seq":1,"priority":0}'):
            f = await self.fake(lambda verb, n, m: Answer(body=answer))
            await self.fails(f.client.queue("q").push("x"), UnknownResultError, 504)
        f = await self.fake(lambda verb, n, m: pushed(items=[]))
        await self.fails(f.client.queue("q").push_many(["x"]), UnknownResultError, 504)
        f = await self.fake(lambda verb, n, m: pushed(error={"code": 400, "description": "no", "item": 0}))
        self.assertEqual((await self.fails(f.client.queue("q").push_many(["x"]), BadRequestError, 400)).item, 0)

    async def test_items_that_cannot_be_read(self) -> None:
        for headers in ({"PQ-Priority": "x"}, {"PQ-Fence": "now"}, {"PQ-Ack": "pq.jobs.admin.purge"}, {"PQ-Ack": "pq.other.ack.c.t"}):
            f = await self.fake(lambda verb, n, m: Answer({"PQ-Id": "i", **headers}))
            await self.fails(f.client.queue("q").pop(), UnknownResultError, 504)
        f = await self.fake(lambda verb, n, m: Answer({"X": "y"}, "z"))
        await self.fails(f.client.queue("q").pop(), UnknownResultError, 504)

    async def test_arguments(self) -> None:
        q = self.queue()
        for work in (
            q.pop(end="mid"),  # type: ignore[arg-type]
            q.pop(pop_id="x", repeatable=True),
            q.pop(lease="13h"),
            q.pop_many(0),
            q.pop_many(1001),
            q.push_many(["x"] * 1001),
            q.get("a.b"),
            q.move("a", 2**63),
            q.key(""),
        ):
            await self.fails(work, ValueError)
        await self.fails(q.push_many("x"), TypeError)
        await self.fails(q.pop(wait=None), TypeError)  # type: ignore[arg-type]
        await self.fails(q.pop(), EmptyError, 404, "unknown")
