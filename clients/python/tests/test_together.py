"""Calls at the same time go in one message, and each keeps its own result."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import nats

import pqbridge
from pqbridge import BadRequestError, BusyError, Item, NewItem, Pushed, UnknownResultError
from test_repeat import Proxy
from world import PATIENCE, SLOW, URL, Answer, Fake, TestCase, failure, fresh, pushed, quiet

_SIZES = re.compile(rb"(\d+) (\d+)\n")


def frames(body: bytes) -> list[tuple[str, bytes]]:
    """The headers and the payload of each item of a bundle."""
    found, at = [], 0
    while sizes := _SIZES.match(body, at):
        middle = sizes.end() + int(sizes[1])
        end = middle + int(sizes[2])
        found.append((body[sizes.end() : middle].decode(), body[middle:end]))
        at = end + 1
    assert at == len(body), body
    return found


def size(m: Any) -> int:
    """How many items a message has; 0: it is no bundle."""
    return int((m.headers or {}).get("PQ-Bundle", 0))


def each(m: Any, *errors: tuple[int, str]) -> Answer:
    """The answer to a push, as a bridge gives it. errors: of the first items of a bundle."""
    if not size(m):
        return pushed()
    items: list[Any] = [{"seq": n + 1, "id": f"i{n}", "priority": 0} for n in range(size(m))]
    for n, (code, text) in enumerate(errors):
        items[n] = {"error": {"code": code, "err_code": 30000 + code, "description": text}}
    return Answer(body=json.dumps({"type": "io.pq.v1.push_response", "stream": "q", "seq": 1, "items": items}))


class Holding:
    """Answers of a stand-in that wait until they are told."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    def answer(self, fake: Fake, m: Any, answer: Answer) -> None:
        async def later() -> None:
            await self.told.wait()
            await fake.bridge.publish(m.reply, answer.body.encode(), answer.reply, answer.headers)

        asyncio.ensure_future(later())


class Together(TestCase):
    async def results(self, *work: Awaitable[Any]) -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    async def through(self, act: Callable[[str, int, Any], Answer | bool | None], **options: Any) -> tuple[pqbridge.Client, list[Any]]:
        """A client whose requests go to pqd by way of a function: it says what to answer instead, whether the answer
        gets lost, or None to let it pass. It is called with the verb and the how manyeth message of its kind this is."""
        prefix, seen = fresh("between"), list[Any]()
        between = await nats.connect(URL, error_cb=quiet)
        self.addAsyncCleanup(between.close)

        async def serve(m: Any) -> None:
            seen.append(m)
            kind = [bool(size(one)) for one in seen]
            what = act(m.subject, kind.count(kind[-1]), m)
            subject = "pq." + m.subject[len(prefix) + 1 :]
            if isinstance(what, Answer):
                await between.publish(m.reply, what.body.encode(), "", what.headers)
            elif what:
                await between.request(subject, m.data, timeout=PATIENCE, headers=m.headers)
            else:
                await between.publish(subject, m.data, m.reply, m.headers)

        await between.subscribe(f"{prefix}.>", cb=serve)
        await between.flush()
        client = await self.connect(prefix=prefix, bridge_prefix="pq", **{"ask_again_after": PATIENCE, **options})
        return client, seen


class Pushes(Together):
    async def test_a_lone_call_sends_todays_message(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url)
        q = c.queue(fresh())
        await q.configure({"lease": "1h"})
        start = len(proxy.sent)
        await q.push("x", priority=3, key="k", msg_id="m")
        item = await q.pop()
        await item.extend()
        await item.ack()
        found = re.sub(rb" [^ ]*\.[0-9a-f]{32} ", b" <inbox> ", bytes(proxy.sent[start:])).replace(item.ack_subject.encode(), b"<ack>").decode()
        headers = "NATS/1.0\r\nPQ-Key: k\r\nNats-Msg-Id: m\r\n\r\n"
        self.assertEqual(
            found,
            f"HPUB pq.{q.name}.push.3 <inbox> {len(headers)} {len(headers) + 1}\r\n{headers}x\r\n"
            f"PUB pq.{q.name}.pop.min <inbox> 0\r\n\r\n"
            "PUB <ack> <inbox> 4\r\n+WPI\r\n"
            "PUB <ack> <inbox> 4\r\n+ACK\r\n",
        )

    async def test_no_call_waits_for_an_answer(self) -> None:
        """While fewer than 16 messages are under way; those behind them leave at the next landing, together."""
        first, others = Holding(), Holding()
        f = await self.fake(lambda verb, n, m: (first if n == 1 else others).answer(f, m, each(m)), ask_again_after=PATIENCE)
        q, pushes = f.client.queue("jobs"), []
        for n in range(16):
            pushes.append(asyncio.ensure_future(q.push(str(n))))
            await self.until("it has left", lambda: len(f.requests) == n + 1)
        pushes += [asyncio.ensure_future(q.push(str(n))) for n in (16, 17)]
        await f.client.connection.flush()
        pushes.append(asyncio.ensure_future(q.push("18")))
        await f.client.connection.flush()
        await f.bridge.flush()
        self.assertEqual(len(f.requests), 16)
        first.told.set()
        await self.until("the others have left", lambda: len(f.requests) == 17)
        self.assertEqual([payload for _, payload in frames(f.requests[16][1].data)], [b"16", b"17", b"18"])
        others.told.set()
        self.assertEqual([one.id for one in await asyncio.gather(*pushes)][16:], ["i0", "i1", "i2"])
        self.assertEqual(f.client.lanes._lanes, {})

    async def test_calls_beside_a_bundle_go_together(self) -> None:
        """The two that went alone are answered, and the bundle is not: nobody goes alone again."""
        holding = Holding()

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if size(m) != 3:
                return each(m)
            holding.answer(f, m, each(m))
            return None

        f = await self.fake(respond, ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        pushes = [asyncio.ensure_future(q.push(str(n))) for n in range(5)]
        await asyncio.gather(*pushes[:2])
        await asyncio.gather(q.push("5"), q.push("6"))
        await q.push("7")
        self.assertEqual([size(m) for _, m in f.requests], [0, 0, 3, 2, 0])
        holding.told.set()
        await asyncio.gather(*pushes)

    async def test_a_lane_holds_up_no_other(self) -> None:
        f = await self.fake(lambda verb, n, m: None if verb == "full.push" else each(m), ask_again_after=PATIENCE)
        full = [asyncio.ensure_future(f.client.queue("full").push("x")) for _ in range(2)]
        for n in range(3, 20):
            full.append(asyncio.ensure_future(f.client.queue("full").push("x")))
            await f.client.connection.flush()
        await f.client.queue("jobs").push("y")
        for one in full:
            one.cancel()

    async def test_max_bundle(self) -> None:
        for most, sizes in ((1, [0] * 9), (3, [0, 0, 3, 3, 0])):
            f = await self.fake(lambda verb, n, m: each(m), max_bundle=most, ask_again_after=PATIENCE)
            await asyncio.gather(*(f.client.queue("jobs").push(str(n)) for n in range(9)))
            self.assertEqual([size(m) for _, m in f.requests], sizes)
        for wrong in (0, 1001):
            with self.assertRaises(ValueError):
                await self.connect(max_bundle=wrong)

    async def test_the_bounds_of_a_message(self) -> None:
        f = await self.fake(lambda verb, n, m: each(m), ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        big, traced = b"b" * (16 << 10), {"Nats-Trace-Dest": "traces"}
        await asyncio.gather(q.push("1"), q.push("2"), q.push("3"), q.push(big), q.push("4"), q.push("5", headers=traced), *(q.push(b"x" * 15_000) for _ in range(20)))
        self.assertEqual([size(m) for _, m in f.requests], [0, 0, 0, 0, 0, 0, 17, 3])
        self.assertTrue(all(len(m.data) < 256 << 10 for _, m in f.requests))

    async def test_a_bad_item_hurts_only_its_caller(self) -> None:
        c, seen = await self.through(lambda verb, n, m: None)
        q = c.queue(fresh())
        found = await self.results(*(q.push(str(n), headers={"Nats-TTL": "1s"} if n == 5 else {}) for n in range(10)))
        self.assertEqual([type(one) for one in found], [Pushed] * 5 + [BadRequestError] + [Pushed] * 4)
        self.assertEqual((found[5].op, found[5].item, found[5].queue), ("push", None, q.name))
        self.assertNotIn("item 3", found[5].text)
        self.assertEqual(([size(m) for m in seen], (await q.info())["ready"]), ([0, 0, 8], 9))

    async def test_a_message_that_is_refused(self) -> None:
        """Its error is that of each push, and the next ones go together again."""
        for item in ("", ',"item":1'):
            bad = Answer(failure(400, text="bad").headers, '{"error":{"code":400%s}}' % item)
            f = await self.fake(lambda verb, n, m: bad if size(m) else each(m), ask_again_after=PATIENCE)
            q = f.client.queue("jobs")
            for _ in range(2):
                found = await self.results(*(q.push(str(n)) for n in range(6)))
                self.assertEqual([type(one) for one in found], [Pushed] * 2 + [BadRequestError] * 4)
                self.assertEqual({(one.op, one.queue, one.text, one.item) for one in found[2:]}, {("push", "jobs", "bad", None)})
            self.assertEqual([size(m) for _, m in f.requests], [0, 0, 4] * 2)

    async def test_what_is_too_much_for_a_bridge_goes_alone(self) -> None:
        f = await self.fake(lambda verb, n, m: failure(413) if size(m) else each(m), ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        for _ in range(2):
            await asyncio.gather(*(q.push(str(n)) for n in range(5)))
        self.assertEqual([size(m) for _, m in f.requests], [0, 0, 3, 0, 0, 0] * 2)

    async def test_what_is_refused_for_a_while_is_tried_again(self) -> None:
        """One item of a bundle, or all of it."""
        f = await self.fake(lambda verb, n, m: each(m, (503, "wait")) if n == 3 else each(m), ask_again_after=PATIENCE)
        self.assertEqual([one.id for one in await asyncio.gather(*(f.client.queue("jobs").push(str(n)) for n in range(5)))], ["i", "i", "i", "i1", "i2"])
        self.assertEqual([(size(m), m.data) for _, m in f.requests[3:]], [(0, b"2")])
        f = await self.fake(lambda verb, n, m: failure(429, "busy") if n == 3 else each(m), ask_again_after=PATIENCE)
        await asyncio.gather(*(f.client.queue("jobs").push(str(n)) for n in range(5)))
        self.assertEqual([size(m) for _, m in f.requests], [0, 0, 3, 3])
        f = await self.fake(lambda verb, n, m: failure(503) if size(m) else each(m), retry_for=0.01, ask_again_after=PATIENCE)
        found = await self.results(*(f.client.queue("jobs").push(str(n)) for n in range(5)))
        self.assertEqual([one.code for one in found[2:]], [503] * 3)
        self.assertEqual(len(set(map(id, found[2:]))), 3)

    async def test_a_full_queue_takes_what_fits(self) -> None:
        c = await self.connect(retry_for=0.01)
        q = c.queue(fresh())
        await q.configure({"max_length": 3})
        found = await self.results(*(q.push(str(n)) for n in range(64)))
        self.assertEqual((sum(isinstance(one, Pushed) for one in found), sum(isinstance(one, BusyError) for one in found)), (3, 61))
        self.assertEqual((await q.info())["ready"], 3)

    async def test_cancelled_before_it_leaves_adds_nothing(self) -> None:
        """At each pass of the loop: it is in the message if that had left."""
        f = await self.fake(lambda verb, n, m: each(m), ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        await q.push("x")
        had_left = []
        for passes in range(1, 8):
            before, sent = len(f.requests), f.client.connection.stats["out_msgs"]
            pushes = [asyncio.ensure_future(q.push(str(n))) for n in range(6)]
            for _ in range(passes):
                await asyncio.sleep(0)
            had_left.append(f.client.connection.stats["out_msgs"] - sent == 3)
            pushes[3].cancel()
            await self.results(*pushes)
            expected = [b"2", b"3", b"4", b"5"] if had_left[-1] else [b"2", b"4", b"5"]
            self.assertEqual([payload for _, payload in frames(f.requests[before + 2][1].data)], expected)
        self.assertEqual((had_left[0], had_left[-1]), (False, True))
        before = len(f.requests)
        pushes = [asyncio.ensure_future(q.push(str(n))) for n in range(3)]
        await asyncio.sleep(0)
        pushes[2].cancel()
        await self.results(*pushes)
        self.assertEqual((len(f.requests) - before, f.client.lanes._lanes), (2, {}))

    async def test_cancelled_under_way_is_one_item(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url, ask_again_after=PATIENCE)
        q = c.queue(fresh())
        await q.push("x")
        proxy.answers.clear()
        pushes = [asyncio.ensure_future(q.push(str(n), timeout=0.5 * SLOW if n == 4 else None)) for n in range(5)]
        await self.until("they have left", lambda: b"PQ-Each" in proxy.sent)
        pushes[3].cancel()
        err = await self.fails(pushes[4], UnknownResultError, 504)
        self.assertEqual((err.op, err.queue), ("push", q.name))
        proxy.answers.set()
        await self.results(*pushes)
        self.assertEqual((await q.info())["ready"], 6)

    async def test_when_the_last_caller_leaves_nothing_is_repeated(self) -> None:
        f = await self.fake(lambda verb, n, m: None, ask_again_after=0.5 * SLOW)
        pushes = [asyncio.ensure_future(f.client.queue("jobs").push(str(n))) for n in range(4)]
        await self.until("they have left", lambda: len(f.requests) >= 3)
        for one in pushes[2:]:
            one.cancel()
        await self.results(*pushes[2:])
        await f.client.connection.flush()
        await f.bridge.flush()
        bundles = sum(1 for _, m in f.requests if size(m))
        await self.until("the others are repeated", lambda: len(f.requests) >= bundles + 6)
        self.assertEqual(sum(1 for _, m in f.requests if size(m)), bundles)
        for one in pushes:
            one.cancel()

    async def test_a_lost_answer_adds_nothing_twice(self) -> None:
        c, seen = await self.through(lambda verb, n, m: bool(size(m)) and n == 1, ask_again_after=0.5 * SLOW)
        q = c.queue(fresh())
        found = await asyncio.gather(*(q.push(str(n), unique=str(n)) for n in range(10)))
        self.assertFalse(any(one.duplicate for one in found))
        self.assertEqual(len({one.id for one in found}), 10)
        bundles = [m.data for m in seen if size(m)]
        self.assertEqual((len(set(bundles)), (await q.info())["ready"]), (1, 10))

    async def test_a_lost_answer_then_taken_apart_adds_nothing_twice(self) -> None:
        c, seen = await self.through(lambda verb, n, m: None if not size(m) else n == 1 or failure(413), ask_again_after=0.5 * SLOW)
        q = c.queue(fresh())
        found = await asyncio.gather(*(q.push(str(n), unique=str(n)) for n in range(10)))
        self.assertFalse(any(one.duplicate for one in found))
        self.assertEqual((len({one.id for one in found}), (await q.info())["ready"]), (10, 10))

    async def test_taken_apart_in_doubt(self) -> None:
        """What a message of its own is refused may have been done by the one before."""
        f = await self.fake(lambda verb, n, m: None if n == 3 else failure(413) if size(m) else failure(403) if m.data == b"4" else each(m), ask_again_after=0.5 * SLOW)
        found = await self.results(*(f.client.queue("jobs").push(str(n)) for n in range(5)))
        self.assertEqual([type(one) for one in found], [Pushed] * 4 + [UnknownResultError])

    async def test_without_a_message_id_never_repeated_nor_mixed(self) -> None:
        f = await self.fake(lambda verb, n, m: each(m) if n <= 2 else None, ask_again_after=0.1, timeout=SLOW)
        q = f.client.queue("jobs")
        found = await self.results(q.push("a"), q.push("b"), *(q.push(str(n), without_msg_id=n % 6 >= 3) for n in range(9)))
        self.assertEqual([getattr(one, "code", 0) for one in found], [0, 0] + [504] * 9)
        sent = [["Nats-Msg-Id" in headers for headers, _ in frames(m.data)] for _, m in f.requests if size(m)]
        self.assertEqual(sorted(sent).count([False] * 3), 1)
        self.assertTrue(all(one in ([True] * 3, [False] * 3) for one in sent))

    async def test_two_callers_with_one_message_id(self) -> None:
        q = self.queue()
        found = await asyncio.gather(*(q.push(str(n), msg_id="m" if n > 2 else None) for n in range(6)))
        self.assertEqual([one.duplicate for one in found], [False] * 4 + [True] * 2)
        self.assertEqual(len({one.id for one in found[3:]}), 1)

    async def test_unique_conflicts_within_a_bundle(self) -> None:
        c, seen = await self.through(lambda verb, n, m: None)
        q = c.queue(fresh())
        await q.push("x")
        found = await asyncio.gather(
            q.push("1"), q.push("2"), q.push("first", unique="u"), q.push("kept", unique="u"), q.push("new", unique="u", on_conflict="replace"), q.push("up", unique="u", on_conflict="raise")
        )
        self.assertEqual([one.duplicate for one in found[2:]], [False, True, True, True])
        self.assertEqual((len({one.id for one in found[2:]}), [size(m) for m in seen]), (1, [0, 0, 0, 4]))
        texts = [item.data.decode() async for item in q.list(bodies=True) if item.data]
        self.assertEqual(sorted(texts), sorted(["x", "1", "2", "new"]))

    async def test_users_who_may_only_push_with_or_without_a_priority(self) -> None:
        told: list[Exception] = []

        async def tell(err: Exception) -> None:
            told.append(err)

        star = await self.connect(user="star", password="star", inbox_prefix="_INBOX.star", error_cb=tell)
        q = star.queue(fresh())
        await asyncio.gather(*(q.push(str(n), priority=n % 2) for n in range(20)))
        few = await self.connect(user="few", password="few", inbox_prefix=b"_INBOX.few", error_cb=tell)
        await asyncio.gather(*(few.queue("jobs").push(str(n)) for n in range(20)))
        self.assertEqual(told, [])
        self.assertEqual((await self.client.queue(q.name).info())["ready"], 20)

    async def test_priorities_go_together_when_that_is_allowed(self) -> None:
        for how in ("said", "done"):
            f = await self.fake(lambda verb, n, m: each(m), mix_priorities=how == "said", ask_again_after=PATIENCE)
            q = f.client.queue("jobs")
            if how == "done":
                await q.push("x")
            await asyncio.gather(*(q.push(str(n), priority=n % 3 if n != 4 else None) for n in range(8)))
            verbs = [(verb, size(m)) for verb, m in f.requests if m.data != b"x"]
            self.assertEqual(verbs, [("jobs.push.0", 0), ("jobs.push.1", 0), ("jobs.push", 6)])
            self.assertEqual(["PQ-Priority: %d" % (n % 3) in headers for n, (headers, _) in enumerate(frames(f.requests[-1][1].data), 2)], [True, True, False, True, True, True])
        f = await self.fake(lambda verb, n, m: each(m), ask_again_after=PATIENCE)
        await asyncio.gather(*(f.client.queue("jobs").push(str(n), priority=n % 2) for n in range(8)))
        self.assertEqual(sorted((verb, size(m)) for verb, m in f.requests), [(f"jobs.push.{n}", k) for n in (0, 1) for k in (0, 0, 2)])

    async def test_a_message_that_grew_too_large(self) -> None:
        f = await self.fake(lambda verb, n, m: None if size(m) else each(m), ask_again_after=0.2)
        q = f.client.queue("jobs")
        pushes = [asyncio.ensure_future(q.push(b"x" * 1000)) for _ in range(5)]
        await self.until("they have left", lambda: [m for _, m in f.requests if size(m)])
        f.client.connection._max_payload = 2000
        await asyncio.gather(*pushes)
        alone = [(m.headers or {})["Nats-Msg-Id"] for _, m in f.requests if not size(m)]
        self.assertEqual(len(set(alone)), 5)  # a slow machine repeats some, with the same id

    async def test_order_across_bundles(self) -> None:
        c = await self.connect(max_bundle=10)
        q = c.queue(fresh())
        await q.push("x")
        big = b"b" * (17 << 10)
        found = await asyncio.gather(*(q.push(big if n % 50 == 49 else str(n)) for n in range(300)))
        self.assertEqual([one.seq for one in found], sorted(one.seq for one in found))


class Settlements(Together):
    async def leased(self, n: int, **options: Any) -> tuple[Fake, list[Item]]:
        def respond(verb: str, number: int, m: Any) -> Answer | None:
            if not size(m):
                return Answer()
            return Answer(body="".join(self.answer(line) + "\n" for line in m.data.decode().splitlines()))

        f = await self.fake(respond, ask_again_after=PATIENCE, **options)
        return f, [f.client.attach(f"{f.prefix}.jobs.ack.c.t{i}") for i in range(n)]

    @staticmethod
    def answer(line: str) -> str:
        ack, _, word = line.partition(" ")
        return "-ERR 410 expired too late" if ack.endswith("t4") else "+OK 2030-01-01T00:00:00Z" if word == "+WPI" else "+OK"

    async def test_each_keeps_its_result(self) -> None:
        f, items = await self.leased(9)
        found = await self.results(
            items[0].ack(), items[1].ack(), items[2].ack(), items[3].nak(1, reason="r"), items[4].ack(), items[5].extend(), items[6].term("why"), items[7].give_back(), items[8].term("two\nlines")
        )
        self.assertEqual([type(one) for one in found], [type(None)] * 4 + [pqbridge.LeaseLostError] + [type(None)] * 4)
        self.assertEqual((found[4].op, found[4].reason, found[4].text), ("ack", "expired", "too late"))
        assert items[5].lease_expires is not None
        self.assertEqual(items[5].lease_expires.year, 2030)
        lines = f.requests[2][1].data.decode().splitlines()
        self.assertEqual((f.verbs[2:], [line.split(" ", 1)[1].split(" ")[0] for line in lines]), (["jobs.ack.bundle.settle", "jobs.ack.c.t8"], ["+ACK", "-NAK", "+ACK", "+WPI", "+TERM", "+BACK"]))

    async def test_a_message_that_is_refused(self) -> None:
        """Its error is that of each settlement, and their leases go on."""
        refusing = True
        f = await self.fake(lambda verb, n, m: failure(400, text="bad") if size(m) and refusing else Answer(body="+OK\n" * size(m)), ask_again_after=PATIENCE)
        items = [f.client.attach(f"{f.prefix}.jobs.ack.c.t{i}") for i in range(5)]
        found = await self.results(items[0].ack(), items[1].ack(), items[2].ack(), items[3].nak(), items[4].extend())
        self.assertEqual([type(one) for one in found], [type(None)] * 2 + [BadRequestError] * 3)
        self.assertEqual([(one.op, one.queue, one.text) for one in found[2:]], [(op, "jobs", "bad") for op in ("ack", "nak", "extend")])
        found = await f.client.queue("jobs").ack_many(items[2:])
        self.assertEqual([type(one) for one in found], [BadRequestError] * 3)
        self.assertEqual([size(m) for _, m in f.requests], [0, 0, 3, 3])
        refusing = False
        self.assertEqual(await f.client.queue("jobs").ack_many(items[2:]), [None] * 3)

    async def test_extend_then_ack_keep_their_order(self) -> None:
        f, items = await self.leased(3)
        await asyncio.gather(items[0].extend(), items[1].extend(), items[2].extend(), items[2].ack())
        self.assertEqual([line.split(" ")[1] for line in f.requests[2][1].data.decode().splitlines()], ["+WPI", "+ACK"])

    async def test_who_may_not_settle_together(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(12)])
        told: list[Exception] = []

        async def tell(err: Exception) -> None:
            told.append(err)

        c = await self.connect(user="apart", password="apart", error_cb=tell)
        items = await c.queue(q.name).pop_many(12, lease="1h")
        await asyncio.gather(*(item.ack() for item in items[:6]))
        await asyncio.gather(*(item.ack() for item in items[6:]))
        self.assertEqual(((await q.info())["leased"], len(told)), (0, 1))

    async def test_a_lost_answer_has_held(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(8)])
        items = await q.pop_many(8, lease="1h")
        c, seen = await self.through(lambda verb, n, m: bool(size(m)) and n == 1, ask_again_after=0.5 * SLOW)
        acts = [c.attach(i.ack_subject) for i in items]
        await asyncio.gather(*(one.ack() if n % 2 else one.nak() for n, one in enumerate(acts)))
        self.assertGreater(sum(1 for m in seen if size(m)), 1)
        info = await q.info()
        self.assertEqual((info["leased"], info["ready"]), (0, 4))
