"""What handlers return is the result of their items."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable
from typing import Any

from pqbridge import Consumer, Item, LeaseLostError, NotFoundError, TooLargeError, sync
from test_together import Together, size
from world import PATIENCE, URL, Answer, Fake, failure, fresh, quiet


class Broken(dict[str, int]):
    """Something that another thread changes."""

    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def acks(f: Fake) -> list[bytes]:
    """What was sent to settle leases."""
    return [m.data for verb, m in f.requests if ".ack." in verb]


class Stand(Together):
    """Workers of a stand-in, which has one item."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.errors: list[tuple[BaseException, str]] = []

    def on_error(self, err: BaseException, item: Item | None) -> None:
        self.errors.append((err, item.id if item else ""))

    @property
    def kinds(self) -> list[tuple[type[BaseException], str]]:
        return [(type(err), id) for err, id in self.errors]

    async def one(self, settle: Callable[[bytes], Answer] = lambda word: Answer(), asks: bool = True) -> Fake:
        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if ".ack." in verb:
                return settle(m.data)
            item = {"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t", "PQ-Deliveries": "1"}
            return Answer({**item, "PQ-Result-TTL": "10m0s"} if asks else item, "x")

        f = await self.fake(respond, ask_again_after=PATIENCE)
        return f

    async def returns(self, value: object, settle: Callable[[bytes], Answer] = lambda word: Answer(), asks: bool = True) -> list[bytes]:
        """What is sent after a handler has returned a value."""
        f = await self.one(settle, asks)

        async def work(item: Item) -> object:
            return value

        await f.client.queue("jobs").consume(work, limit=1, on_error=self.on_error)
        return acks(f)


class Values(Stand):
    async def test_what_is_sent(self) -> None:
        words: dict[str, tuple[object, bytes]] = {
            "bytes": (b"12 \xff\n boards", b"12 \xff\n boards"),
            "a bytearray": (bytearray(b"ab"), b"ab"),
            "a view": (memoryview(b"abcd")[::2], b"ac"),
            "a text": ("zwölf", "zwölf".encode()),
            "JSON": ({"a": [1, None, "ü"]}, b'{"a": [1, null, "\\u00fc"]}'),
            "zero": (0, b"0"),
            "an empty text": ("", b""),
            "no bytes": (b"", b""),
            "false": (False, b"false"),
            "an empty list": ([], b"[]"),
        }
        for what, (value, sent) in words.items():
            with self.subTest(what):
                self.assertEqual(await self.returns(value), [b"+ACK " + sent])
        self.assertEqual(await self.returns(None), [b"+ACK"])
        self.assertEqual(self.errors, [])

    async def test_the_json_is_that_of_pushes(self) -> None:
        q, value = self.queue(), {"ü": [1.5, True, "a\ud800"]}
        await q.push(json=value)
        self.assertEqual(await self.returns(value), [b"+ACK " + (await q.pop()).data])

    async def test_what_nobody_asks_for(self) -> None:
        """It is neither written nor sent."""
        for value in (None, "a", 0, {1}, "\ud800", b"x" * (self.client.connection.max_payload + 1)):
            self.assertEqual(await self.returns(value, asks=False), [b"+ACK"])
        self.assertEqual(self.errors, [])

    async def test_what_cannot_be_kept(self) -> None:
        values: dict[str, tuple[object, type[BaseException]]] = {
            "Object of type set is not JSON serializable": ({1}, TypeError),
            "Circular reference detected": (circular(), ValueError),
            "maximum recursion depth exceeded": (nested(100_000), RecursionError),
            "'utf-8' codec can't encode character '\\ud800' in position 1: surrogates not allowed": ("a\ud800", UnicodeEncodeError),
            "dictionary changed size during iteration": (Broken(a=1), RuntimeError),
        }
        for text, (value, kind) in values.items():
            with self.subTest(text):
                self.errors.clear()
                [sent] = await self.returns(value)
                reason = f"the returned value cannot be kept: {text}"
                self.assertTrue(sent.startswith(f"+TERM {reason}".encode()), sent)
                [(err, id)] = self.errors
                self.assertEqual((type(err), type(err.__cause__), id), (ValueError, kind, "i"))
                self.assertTrue(str(err).startswith(reason), err)

    async def test_what_is_too_large(self) -> None:
        largest = self.client.connection.max_payload
        sent = await self.returns(b"x" * largest)
        self.assertEqual(sent, [f"+TERM the returned value is too large: {largest + 5} bytes: the NATS server takes {largest}".encode()])
        self.assertEqual(self.kinds, [(TooLargeError, "i")])
        sent = await self.returns("long", lambda word: failure(413, text="a settlement has 9000 bytes") if word.startswith(b"+ACK") else Answer())
        self.assertEqual(sent, [b"+ACK long", b"+TERM the returned value is too large: a settlement has 9000 bytes"])
        self.assertEqual(self.kinds, [(TooLargeError, "i")] * 2)

    async def test_another_refusal_ends_nothing(self) -> None:
        self.assertEqual(await self.returns("a", lambda word: failure(500)), [b"+ACK a"])
        self.assertEqual([id for _, id in self.errors], ["i"])

    async def test_the_letter_that_is_refused(self) -> None:
        self.assertEqual(len(await self.returns({1}, lambda word: failure(410, "taken"))), 1)
        self.assertEqual(self.kinds, [(ValueError, "i"), (LeaseLostError, "i")])


class Handlers(Stand):
    async def sent(self, f: Fake, work: Callable[[Item], Any], lease: float = PATIENCE) -> list[bytes]:
        await f.client.queue("jobs").consume(work, lease=lease, limit=1, on_error=self.on_error)
        return acks(f)

    async def test_who_has_settled_the_item_has_said_its_result(self) -> None:
        async def first(item: Item) -> str:
            await item.ack(result="first")
            return "second"

        async def again(item: Item) -> set[str]:
            await item.nak("1h")
            return {"second"}

        self.assertEqual(await self.sent(await self.one(), first), [b"+ACK first"])
        self.assertEqual(await self.sent(await self.one(), again), [b"-NAK 3600000ms"])
        self.assertEqual(self.errors, [])

    async def test_who_has_not_been_able_to(self) -> None:
        async def work(item: Item) -> str:
            await self.fails(item.ack(result=b"x" * self.client.connection.max_payload), TooLargeError)
            return "short"

        self.assertEqual(await self.sent(await self.one(), work), [b"+ACK short"])

    async def test_a_lost_lease(self) -> None:
        """The value is tried, which takes effect if nobody else has got the item."""

        async def work(item: Item) -> str:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                return "late"
            return "in time"

        f = await self.one(lambda word: failure(410, "expired") if word == b"+WPI" else Answer())
        self.assertEqual((await self.sent(f, work, 0.3), self.errors), ([b"+WPI", b"+ACK late"], []))
        self.assertEqual(await self.sent(await self.one(lambda word: failure(410, "taken")), work, 0.3), [b"+WPI", b"+ACK late"])
        self.assertEqual(self.kinds, [(LeaseLostError, "i")])

    async def test_a_stop_within_the_grace(self) -> None:
        began, go = asyncio.Event(), asyncio.Event()

        async def work(item: Item) -> str:
            began.set()
            await go.wait()
            return "done"

        f = await self.one()
        consumer = f.client.queue("jobs").consume(work)
        await began.wait()
        stop = asyncio.ensure_future(consumer.stop(grace=PATIENCE))
        await asyncio.sleep(0)
        go.set()
        await stop
        self.assertEqual(acks(f), [b"+ACK done"])

    async def test_a_stop_behind_the_grace(self) -> None:
        began = asyncio.Event()

        async def work(item: Item) -> str | None:
            began.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                return "at the last moment"
            return None

        f = await self.one()
        consumer = f.client.queue("jobs").consume(work)
        await began.wait()
        await consumer.stop(grace=0)
        self.assertEqual(acks(f), [b"+ACK at the last moment"])

    async def test_a_drain_by_the_handler(self) -> None:
        consumers: list[Consumer] = []

        async def work(item: Item) -> str:
            consumers[0].drain()
            return "the last one"

        f = await self.one()
        consumers.append(f.client.queue("jobs").consume(work))
        await consumers[0]
        self.assertEqual(acks(f), [b"+ACK the last one"])


class Kept(Stand):
    async def test_each_kind(self) -> None:
        q = self.queue()
        values: dict[str, object] = {"bytes": b"\xff\n", "text": "zwölf", "json": {"a": 1}, "zero": 0, "empty": "", "false": False, "list": [], "none": None}

        async def work(item: Item) -> object:
            self.assertEqual(item.result_ttl, 600)
            return values[item.text]

        async with q.consume(work, concurrency=4):
            found = await asyncio.gather(*(q.push_and_wait(name, wait=PATIENCE) for name in values))
        self.assertEqual({one.outcome for one in found}, {"done"})
        bodies = [b"\xff\n", "zwölf".encode(), b'{"a": 1}', b"0", b"", b"false", b"[]", b""]
        self.assertEqual([one.body for one in found], bodies)

    async def test_what_cannot_be_kept_is_dead(self) -> None:
        q = self.queue()
        values: dict[str, object] = {"set": {1}, "large": "x" * self.client.connection.max_payload}

        async def work(item: Item) -> object:
            return values[item.text]

        await q.configure({})  # before it there is no queue, which a consumer says
        async with q.consume(work, on_error=self.on_error):
            found = {name: await q.push_and_wait(name, wait=PATIENCE) for name in values}
        self.assertEqual({(one.outcome, one.deliveries) for one in found.values()}, {("dead", 1)})
        self.assertEqual(found["set"].reason, "the returned value cannot be kept: Object of type set is not JSON serializable")
        self.assertTrue(found["large"].reason.startswith("the returned value is too large: 10485"), found["large"].reason)
        self.assertEqual([type(err) for err, _ in self.errors], [ValueError, TooLargeError])

    async def test_beside_others(self) -> None:
        """Values, none, and those that cannot be kept or that nobody asks for are settled at the same time."""
        c, seen = await self.through(lambda verb, n, m: None)
        q, n = self.queue(), 12
        ids = [(await q.push(str(k), result_ttl="1h" if k % 3 else None)).id for k in range(n)]
        begun, all_of_them = 0, asyncio.Event()

        async def work(item: Item) -> object:
            nonlocal begun
            begun += 1
            if begun == n:
                all_of_them.set()
            await all_of_them.wait()
            return {7} if item.text == "7" else None if item.text == "8" else item.text + " is done"

        await c.queue(q.name).consume(work, concurrency=n, limit=n, lease="1m", on_error=self.on_error)
        for k, id in enumerate(ids):
            if k % 3 == 0:
                await self.fails(q.result(id), NotFoundError, 404, "unknown")
                continue
            found = await q.result(id)
            self.assertEqual((found.outcome, found.text), ("dead", "") if k == 7 else ("done", "" if k == 8 else f"{k} is done"))
        self.assertEqual([type(err) for err, _ in self.errors], [ValueError])
        self.assertTrue(any(size(m) > 1 for m in seen if ".ack." in m.subject))
        words = [line.split(b" ", 1)[1] if size(m) else line for m in seen if ".ack." in m.subject for line in m.data.splitlines()]
        self.assertEqual(sum(word == b"+ACK" for word in words), 5)
        self.assertEqual((await q.info())["leased"], 0)

    async def test_the_worker_of_a_function(self) -> None:
        q = self.queue()

        @q.worker(limit=1)
        async def work(item: Item) -> str:
            return item.text + " is done"

        for start in (work.start, lambda: q.consume(work, limit=1)):
            pushed = await q.push("a", result_ttl="1h")
            await start()
            self.assertEqual((await q.result(pushed.id)).text, "a is done")


class Synchronous(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(self.client.close)
        self.q = self.client.queue(fresh())

    def test_functions_return_results(self) -> None:
        values: dict[str, object] = {"text": "a", "json": [1, None], "set": {1}}

        @self.q.worker()
        def work(item: sync.Item) -> object:
            return values[item.text]

        errors: list[BaseException] = []
        self.q.configure({})  # before it there is no queue, which a consumer says
        with self.q.consume(work, on_error=lambda err, item: errors.append(err)):
            found = {name: self.q.push_and_wait(name, wait=PATIENCE) for name in values}
        self.assertEqual((found["text"].text, found["json"].json(), found["set"].outcome), ("a", [1, None], "dead"))
        self.assertEqual([type(err) for err in errors], [ValueError])

    def test_behind_the_grace(self) -> None:
        id = self.q.push("a", result_ttl="1h").id
        began = threading.Event()

        def work(item: sync.Item) -> str:
            began.set()
            item.lost.wait(PATIENCE)
            return "late"

        consumer = self.q.consume(work, lease="1h", limit=1)
        self.assertTrue(began.wait(PATIENCE))
        consumer.stop(grace=0)
        self.assertEqual(self.q.result(id).text, "late")
