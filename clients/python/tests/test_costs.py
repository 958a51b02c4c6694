"""What deliveries cost: the guess of a push, and what a worker says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pqbridge.sync
from pqbridge import BadRequestError, EmptyError, GiveUp, Import, Item, LeaseLostError, NewItem, NotLeasedError, ScheduleItem, SettledError
from test_together import Together, each, frames, size
from world import PATIENCE, SLOW, URL, Answer, Fake, TestCase, failure, fresh, quiet

# A rate that gives nothing back while a test runs.
RATE = "100/24h"


def header(m: Any, name: str) -> str | None:
    return (m.headers or {}).get(name)


def costs(m: Any) -> str | None:
    return header(m, "PQ-Cost")


def settled(f: Fake) -> list[tuple[str, str | None]]:
    """The words of settlements that went alone, with their costs."""
    return [(m.data.decode(), costs(m)) for verb, m in f.requests if ".ack." in verb and not size(m)]


def parts(m: Any) -> list[tuple[str, str, str | None]]:
    """The settlements of a message: the ends of their subjects, their words and costs."""
    found = []
    for headers, word in frames(m.data):
        lines = dict(line.split(": ") for line in headers.splitlines())
        found.append((lines.pop("PQ-Ack").split(".")[-1], word.decode(), lines.pop("PQ-Cost", None)))
        assert not lines, lines
    return found


class Sent(Together):
    """What a stand-in gets."""

    async def leased(self, n: int) -> tuple[Fake, list[Item]]:
        def respond(verb: str, number: int, m: Any) -> Answer:
            if not size(m):
                return Answer({"Status": "404", "PQ-Reason": "empty", "Nats-Service-Error-Code": "404"}) if m.data.startswith(b"+NXT") else Answer()
            if "PQ-Frames" not in m.headers:
                return Answer(body="+OK\n" * size(m))
            return Answer(body="".join(self.answer(*one) + "\n" for one in parts(m)))

        f = await self.fake(respond, ask_again_after=PATIENCE)
        return f, [f.client.attach(f"{f.prefix}.jobs.ack.c.t{i}") for i in range(n)]

    @staticmethod
    def answer(token: str, word: str, cost: str | None) -> str:
        return "-ERR 410 expired too late" if token == "t4" else "+OK 2030-01-01T00:00:00Z" if word == "+WPI" else "+OK"

    async def test_each_settlement_says_it(self) -> None:
        ends: list[tuple[Callable[[Item], Awaitable[Any]], str, str | None]] = [
            (lambda i: i.ack(), "+ACK", "7"),
            (lambda i: i.ack(result="r"), "+ACK r", "7"),
            (lambda i: i.nak(), "-NAK", "7"),
            (lambda i: i.release(1, reason="r"), '-NAK {"delay": 1000000000, "reason": "r"}', "7"),
            (lambda i: i.term("r"), "+TERM r", "7"),
            (lambda i: i.give_back("r"), "+BACK r", "7"),
            (lambda i: i.give_back(), "+BACK", None),
            (lambda i: i.give_back("  "), "+BACK", None),
            (lambda i: i.extend(), "+WPI", "7"),
            (lambda i: i.report("half"), "+WPI half", "7"),
        ]
        for end, word, cost in ends:
            with self.subTest(word):
                f, [item, other] = await self.leased(2)
                item.spent(9)
                item.spent(7)
                self.assertEqual(f.requests, [])
                await end(item)
                await end(other)
                self.assertEqual(settled(f), [(word, cost), (word, None)])
        f, [item, other] = await self.leased(2)
        item.spent(7)
        self.assertEqual([await item.ack_next(), await other.ack_next()], [None, None])
        self.assertEqual([(word[:4], cost) for word, cost in settled(f)], [("+NXT", "7"), ("+NXT", None)])
        f, [item, other] = await self.leased(2)
        item.spent(0)
        await item.ack()
        other.spent(1_000_000)
        await other.ack()
        self.assertEqual(settled(f), [("+ACK", "0"), ("+ACK", "1000000")])

    async def test_frames(self) -> None:
        """Lines have no room for it, so all of the settlements of the message are frames, and each keeps its result."""
        f, items = await self.leased(10)
        for n, item in enumerate(items):
            if n != 3:
                item.spent(n)
        found = await self.results(
            items[0].ack(), items[1].ack(), items[2].ack(), items[3].nak(reason="r"), items[4].ack(), items[5].extend(), items[6].give_back(), items[7].give_back("why"), items[8].term("two\nlines"), items[9].ack(result="r")
        )
        self.assertEqual([type(one) for one in found], [type(None)] * 4 + [LeaseLostError] + [type(None)] * 5)
        assert items[5].lease_expires is not None
        self.assertEqual(items[5].lease_expires.year, 2030)
        together = [m for _, m in f.requests if size(m)]
        self.assertEqual([(size(m), header(m, "PQ-Frames"), costs(m)) for m in together], [(6, "true", None)])
        self.assertEqual(
            parts(together[0]),
            [("t2", "+ACK", "2"), ("t3", '-NAK {"reason": "r"}', None), ("t4", "+ACK", "4"), ("t5", "+WPI", "5"), ("t6", "+BACK", None), ("t7", "+BACK why", "7")],
        )
        self.assertEqual(sorted(settled(f)), [("+ACK", "0"), ("+ACK", "1"), ("+ACK r", "9"), ("+TERM two\nlines", "8")])

    async def test_lines_where_nobody_says_it(self) -> None:
        f, items = await self.leased(6)
        items[2].spent(1)
        await asyncio.gather(*(item.give_back() for item in items))
        [m] = [m for _, m in f.requests if size(m)]
        self.assertEqual((header(m, "PQ-Frames"), len(m.data.splitlines())), (None, 4))

    async def test_ack_many(self) -> None:
        f, items = await self.leased(6)
        items[1].spent(11)
        found = await f.client.queue("jobs").ack_many(items)
        self.assertEqual([type(one) for one in found], [type(None)] * 4 + [LeaseLostError, type(None)])
        self.assertEqual(parts(f.requests[0][1]), [(f"t{n}", "+ACK", "11" if n == 1 else None) for n in range(6)])
        self.assertEqual(size(f.requests[0][1]), 6)

    async def test_what_goes_alone_afterwards(self) -> None:
        for many in (False, True):
            f = await self.fake(lambda verb, n, m: failure(413) if size(m) else Answer(), ask_again_after=PATIENCE)
            items = [f.client.attach(f"{f.prefix}.jobs.ack.c.t{i}") for i in range(4)]
            for n, item in enumerate(items):
                item.spent(n)
            await (f.client.queue("jobs").ack_many(items) if many else asyncio.gather(*(item.ack() for item in items)))
            self.assertEqual(sorted(costs(m) or "" for _, m in f.requests if not size(m)), ["0", "1", "2", "3"])

    async def test_wrong_values(self) -> None:
        f, [item] = await self.leased(1)
        for wrong in (-1, 1_000_001, 1.5, "5", True, None):
            given: Any = wrong
            with self.assertRaisesRegex((TypeError, ValueError), "^the cost is .*: expected an integer from 0 to 1000000$"):
                item.spent(given)
        for wrong in (0, -1, 1_000_001, 1.5, "5", True):
            given = wrong
            for work in (lambda: NewItem("x", cost=given).wire(), lambda: Import("a", "x", cost=given).wire()):
                with self.assertRaisesRegex((TypeError, ValueError), "^cost is .*: expected an integer from 1 to 1000000$"):
                    work()
        q = f.client.queue("jobs")
        await self.fails(q.push("x", cost=0), ValueError)
        await self.fails(q.set_schedule("s", {"item": ScheduleItem("x", cost=0)}), ValueError)
        await item.ack()
        with self.assertRaises(SettledError):
            item.spent(1)
        with self.assertRaises(NotLeasedError):
            Item(q, "").spent(1)
        self.assertEqual(settled(f), [("+ACK", None)])

    async def test_pushes(self) -> None:
        f = await self.fake(lambda verb, n, m: each(m), ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        await q.push("x", cost=1)
        await q.push("x")
        await q.push_many([NewItem("x", cost=1_000_000), "y"])
        first, second, many = (m for _, m in f.requests)
        self.assertEqual((costs(first), costs(second)), ("1", None))
        self.assertEqual([headers for headers, _ in frames(many.data)], ["PQ-Cost: 1000000\n", ""])

    async def worked(self, handler: Callable[[Item], Any], lease: float = PATIENCE) -> Fake:
        """A stand-in whose one item a handler has worked on."""

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if ".ack." in verb:
                return Answer()
            return Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t", "PQ-Deliveries": "1", "PQ-Cost": "60"}, "x")

        f = await self.fake(respond, ask_again_after=PATIENCE)
        await f.client.queue("jobs").consume(handler, limit=1, lease=lease, on_error=lambda err, item: None)
        return f

    async def test_workers(self) -> None:
        async def fails(item: Item) -> None:
            item.spent(3)
            raise ZeroDivisionError

        async def gives_up(item: Item) -> None:
            item.spent(4)
            raise GiveUp("no")

        async def works(item: Item) -> None:
            item.spent(item.cost + 1)

        async def stops(item: Item) -> None:
            item.spent(5)
            raise asyncio.CancelledError

        for work, found in ((fails, ("-NAK", "3")), (gives_up, ("+TERM", "4")), (works, ("+ACK", "61")), (stops, ("+BACK", "5"))):
            [(word, cost)] = settled(await self.worked(work))
            self.assertEqual((word.split()[0], cost), found)

    async def test_automatic_extensions(self) -> None:
        """They say it, so the cost is reserved even if the worker dies."""

        async def work(item: Item) -> None:
            item.spent(5)
            await self.until("the lease was extended", lambda: ("+WPI", "5") in heard)
            item.spent(8)
            await self.until("it was extended again", lambda: ("+WPI", "8") in heard)
            item.spent(9)

        heard: list[tuple[str, str | None]] = []

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if ".ack." in verb:
                heard.append((m.data.decode(), costs(m)))
                return Answer()
            return Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t", "PQ-Deliveries": "1"}, "x")

        f = await self.fake(respond, ask_again_after=PATIENCE)
        await f.client.queue("jobs").consume(work, limit=1, lease=1.5 * SLOW)
        self.assertEqual(heard[-1], ("+ACK", "9"))
        heard.clear()
        async with await f.client.queue("jobs").pop(lease=1.5 * SLOW) as item:
            await work(item)
        self.assertEqual(heard[-1], ("+ACK", "9"))


class Real(TestCase):
    async def tokens(self, q: pqbridge.Queue, key: str = "ann") -> int | None:
        return (await q.key(key)).cost_tokens

    async def costly(self, n: int, **options: Any) -> pqbridge.Queue:
        """A queue with items of a key, which each cost 20."""
        q = self.queue()
        await q.configure({"key_cost_rate": RATE, **options})  # type: ignore[typeddict-item]
        await q.push_many([NewItem(str(i), key="ann", cost=20, result_ttl="1h") for i in range(n)])
        return q

    async def test_what_a_delivery_has_cost_decides_on_the_next(self) -> None:
        for spent, served in ((None, 2), (10, 3), (1_000, 1)):
            q = self.queue()
            await q.configure({"cost_rate": RATE})
            await q.push_many([NewItem(str(i), cost=60) for i in range(5)])
            item = await q.pop(lease="1h")
            self.assertEqual(item.cost, 60)
            if spent is not None:
                item.spent(spent)
            await item.ack()
            for _ in range(served - 1):
                await q.pop(lease="1h")
            await self.fails(q.pop(lease="1h"), EmptyError, 404, "rate")

    async def test_an_extension_reserves(self) -> None:
        q = self.queue()
        await q.configure({"cost_rate": RATE})
        await q.push_many([NewItem("x", cost=60)] * 3)
        item = await q.pop(lease="1h")
        item.spent(10)
        await item.extend()  # it only raises
        second = await q.pop(lease="1h")
        await second.give_back()
        item.spent(100)
        await item.extend()
        await self.fails(q.pop(lease="1h"), EmptyError, 404, "rate")
        item.spent(30)
        await item.ack()
        self.assertEqual((await q.pop(lease="1h")).cost, 60)

    async def test_each_settlement_corrects(self) -> None:
        ends: list[tuple[Callable[[Item], Awaitable[Any]], int]] = [
            (lambda i: i.ack(), 1),
            (lambda i: i.ack(result="r"), 1),
            (lambda i: i.nak("1h"), 1),
            (lambda i: i.nak("1h", reason="r"), 1),
            (lambda i: i.term("r"), 1),
            (lambda i: i.give_back("r"), 1),
            (lambda i: i.give_back(), 0),
            (lambda i: i.extend(), 20),
            (lambda i: i.ack_next(), 1 + 20),
        ]
        for end, cost in ends:
            q = await self.costly(2)
            item = await q.pop(lease="1h")
            self.assertEqual(await self.tokens(q), 80)
            item.spent(1)
            await end(item)
            self.assertEqual(await self.tokens(q), 100 - cost)

    async def test_together(self) -> None:
        q = await self.costly(9)
        items = await q.pop_many(5, lease="1h")
        self.assertEqual(await self.tokens(q), 0)
        items[0].spent(0)
        items[1].spent(1)
        items[3].spent(100)
        await asyncio.gather(*(item.ack() for item in items))
        self.assertEqual(await self.tokens(q), 100 - 0 - 1 - 20 - 100 - 20)
        info = await q.key("ann")
        self.assertEqual((info.cost_rate, info.waits_for, info.retry != ""), ("100/24h0m0s", "key_cost_rate", True))
        self.assertEqual(await q.set_key("ann", {"cost_rate": "", "limit": 9}), {"cost_rate": "", "limit": 9})
        info = await q.key("ann")
        self.assertEqual((info.cost_rate, info.cost_tokens, info.waits_for, info.settings), ("", None, "", {"cost_rate": "", "limit": 9}))
        self.assertEqual(await q.set_key("ann", {"cost_rate": None}), {"limit": 9})

        q = await self.costly(4)
        items = await q.pop_many(4, lease="1h")
        for item in items[1:]:
            item.spent(2)
        self.assertEqual(await q.ack_many(items), [None] * 4)
        self.assertEqual(await self.tokens(q), 100 - 20 - 3 * 2)

    async def test_items_show_it(self) -> None:
        q, other = self.queue(), self.queue()
        config = await q.configure({"cost_rate": "90000/1m", "key_cost_rate": ""})
        self.assertEqual((config["cost_rate"], config["key_cost_rate"]), ("90000/1m0s", ""))
        ids = [(await q.push("x", cost=cost)).id for cost in (None, 1, 60)]
        self.assertEqual([one.cost async for one in q.list()], [1, 1, 60])
        for id, cost in zip(ids, (1, 1, 60)):
            shown = await q.get(id)
            again = await other.import_item(Import.of(shown))
            self.assertEqual((shown.cost, (await other.get(again.id)).cost), (cost, cost))
        self.assertEqual([item.cost for item in await q.pop_many(3)], [1, 1, 60])
        self.assertEqual((await other.peek()).cost, 1)

    async def test_schedules_and_sources(self) -> None:
        q = self.queue()
        for cost in (5, None):
            made = await q.set_schedule("s", {"spec": "@daily", "item": ScheduleItem("x", cost=cost)})
            assert made.item is not None
            self.assertEqual(made.item.cost, cost)
            await q.run_schedule("s")
            self.assertEqual((await q.pop()).cost, cost or 1)
        copies, name = self.client.queue("copies"), fresh("cost")  # which may read it
        source = await copies.set_source(name, {"remote": "self", "stream": "ORDERS", "map": {"cost": {"header": "Tokens", "default": 5}}, "paused": True})
        await copies.delete_source(name)
        self.assertEqual(source.map, {"cost": {"header": "Tokens", "default": "5"}})
        await self.fails(copies.set_source(name, {"map": {"cost": 0}}), BadRequestError, 400)


class Threads(TestCase):
    async def test_a_synchronous_program_says_it(self) -> None:
        q = self.queue()
        await q.configure({"key_cost_rate": RATE})

        def program() -> int | None:
            with pqbridge.sync.connect(URL, timeout=PATIENCE, error_cb=quiet) as client:
                jobs = client.queue(q.name)
                jobs.push("x", key="ann", cost=20)
                jobs.push("y", key="ann", cost=30)
                item = jobs.pop(lease="1h")
                item.spent(item.cost - 19)
                item.ack()
                jobs.consume(lambda item: item.spent(40), limit=1).wait()
                return jobs.key("ann").cost_tokens

        self.assertEqual(await asyncio.to_thread(program), 100 - 1 - 40)
