"""Items that are cancelled, and bells: how their holders hear of that."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import pickle
import unittest
import unittest.mock
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from pqbridge import ConflictError, Consumer, ForbiddenError, Item, ItemCancelledError, LeaseLostError, NoResultYetError, NotFoundError, Queue, UnknownResultError, sync
from pqbridge.bells import Bells, Lost
from pqbridge.hold import Ahead, Keeper
from test_repeat import Proxy
from test_results import DONE, PUSHED
from world import PATIENCE, SLOW, URL, Answer, TestCase, failure, fresh, quiet

HOLDER = "the café's till"
BELL = "lost-" + hashlib.sha256(HOLDER.encode()).hexdigest()[:16]


async def ends(consumer: Consumer) -> None:
    await asyncio.wait_for(consumer.wait(), PATIENCE)


class Cancels(TestCase):
    async def test_what_becomes_of_an_item(self) -> None:
        q = self.queue()
        waits = await q.push("waits", priority=3, result_ttl="1h")
        done = await q.cancel(waits.id, "wrong customer")
        self.assertEqual((done.outcome, done.finished_at, done.priority, done.deliveries), ("cancelled", None, 3, 0))
        found = await q.result(waits.id)
        self.assertEqual((found.outcome, found.reason, found.cause, found.body), ("cancelled", "wrong customer", "", b""))
        again = await q.cancel(waits.id)
        self.assertEqual((again.outcome, again.finished_at), ("cancelled", found.finished_at))

        leased = await q.push("leased", result_ttl="1h")
        item = await q.pop(lease="1h")
        await self.fails(q.cancel(leased.id, spare_leased=True), ConflictError, 409, "leased")
        await item.extend()
        self.assertEqual((await q.cancel(leased.id)).deliveries, 1)
        self.assertEqual((await q.result(leased.id)).reason, "")
        err = await self.fails(item.ack(), ItemCancelledError, 410, "cancelled")
        self.assertEqual((err.why, err.text, item.loss), ("", "lease lost: cancelled", err))

        ended = await q.push("ended", result_ttl="1h")
        await (await q.pop(lease="1h")).ack()
        done = await q.cancel(ended.id)
        assert done.finished_at is not None
        self.assertLess(abs((done.finished_at - datetime.now(timezone.utc)).total_seconds()), PATIENCE)
        self.assertEqual(done.outcome, "done")
        await self.fails(self.queue().cancel(ended.id), NotFoundError, 404, "unknown")
        plain = await q.push("plain")
        await q.cancel(plain.id, spare_leased=True)
        await self.fails(q.cancel(plain.id), NotFoundError, 404, "unknown")

    async def test_reasons(self) -> None:
        q = self.queue()
        pushed = await q.push("x", result_ttl="1h")
        await q.cancel(pushed.id, "é" * 2000)
        self.assertEqual((await q.result(pushed.id)).reason, "é" * 512)
        pushed = await q.push("x", result_ttl="1h")
        item = await q.pop(lease="1h")
        await q.cancel(pushed.id, "cancelled: twice")
        err = await self.fails(item.extend(), ItemCancelledError, 410, "cancelled")
        self.assertEqual((err.why, pickle.loads(pickle.dumps(err)).why), ("cancelled: twice", "cancelled: twice"))
        wrong: Any = 3
        await self.fails(q.cancel("i", wrong), TypeError)
        await self.fails(q.cancel("a.b"), ValueError)

    async def test_answers(self) -> None:
        for body in ("{}", '{"outcome": "done", "priority": 0, "deliveries": 1, "finished_at": "soon"}'):
            f = await self.fake(lambda verb, n, m: Answer(body=body))
            await self.fails(f.client.queue("jobs").cancel("i"), UnknownResultError, 504)
        self.assertEqual((f.verbs, f.bodies), (["jobs.cancel.i"], [{}]))
        c, lost = await self.lossy()
        q = c.queue(fresh())
        pushed = await q.push("x", result_ttl="1h")
        self.assertEqual(((await q.cancel(pushed.id)).outcome, lost), ("cancelled", ["push", "cancel"]))


class Holders(TestCase):
    """Their leases last for an hour, so only a bell explains what they hear."""

    def setUp(self) -> None:
        self.began: list[Item] = []
        self.errors: list[tuple[type[BaseException], str]] = []
        self.settlements: list[bytes] = []
        self.go = asyncio.Event()

    async def watched(self) -> Queue:
        """A queue whose settlements are noted."""
        q = self.queue()

        async def note(m: Any) -> None:
            self.settlements.append(m.data)

        await (await self.connect()).connection.subscribe(f"pq.{q.name}.ack.>", cb=note)
        return q

    async def work(self, item: Item) -> str:
        self.began.append(item)
        await self.go.wait()
        return "done"

    def on_error(self, err: BaseException, item: Item | None) -> None:
        self.errors.append((type(err), getattr(err, "text", str(err))))

    async def holds(self, q: Queue, n: int = 1, **options: Any) -> Consumer:
        """A consumer with n items that its handlers have begun with."""
        for _ in range(n):
            await self.client.queue(q.name).push("x", result_ttl="1h")
        consumer = q.consume(self.work, **{"lease": "1h", "holder": HOLDER, "concurrency": n, "limit": n, "on_error": self.on_error, **options})
        await self.until("it has them", lambda: len(self.began) == n)
        return consumer

    async def ring(self, q: Queue, event: str = BELL, **told: Any) -> None:
        """Forges a bell."""
        await self.client.connection.publish(f"pq.{q.name}.event.{event}", json.dumps({"cause": "cancelled", "reason": "forged", **told}).encode())

    async def extended(self, q: Queue, item: Item, before: datetime | None) -> None:
        await self.until("the lease is extended", lambda: before and item.lease_expires and item.lease_expires > before)

    async def test_one_hears_of_a_cancel(self) -> None:
        q = await self.watched()
        consumer = await self.holds(q)
        with self.assertNoLogs("pqbridge", level="WARNING"):
            await q.cancel(self.began[0].id, "wrong customer")
            await ends(consumer)
        self.assertEqual(self.errors, [(ItemCancelledError, "cancelled: wrong customer")])
        assert isinstance(self.began[0].loss, ItemCancelledError)
        self.assertEqual((self.began[0].loss.why, self.began[0].loss.reason), ("wrong customer", "cancelled"))
        await self.client.connection.flush()
        self.assertEqual(self.settlements, [b"+WPI"])
        self.assertEqual((await q.result(self.began[0].id)).outcome, "cancelled")

    async def test_the_default_holder_and_the_log(self) -> None:
        q = self.queue()
        pushed = await q.push("x")  # whose result nobody keeps: the bell alone says why
        with self.assertLogs("pqbridge") as logs:
            consumer = q.consume(self.work, lease="1h", limit=1)
            await self.until("it has it", lambda: self.began)
            await q.cancel(pushed.id)
            await ends(consumer)
        self.assertEqual(logs.output, [f"WARNING:pqbridge:item {pushed.id} of {q.name}: extend {q.name}: cancelled (410)"])

    async def test_one_that_goes_on_acknowledges_nothing(self) -> None:
        for raises, told in (None, []), (ValueError("broken"), [(ValueError, "broken")]):
            self.setUp()
            q = await self.watched()

            async def work(item: Item) -> str:
                self.began.append(item)
                try:
                    await self.go.wait()
                except asyncio.CancelledError:
                    if raises:
                        raise raises from None
                return "done"

            await q.push("x", result_ttl="1h")
            consumer = q.consume(work, lease="1h", limit=1, on_error=self.on_error)
            await self.until("it has it", lambda: self.began)
            await q.cancel(self.began[0].id, "why")
            await ends(consumer)
            await self.client.connection.flush()
            self.assertEqual((self.errors, self.settlements), ([(ItemCancelledError, "cancelled: why"), *told], [b"+WPI"]))

    async def test_one_that_has_heard_otherwise(self) -> None:
        """By its own call, before the bell; and by a call about another item, which says nothing about its own."""
        q, others = await self.watched(), self.queue()

        async def work(item: Item) -> None:
            self.began.append(item)
            if item.text == "own":
                await q.cancel(item.id, "why")
                await item.report("half")
            else:
                await others.push_and_wait("x", wait=0.01, cancel_on_hang_up=True)

        await q.push("own", result_ttl="1h")
        await q.push("other")
        await q.configure({"backoff": ["1h"]})
        with unittest.mock.patch.object(Bells, "begin"):
            await ends(q.consume(work, lease="1h", limit=2, on_error=self.on_error))
        self.assertEqual([text for _, text in self.errors], ["lease lost: cancelled: why", "cancelled: the caller has hung up: its time is up"])
        self.assertEqual((await q.info())["delayed"], 1)

    async def test_one_without_bells(self) -> None:
        """It hears with its next extension, from the answer alone."""
        q = self.queue()
        with unittest.mock.patch.object(Bells, "begin"):
            consumer = await self.holds(q, lease=0.9 * SLOW)
            await q.cancel(self.began[0].id, "why")
            await ends(consumer)
        self.assertEqual(self.errors, [(ItemCancelledError, "cancelled: why")])

    async def test_what_is_removed_or_revoked(self) -> None:
        q = self.queue()
        consumer = await self.holds(q, 2)
        await q.remove(self.began[0].id)
        await self.until("one has ended", lambda: len(self.errors) == 1)
        await q.revoke(self.began[1].id, reason="too slow", delay="1h")
        await ends(consumer)
        self.assertEqual(self.errors, [(LeaseLostError, "lease lost: removed"), (LeaseLostError, "lease lost: revoked: too slow")])

    async def test_a_purge(self) -> None:
        q = self.queue()
        consumer = await self.holds(q, 3)
        await q.purge()
        await ends(consumer)
        self.assertEqual(self.errors, [(LeaseLostError, "lease lost: gone")] * 3)

    async def test_a_forged_bell(self) -> None:
        """It extends the lease. What it says nobody believes, also when the lease is lost later."""
        q = await self.watched()
        consumer = await self.holds(q, 2)
        for item in self.began:
            before = item.lease_expires
            await self.ring(q, id=item.id, fence=item.fence)
            await self.extended(q, item, before)
        await self.client.attach(self.began[0].ack_subject).ack()
        await self.ring(q, "purged")
        await self.until("it is lost", lambda: self.errors)
        self.go.set()
        await ends(consumer)
        self.assertEqual(self.errors, [(LeaseLostError, "lease lost: gone")])
        self.assertEqual((await q.result(self.began[1].id)).text, "done")

    async def test_a_bell_of_another_lease(self) -> None:
        q = self.queue()
        consumer = await self.holds(q, 2)
        one, two = self.began
        before = one.lease_expires, two.lease_expires
        await self.ring(q, id=one.id, fence=one.fence + 1)
        await self.ring(q, id="other", fence=one.fence)
        await self.ring(q, "lost-0123456789abcdef", id=one.id, fence=one.fence)
        await self.ring(q, id=two.id, fence=two.fence)
        await self.extended(q, two, before[1])
        self.go.set()
        await ends(consumer)
        self.assertEqual((one.lease_expires, self.errors), (before[0], []))

    async def test_many_bells(self) -> None:
        """They extend a lease once a second at most."""
        q = await self.watched()
        consumer = await self.holds(q)
        item, times = self.began[0], list[float]()
        for n in range(1, 3):
            for _ in range(100):
                await self.ring(q, id=item.id, fence=item.fence)
            await self.until("it is extended", lambda: len(self.settlements) == n)
            times.append(asyncio.get_running_loop().time())
        self.go.set()
        await ends(consumer)
        self.assertGreater(times[1] - times[0], 0.9)
        self.assertEqual(self.errors, [])

    async def test_no_right_to_hear_them(self) -> None:
        """The worker works, the program hears of nothing, and a new connection does not ask again."""
        proxy = await Proxy.start(self)
        refused: list[Exception] = []

        async def error_cb(err: Exception) -> None:
            refused.append(err)

        c = await self.connect(proxy.url, user="worker", password="worker", inbox_prefix="_INBOX.worker", error_cb=error_cb)
        q = self.queue(c)
        with self.assertLogs("pqbridge", logging.DEBUG) as logs:
            consumer = await self.holds(q, 2, limit=None)
        self.assertEqual([("DEBUG" in line, "may not subscribe to" in line) for line in logs.output], [(True, True)] * 2)
        proxy.sent.clear()
        proxy.cut()
        await self.until("there is a new connection", lambda: c.connection.stats["reconnects"] and b"SUB _INBOX" in proxy.sent)
        self.go.set()
        await q.push("x")
        await self.until("it goes on", lambda: len(self.began) == 3)
        await consumer.stop()
        self.assertNotIn(b".event.", proxy.sent)
        self.assertEqual([err for err in refused if "permissions" in str(err)], [])
        self.assertEqual(self.errors, [])
        await self.until("all refusals are there", lambda: not consumer._bells._own)
        await c.connection.subscribe(f"pq.{q.name}.event.purged")  # the program's own is another thing
        await self.until("it hears", lambda: [err for err in refused if "permissions" in str(err)])

    async def test_refusals_that_come_together(self) -> None:
        """The mailbox does not miss its own for those of bells."""
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url, user="all", password="all", ask_again_after=PATIENCE)
        q = self.queue(c)
        await q.push("a")
        bells = Bells(q, HOLDER)
        bells.begin()
        await c.connection.flush()
        c.connection.options.update(user="worker", password="worker")
        proxy.cut()
        await self.until("there is a new connection", lambda: c.connection.stats["reconnects"])
        await self.fails(q.push("b"), ForbiddenError, 403)
        await bells.stop()

    async def test_nobody_listens_behind_a_consumer(self) -> None:
        q = self.queue(await self.connect())
        subscriptions = len(q.client.connection._subs)
        consumer = await self.holds(q)
        self.go.set()
        await ends(consumer)
        self.assertEqual(len(q.client.connection._subs), subscriptions + 1)  # the mailbox


class Held:
    """A lease that notes its bells."""

    def __init__(self, id: str, fence: int) -> None:
        self.lease = id, fence
        self.rung: list[Lost | None] = []

    def ring(self, lost: Lost | None) -> None:
        self.rung.append(lost)


class Remembered(TestCase):
    """Bells that ring before the answer to a pop is there."""

    async def ring(self, bells: Bells, id: Any, fence: Any, **told: Any) -> None:
        m: Any = SimpleNamespace(data=json.dumps({"id": id, "fence": fence, "cause": "cancelled", **told}).encode())
        await bells.one(m)

    async def test_the_last_ones(self) -> None:
        bells = Bells(self.queue(), HOLDER)
        for n in range(66):
            await self.ring(bells, f"i{n}", 1, reason=str(n))
        await self.ring(bells, "i2", 1, reason="again")
        await self.ring(bells, "last", 1)
        held = [Held(f"i{n}", 1) for n in (1, 2, 3, 65)]
        late = Held("i65", 2)
        for one in [*held, late]:
            bells.enter(one)
        self.assertEqual([one.rung for one in held], [[], [Lost("cancelled", "again")], [], [Lost("cancelled", "65")]])
        self.assertEqual(late.rung, [])
        self.assertEqual(len(bells._rung), 64)
        m: Any = None
        await bells.all(m)
        bells.leave(late)
        await bells.all(m)
        self.assertEqual((late.rung, held[0].rung), ([None], [None, None]))

    async def test_what_is_no_bell(self) -> None:
        bells = Bells(self.queue(), HOLDER)
        held = Held("i", 1)
        bells.enter(held)
        for id, fence, told in ((["i"], 1, {}), ("i", "1", {}), ("i", 1, {"cause": 3}), ("i", 1, {"reason": 3})):
            await self.ring(bells, id, fence, **told)
        for data in (b"", b"\xff", b"[]", b"3", b"[" * 100_000):
            m: Any = SimpleNamespace(data=data)
            await bells.one(m)
        self.assertEqual(held.rung, [])
        await self.ring(bells, "i", 1, reason="x" * 100_000)
        self.assertEqual(held.rung, [Lost("cancelled", "x" * 1024)])

    async def test_they_extend_at_once(self) -> None:
        q = self.queue()
        bells = Bells(q, HOLDER)
        lost: list[LeaseLostError] = []
        for ahead in False, True:
            pushed = await q.push("x")
            item = await q.pop(lease="1h")
            await q.cancel(pushed.id)
            await self.ring(bells, item.id, item.fence, reason="why")
            if ahead:
                asked: asyncio.Future[Item | None] = asyncio.get_running_loop().create_future()
                asked.set_result(item)
                keeps: Ahead | Keeper = Ahead(asked, bells)
            else:
                keeps = Keeper(item, lost.append, bells)
            await self.until("it is lost", lambda: item.loss)
            keeps.cancel()
            assert isinstance(item.loss, ItemCancelledError)
            self.assertEqual((item.loss.why, bells._holds), ("why", {}))
        self.assertEqual(len(lost), 1)


class HangUps(TestCase):
    async def test_by_time(self) -> None:
        q = self.queue()
        err = await self.fails(q.push_and_wait("x", wait=0.01, cancel_on_hang_up=True), ItemCancelledError, 410, "cancelled")
        self.assertEqual(err.why, "the caller has hung up: its time is up")
        late = err.__cause__
        assert isinstance(late, NoResultYetError)
        found = await q.result(late.id)
        self.assertEqual((found.outcome, found.reason), ("cancelled", err.why))

    async def test_by_a_cancelled_task(self) -> None:
        """The worker hears of it at once."""
        q = self.queue()
        errors: list[str] = []
        began: list[Item] = []

        async def work(item: Item) -> None:
            began.append(item)
            await asyncio.sleep(PATIENCE)

        await q.configure({})  # before it there is no queue, which a consumer says
        consumer = q.consume(work, lease="1h", limit=1, on_error=lambda err, item: errors.append(getattr(err, "text", "")))
        asked = asyncio.create_task(q.push_and_wait("x", wait="1h", cancel_on_hang_up=True))
        await self.until("it works", lambda: began)
        asked.cancel()
        await self.fails(asked, asyncio.CancelledError)
        found = await q.result(began[0].id)
        self.assertEqual((found.outcome, found.reason), ("cancelled", "the caller has hung up: its task was cancelled"))
        await ends(consumer)
        self.assertEqual(errors, [f"cancelled: {found.reason}"])

    async def test_before_the_push_is_answered(self) -> None:
        """The item is cancelled once its id is known, before the task ends."""
        said: dict[str, Answer] = {}
        f = await self.fake(lambda verb, n, m: said.get(verb), ask_again_after=PATIENCE)
        asked = asyncio.create_task(f.client.queue("jobs").push_and_wait("x", wait="1h", cancel_on_hang_up=True))
        await self.until("it is pushed", lambda: f.requests)
        asked.cancel()
        _, push = f.requests[0]
        said["jobs.cancel.i"] = Answer(body='{"id": "i", "outcome": "cancelled", "priority": 0, "deliveries": 0}')
        await f.bridge.publish(push.reply, PUSHED.body.encode())
        await self.fails(asked, asyncio.CancelledError)
        self.assertEqual(f.verbs, ["jobs.push", "jobs.cancel.i"])

    async def test_twice(self) -> None:
        """Who is cancelled again does not wait for the answer."""
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else None)
        asked = asyncio.create_task(f.client.queue("jobs").push_and_wait("x", wait="1h", cancel_on_hang_up=True))
        await self.until("it waits", lambda: len(f.requests) >= 2)
        asked.cancel()
        await self.until("it hangs up", lambda: "jobs.cancel.i" in f.verbs)
        self.assertFalse(asked.done())
        asked.cancel()
        await self.fails(asked, asyncio.CancelledError)

    async def test_the_item_has_just_ended(self) -> None:
        said = {"jobs.push": PUSHED, "jobs.cancel.i": Answer(body='{"id": "i", "outcome": "done", "finished_at": "2030-01-02T03:04:05Z", "priority": 0, "deliveries": 1}')}
        f = await self.fake(lambda verb, n, m: said.get(verb) or (DONE if "jobs.cancel.i" in f.verbs else failure(408)))
        q = f.client.queue("jobs")
        self.assertEqual((await q.push_and_wait("x", wait=0.01, cancel_on_hang_up=True)).text, "12 boards")
        said["jobs.cancel.i"] = Answer(body='{"id": "i", "outcome": "cancelled", "finished_at": "2030-01-02T03:04:05Z", "priority": 0, "deliveries": 1}')
        f.requests.clear()
        await self.fails(q.push_and_wait("x", wait=0.01, cancel_on_hang_up=True), ItemCancelledError, 410, "cancelled")

    async def test_who_may_not_cancel(self) -> None:
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else failure(403) if "cancel" in verb else failure(408))
        err = await self.fails(f.client.queue("jobs").push_and_wait("x", wait=0.01, cancel_on_hang_up=True), NoResultYetError, 408)
        self.assertIsInstance(err.__cause__, ForbiddenError)

    async def test_only_where_it_is_said(self) -> None:
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else failure(408))
        await self.fails(f.client.queue("jobs").push_and_wait("x", wait=0.01), NoResultYetError, 408)
        self.assertNotIn("jobs.cancel.i", f.verbs)


class Synchronous(unittest.TestCase):
    def test_calls(self) -> None:
        with sync.connect(URL, timeout=PATIENCE, error_cb=quiet) as client:
            q = client.queue(fresh())
            pushed = q.push("x", result_ttl="1h")
            lost: list[Any] = []
            errors: list[Any] = []

            def work(item: sync.Item) -> str:
                q.cancel(item.id, "why")
                lost.extend((item.lost.wait(PATIENCE), item.loss))
                return "done"

            q.consume(work, lease="1h", limit=1, on_error=lambda err, item: errors.append(err)).wait()
            self.assertEqual((lost[0], lost[1].why, errors), (True, "why", [lost[1]]))
            self.assertEqual(q.result(pushed.id).outcome, "cancelled")
            with self.assertRaises(ItemCancelledError):
                q.push_and_wait("y", wait=0.01, cancel_on_hang_up=True)
            q.push("z", result_ttl="1h")
            with self.assertRaises(ItemCancelledError), q.pop(lease="1h") as item:
                q.cancel(item.id)
