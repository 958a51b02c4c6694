"""What the client does when answers are lost, connections break and bridges refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pqbridge
from pqbridge import (
    BusyError,
    DamagedError,
    EmptyError,
    ForbiddenError,
    Item,
    LeaseLostError,
    NewItem,
    PQError,
    Queue,
    UnavailableError,
    UnknownResultError,
)
from world import PATIENCE, SLOW, URL, Answer, TestCase, failure, fresh, pushed


class Repetitions(TestCase):
    async def test_lost_answers_add_no_second_item_and_take_no_second_one(self) -> None:
        c, lost = await self.lossy()
        q = self.queue(c)
        first = await q.push("a")
        self.assertFalse(first.duplicate)
        self.assertEqual([p.duplicate for p in await q.push_many(["b", "c"])], [False, False])
        self.assertEqual((await q.info())["ready"], 3)
        item = await q.pop(repeatable=True, lease="1m")
        self.assertEqual(item.id, first.id)
        await item.ack()  # whose first attempt took effect
        self.assertEqual([i.text for i in await q.pop_many(5)], ["b", "c"])
        await self.fails(q.pop(), EmptyError, 404, "empty")
        self.assertEqual(lost, ["push", "info", "pop", "ack"])

    async def test_a_lost_bundle_of_pushes_is_added_once(self) -> None:
        c, lost = await self.lossy()
        q = self.queue(c)
        self.assertEqual([p.duplicate for p in await q.push_many(["a", NewItem("b", msg_id="b")])], [False, False])
        self.assertEqual(lost, ["push"])
        self.assertEqual((await q.info())["ready"], 2)

    async def test_a_lost_bundle_of_settlements_has_held(self) -> None:
        c, lost = await self.lossy()
        direct = self.queue()
        await direct.push_many(["a", "b"])
        items = await direct.pop_many(2, lease="1m")
        self.assertEqual(await c.queue(direct.name).ack_many([c.attach(i.ack_subject) for i in items]), [None, None])
        self.assertEqual(lost, ["ack"])

    async def test_a_lost_next(self) -> None:
        c, lost = await self.lossy()
        direct = self.queue()
        await direct.push_many(["a", "b"])
        item = await direct.pop(lease="1m")
        second = await c.attach(item.ack_subject).ack_next()
        assert second is not None
        self.assertEqual((second.text, lost), ("b", ["ack"]))
        c2, _ = await self.lossy()
        self.assertIsNone(await c2.attach(second.ack_subject.replace(c.grammar.prefix, "pq", 1)).ack_next())
        self.assertEqual((await direct.info())["leased"], 0)

    async def test_a_lost_hand_over_happens_once(self) -> None:
        c, _ = await self.lossy()
        one, two = self.queue(), self.queue()
        await one.configure({"hand_over": "*"})
        await one.push("a")
        item = await one.pop(lease="1m")
        done = await c.attach(item.ack_subject).hand_over(c.queue(two.name), "b")
        self.assertFalse(done.duplicate)
        self.assertEqual(((await two.info())["ready"], (await one.info())["leased"]), (1, 0))

    async def test_ids(self) -> None:
        attempts: dict[str, int] = {}

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            id = m.headers["Nats-Msg-Id"]
            attempts[id] = attempts.get(id, 0) + 1
            return pushed() if attempts[id] == 3 else None

        f = await self.fake(respond)
        q = f.client.queue("jobs")
        await q.push("x")
        await q.push("x")
        self.assertEqual(len(attempts), 2)
        self.assertTrue(all(n >= 3 for n in attempts.values()))

    async def test_without_an_id_nothing_is_repeated(self) -> None:
        f = await self.fake(lambda verb, n, m: None, timeout=3)  # so long a busy machine may take to send
        q = f.client.queue("jobs")
        await asyncio.gather(
            *(
                self.fails(work, UnknownResultError, 504)
                for work in (
                    q.push("x", without_msg_id=True),
                    q.push_many([NewItem("x", without_msg_id=True), NewItem("y", msg_id="y")]),
                    q.pop(),
                    q.pop(lease="1m", wait=0.1),
                    q.purge(),
                    q.remove("i"),
                    q.requeue("i"),
                    q.delete(),
                )
            )
        )
        want = ["jobs.push", "jobs.push", "jobs.pop.min", "jobs.pop.min", "jobs.admin.purge", "jobs.remove.i", "jobs-dead.requeue.i", "jobs.admin.delete"]
        await self.until("all requests are there", lambda: len(f.requests) >= len(want))
        self.assertEqual(sorted(f.verbs), sorted(want))

    async def test_requeue(self) -> None:
        f = await self.fake(lambda verb, n, m: pushed(id="new", priority=7))
        done = await f.client.queue("jobs").requeue("i")
        self.assertEqual((done.id, done.priority, f.verbs, f.bodies), ("new", 7, ["jobs-dead.requeue.i"], [{"to": "jobs"}]))
        await f.client.queue("jobs").requeue("i", origin="morgue")
        self.assertEqual(f.verbs[1:], ["morgue.requeue.i"])

    async def test_a_repeated_settlement_that_finds_its_item_gone_has_held(self) -> None:
        cases: list[tuple[str, Callable[[Item], Awaitable[Any]], bool]] = [
            ("gone", lambda i: i.ack(), True),
            ("taken", lambda i: i.ack(), False),
            ("gone", lambda i: i.term("why"), True),
            ("taken", lambda i: i.term("why"), False),
            ("gone", lambda i: i.nak(), True),
            ("taken", lambda i: i.nak(1), True),
            ("expired", lambda i: i.extend(), False),
            ("gone", lambda i: i.ack_next(), True),
            ("taken", lambda i: i.ack_next(), False),
        ]
        for reason, settle, holds in cases:
            for answered in (False, True):

                def respond(verb: str, n: int, m: Any) -> Answer | None:
                    return failure(410, reason) if n > 1 else failure(503) if answered else None

                f = await self.fake(respond, ask_again_after=PATIENCE if answered else 0.5 * SLOW)
                item = f.client.attach(f"{f.prefix}.jobs.ack.c.t")
                if holds and not answered:
                    await settle(item)
                else:
                    await self.fails(settle(item), LeaseLostError, 410, reason)

    async def test_refusals_that_did_nothing_are_tried_again(self) -> None:
        for code in (409, 429, 503):

            def respond(verb: str, n: int, m: Any) -> Answer:
                if n % 3:
                    return failure(code)
                return pushed() if verb.endswith("push") else Answer({"PQ-Id": "i"}) if verb.endswith("pop.min") else Answer(body="{}")

            q = (await self.fake(respond)).client.queue("jobs")
            await q.push("x", without_msg_id=True)
            await q.pop()
            await q.pause()

    async def test_refusals_are_tried_again_for_as_long_as_was_said(self) -> None:
        f = await self.fake(lambda verb, n, m: failure(429, "full"), retry_for=0.2)
        err = await self.fails(f.client.queue("jobs").push("x"), BusyError, 429, "full")
        self.assertEqual((err.op, err.queue, err.text), ("push", "jobs", "no"))
        self.assertGreater(len(f.requests), 1)

    async def test_a_refusal_behind_an_attempt_without_an_answer(self) -> None:
        cases: list[tuple[int, Callable[[Queue], Awaitable[Any]], bool, type[PQError]]] = [
            (403, lambda q: q.push("x"), True, ForbiddenError),
            (400, lambda q: q.push("x"), False, pqbridge.BadRequestError),
            (506, lambda q: q.pop(repeatable=True), True, DamagedError),
            (506, lambda q: q.peek(), False, DamagedError),
            (506, lambda q: q.pause(), True, DamagedError),
            (506, lambda q: q.info(), False, DamagedError),
        ]
        for code, act, open, kind in cases:
            for answered in (False, True):

                def respond(verb: str, n: int, m: Any) -> Answer | None:
                    return failure(code) if n > 1 else failure(503) if answered else None

                f = await self.fake(respond, ask_again_after=PATIENCE if answered else 0.5 * SLOW)
                doubt = open and not answered
                await self.fails(act(f.client.queue("jobs")), UnknownResultError if doubt else kind, 504 if doubt else code)

    async def test_an_attempt_without_an_answer_behind_a_refusal(self) -> None:
        short = 2 * SLOW  # two attempts begin within it, also on a machine that has much else to do
        acts: list[Callable[[Queue], Awaitable[Any]]] = [
            lambda q: q.push("x", timeout=short),
            lambda q: q.push("x", timeout=short, without_msg_id=True),
            lambda q: q.pop(timeout=short),
            lambda q: q.pop(timeout=short, repeatable=True),
            lambda q: q.pop(timeout=short, wait=0.1),
            lambda q: q.purge(timeout=short),
        ]
        fakes = [await self.fake(lambda verb, n, m: failure(503) if n == 1 else None, ask_again_after=PATIENCE) for _ in acts]
        await asyncio.gather(*(self.fails(act(f.client.queue("jobs")), UnknownResultError, 504) for act, f in zip(acts, fakes)))

    async def test_pops_that_are_sent_again_say_so(self) -> None:
        cases: list[tuple[str, list[Answer | None], Callable[[Queue], Awaitable[Any]], list[bool]]] = [
            ("no answer", [None, None, failure(404, "empty")], lambda q: q.pop(repeatable=True), [False, True, True]),
            ("unknown result", [failure(504), failure(404, "empty")], lambda q: q.pop(repeatable=True), [False, True]),
            ("refused", [failure(503), failure(404, "empty")], lambda q: q.pop(repeatable=True), [False, False]),
            ("no answer, then refused", [None, failure(503), failure(404, "empty")], lambda q: q.pop(repeatable=True), [False, True, True]),
            ("peek", [None, failure(404, "empty")], lambda q: q.peek(), [False, False]),
            ("wait that goes on", [failure(504), failure(408), failure(404, "empty")], lambda q: q.pop(repeatable=True, wait="10h", lease="1m"), [False] * 3),
            ("wait", [failure(504), failure(408), failure(404, "empty")], lambda q: q.pop(repeatable=True, wait="1m", lease="1m"), [False, True, False]),
            ("wait with an id", [failure(504), failure(408), failure(404, "empty")], lambda q: q.pop(pop_id="p", wait="1m"), [False, True]),
        ]
        for what, answers, act, want in cases:
            with self.subTest(what):
                f = await self.fake(
                    lambda verb, n, m: answers[min(n, len(answers)) - 1], ask_again_after=0.5 * SLOW if None in answers else PATIENCE
                )
                await self.fails(act(f.client.queue("jobs")), EmptyError)
                self.assertEqual([b.get("repeat", False) for b in f.bodies][: len(want)], want)
                # A marked attempt that was answered ends its id.
                self.assertEqual(len({b.get("msg_id") for b in f.bodies}), 2 if what == "wait" else 1)

    async def test_an_empty_answer_to_an_earlier_attempt_says_nothing(self) -> None:
        held: list[Any] = []

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            held.append(m)
            if n != 2:
                return None
            late = failure(404, "empty")
            asyncio.ensure_future(f.bridge.publish(held[0].reply, b"", "", late.headers))
            return Answer({"PQ-Id": "i"}, "x")

        f = await self.fake(respond)
        self.assertEqual((await f.client.queue("jobs").pop(repeatable=True)).text, "x")

    async def test_late_answers_are_given_back(self) -> None:
        taken: list[Any] = []

        def lease(fence: str, token: str) -> Answer:
            return Answer({"PQ-Id": "i", "PQ-Fence": fence, "PQ-Ack": f"{f.prefix}.jobs.ack.c.{token}"})

        async def late() -> None:
            for fence, token in (("1", "mine"), ("2", "other")):
                await f.bridge.publish(taken[0].reply, b"", "", lease(fence, token).headers)

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if not verb.endswith("pop.min"):
                return None
            taken.append(m)
            if n == 1:
                return None
            asyncio.ensure_future(late())
            return lease("1", "mine-too")

        f = await self.fake(respond)
        item = await f.client.queue("jobs").pop(repeatable=True, lease="1h")
        self.assertEqual(item.id, "i")

        def given() -> list[str]:
            return [verb for verb, m in f.requests if m.data == b"+BACK"]

        await self.until("the other lease is given back", lambda: "jobs.ack.c.other" in given())
        self.assertEqual(given(), ["jobs.ack.c.other"])

    async def test_what_nobody_reads_is_given_back(self) -> None:
        # A batch is cut short by a cancellation, and an unreadable item comes with a readable one.
        def respond(verb: str, n: int, m: Any) -> list[Answer] | None:
            one = Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.one"})
            if verb.startswith("jobs.pop"):
                return [failure(413)] if n == 1 else [one]
            return None

        f = await self.fake(respond)
        pop = asyncio.create_task(f.client.queue("jobs").pop_many(2, lease="1h"))
        await self.until("the batch has begun", lambda: len(f.requests) == 2)
        await f.client.connection.flush()
        await asyncio.sleep(0.02)
        pop.cancel()
        await asyncio.wait({pop})
        await self.until("its item is given back", lambda: ("jobs.ack.c.one", b"+BACK") in [(verb, m.data) for verb, m in f.requests])

    async def test_a_new_connection(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url, ask_again_after=PATIENCE)
        f = await self.fake(lambda verb, n, m: None if n == 1 else pushed())
        c.grammar, q = f.client.grammar, c.queue("jobs")
        push = asyncio.create_task(q.push("x"))
        await self.until("it was sent", lambda: f.requests)
        proxy.cut()
        self.assertEqual((await push).id, "i")
        c = await self.connect(proxy.url, ask_again_after=PATIENCE)
        q = c.queue(fresh())
        pop = asyncio.create_task(q.pop(wait=PATIENCE, lease="1h"))
        direct = self.client.queue(q.name)

        async def waits() -> bool:
            return (await direct.info())["waiting"] == 1

        await direct.configure({})
        await self.until("it waits", waits)
        proxy.cut()
        await self.until("there is a new connection", lambda: c.connection.stats["reconnects"])
        await direct.push("a")
        self.assertEqual((await pop).text, "a")

    async def test_requests_wait_for_a_connection(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url)
        q = c.queue(fresh())
        await q.push("a")
        proxy.cut(refuse=True)
        await self.until("the connection is away", lambda: not c.connection.is_connected)
        err = await self.fails(q.push("b", timeout=0.1), UnavailableError, 503)
        self.assertEqual(err.op, "push")
        push, pop = asyncio.create_task(q.push("c", priority=-1)), asyncio.create_task(q.pop(min=-1, max=-1, wait=PATIENCE, lease="1m"))
        await asyncio.sleep(0.05)
        proxy.refuse = False
        self.assertFalse((await push).duplicate)
        self.assertEqual((await pop).text, "c")
        self.assertEqual((await q.info())["ready"], 1)

    async def test_closed(self) -> None:
        q = self.queue()
        await q.configure({})
        pop = asyncio.create_task(q.pop(wait=PATIENCE, repeatable=True))

        async def waits() -> bool:
            return bool((await q.info())["waiting"] == 1)

        await self.until("it waits", waits)
        await self.client.close()
        await self.fails(pop, UnknownResultError, 504)
        await self.fails(q.push("x"), UnavailableError, 503)
        await self.fails(q.pop(), UnavailableError, 503)

    async def test_closed_while_it_opens(self) -> None:
        for passes in range(12):
            c = await self.connect()
            push = asyncio.ensure_future(c.queue(fresh()).push("x"))
            for _ in range(passes):
                await asyncio.sleep(0)
            await c.close()
            await asyncio.wait({push})
            self.assertFalse(push.cancelled())
            self.assertIsInstance(push.exception(), (UnavailableError, UnknownResultError, type(None)))

    async def test_rights(self) -> None:
        few = await self.connect(user="few", password="few", inbox_prefix=b"_INBOX.few")
        await few.queue("jobs").push("x", key="few")
        err = await self.fails(few.queue("other").push("x"), ForbiddenError, 403)
        self.assertIn("pq.other.push", str(err))
        await self.fails(few.queue("jobs").pop(), ForbiddenError, 403)
        await self.fails(few.queue("jobs").info(), ForbiddenError, 403)

    async def test_a_refusal_that_comes_late(self) -> None:
        """After attempts whose time was over: none of them was let through."""
        proxy = await Proxy.start(self)
        few = await self.connect(proxy.url, user="few", password="few", inbox_prefix=b"_INBOX.few", ask_again_after=0.02)
        await few.queue("jobs").push("x")
        q = few.queue("other")
        cases: dict[str, Callable[[], Awaitable[Any]]] = {
            "push": lambda: q.push("x"),
            "pop.min": lambda: q.pop(repeatable=True),
            "peek.min": lambda: q.peek(),
        }
        for verb, act in cases.items():
            proxy.answers.clear()
            both = [asyncio.ensure_future(act()) for _ in range(2)]
            await self.until("both were sent twice", lambda: proxy.sent.count(f"PUB pq.other.{verb} ".encode()) >= 4)
            proxy.answers.set()
            for one in both:
                await self.fails(one, ForbiddenError, 403)

    async def test_refusals_that_come_together(self) -> None:
        proxy = await Proxy.start(self)
        few = await self.connect(proxy.url, user="few", password="few", inbox_prefix=b"_INBOX.few", ask_again_after=PATIENCE)
        await few.queue("jobs").push("x")
        proxy.answers.clear()
        acts = [asyncio.ensure_future(few.queue(name).pop(lease="1m")) for name in ("a", "a", "b")]
        await self.until("all were sent", lambda: proxy.sent.count(b".pop.min ") == 3)
        proxy.answers.set()
        for one in acts:
            await self.fails(one, ForbiddenError, 403)

    async def test_a_right_to_publish_that_is_lost(self) -> None:
        proxy = await Proxy.start(self)
        f = await self.fake(lambda verb, n, m: None)
        c = await self.connect(proxy.url, user="all", password="all", prefix=f.prefix, inbox_prefix=b"_INBOX.few", ask_again_after=PATIENCE)
        acts = [asyncio.ensure_future(act) for act in (c.queue("jobs").push("x"), c.queue("jobs").pop(repeatable=True))]
        await self.until("both are there", lambda: len(f.requests) == 2)
        c.connection.options.update(user="few", password="few")
        proxy.cut()
        for one in acts:
            await self.fails(one, UnknownResultError, 504)  # nobody can say what became of the first attempt

    async def test_room(self) -> None:
        answers = asyncio.Event()

        def respond(verb: str, n: int, m: Any) -> None:
            async def later() -> None:
                await answers.wait()
                done = pushed()
                await f.bridge.publish(m.reply, done.body.encode())

            asyncio.ensure_future(later())

        f = await self.fake(respond, max_in_flight=2, ask_again_after=PATIENCE)
        q = f.client.queue("jobs")
        pushes = [asyncio.create_task(q.push("x")) for _ in range(5)]
        await self.until("two were sent", lambda: len(f.requests) == 2)
        with self.assertRaisesRegex(UnavailableError, "no room for the push: max_in_flight"):
            await q.push("x", timeout=0.05)
        pushes[3].cancel()
        await self.fails(f.client.flush(timeout=0.01), TimeoutError)
        answers.set()
        await f.client.flush()
        self.assertEqual(len(f.requests), 4)
        await asyncio.gather(*pushes, return_exceptions=True)


class Proxy:
    """Stands between a client and the NATS server, and cuts their connections."""

    def __init__(self) -> None:
        self.refuse = False
        self.refused = 0
        self.url = ""
        self.sent = bytearray()
        self.answers = asyncio.Event()
        """Whether it passes on what the server says."""
        self.answers.set()
        self._open: set[asyncio.StreamWriter] = set()

    @classmethod
    async def start(cls, test: TestCase) -> Proxy:
        proxy = cls()
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        proxy.url = "nats://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        test.addCleanup(server.close)
        return proxy

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            self.refused += 1
            writer.close()
            return
        host, port = URL.split("//")[1].split("@")[-1].split(":")
        there, back = await asyncio.open_connection(host, int(port))
        self._open |= {writer, back}
        await asyncio.gather(self._ask(reader, back), self._answer(there, writer), return_exceptions=True)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.sent += data
            writer.write(data)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.answers.wait()
            writer.write(data)
        writer.close()

    def cut(self, refuse: bool = False) -> None:
        self.refuse = refuse
        for writer in self._open:
            writer.close()
        self._open.clear()
