"""A wait lasts as long as somebody listens, and nothing is sent by who could not hear the answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
import unittest
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from nats.aio.msg import Msg
from pqbridge import BadRequestError, EmptyError, ForbiddenError, NewItem, Queue, UnknownResultError, background, sync
from test_repeat import Proxy
from world import PATIENCE, SLOW, URL, Answer, TestCase, failure, fresh, quiet

Wait = Callable[[Queue], Awaitable[Any]]

WAITS: dict[str, Wait] = {
    "pop": lambda q: q.pop(wait=PATIENCE),
    "repeatable": lambda q: q.pop(wait=PATIENCE, repeatable=True),
    "pop_many": lambda q: q.pop_many(10, wait=PATIENCE),
    "lease": lambda q: q.pop(wait=PATIENCE, lease="1h"),
    "peek": lambda q: q.peek(wait=PATIENCE),
}


Begun = Callable[[], Awaitable[None]]


async def cancelled(wait: Awaitable[Any], begun: Begun) -> asyncio.Future[Any]:
    task = asyncio.ensure_future(wait)
    await begun()
    task.cancel()
    await asyncio.wait({task})
    return task


async def by_task(wait: Awaitable[Any], begun: Begun) -> None:
    assert (await cancelled(wait, begun)).cancelled()


async def by_timeout(wait: Awaitable[Any], begun: Begun) -> None:
    """Its time is over when the wait has begun, whatever the machine does."""
    over = asyncio.ensure_future(begun())
    task = asyncio.ensure_future(asyncio.wait_for(wait, PATIENCE))
    await over
    task.cancel()
    await asyncio.wait({task})


async def first_of_two(wait: Awaitable[Any], begun: Begun) -> bool:
    """Whether one of them had not ended."""
    both = {asyncio.ensure_future(wait), asyncio.ensure_future(begun())}
    _, pending = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for one in pending:
        one.cancel()
    if pending:
        await asyncio.wait(pending)
    return bool(pending)


async def by_first_of_two(wait: Awaitable[Any], begun: Begun) -> None:
    assert await first_of_two(wait, begun)


async def in_task_group(wait: Awaitable[Any], begun: Begun, before_3_11: Callable[[Awaitable[Any], Begun], Awaitable[Any]]) -> None:
    async def fails() -> None:
        await begun()
        raise KeyError("enough")

    async def waits() -> None:
        await wait

    if sys.version_info >= (3, 11):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())
                group.create_task(fails())
        except ExceptionGroup:
            pass
    else:
        await before_3_11(wait, begun)


async def by_task_group(wait: Awaitable[Any], begun: Begun) -> None:
    await in_task_group(wait, begun, by_task)


async def by_asyncio_timeout(wait: Awaitable[Any], begun: Begun) -> None:
    if sys.version_info < (3, 11):
        return await by_task(wait, begun)
    try:
        async with asyncio.timeout(PATIENCE) as limit:
            loop = asyncio.get_running_loop()
            over = asyncio.ensure_future(begun())
            over.add_done_callback(lambda _: limit.reschedule(loop.time()))
            await wait
    except TimeoutError:
        pass


def behind(began: asyncio.Event, after: float) -> Begun:
    async def begun() -> None:
        await began.wait()
        await asyncio.sleep(after)

    return begun


async def cut_task(wait: Awaitable[Any], began: asyncio.Event, after: float) -> None:
    await cancelled(wait, behind(began, after))


async def cut_wait_for(wait: Awaitable[Any], began: asyncio.Event, after: float) -> None:
    try:
        task = asyncio.ensure_future(wait)
        await began.wait()
        await asyncio.wait_for(task, after)
    except asyncio.TimeoutError:
        pass


async def cut_timeout(wait: Awaitable[Any], began: asyncio.Event, after: float) -> None:
    if sys.version_info < (3, 11):
        return await cut_task(wait, began, after)
    try:
        async with asyncio.timeout(None) as limit:

            async def over() -> None:
                await began.wait()
                with contextlib.suppress(RuntimeError):  # the block has ended
                    limit.reschedule(asyncio.get_running_loop().time() + after)

            rescheduling = asyncio.ensure_future(over())
            await wait
    except TimeoutError:
        pass
    await rescheduling


async def cut_first_of_two(wait: Awaitable[Any], began: asyncio.Event, after: float) -> None:
    await first_of_two(wait, behind(began, after))


async def cut_task_group(wait: Awaitable[Any], began: asyncio.Event, after: float) -> None:
    await in_task_group(wait, behind(began, after), cancelled)


CUTS = (cut_task, cut_wait_for, cut_timeout, cut_first_of_two, cut_task_group)

LEAVES = (by_task, by_timeout, by_asyncio_timeout, by_first_of_two, by_task_group)


class Presence(TestCase):
    async def begun(self, q: Queue) -> None:
        """It waits at the bridge."""
        other = self.client.queue(q.name)

        async def waits() -> bool:
            return (await other.info())["waiting"] > 0

        await self.until("it waits", waits)

    async def test_cancelled_pop_takes_nothing(self) -> None:
        for what, wait in WAITS.items():
            for leave in LEAVES:
                with self.subTest(what, leave=leave.__name__):
                    q = self.queue()
                    await q.configure({})
                    await leave(wait(q), lambda: self.begun(q))
                    await q.push("late")
                    self.assertEqual((await q.pop(wait=PATIENCE, lease="1h")).text, "late")

    async def test_a_wait_ends_at_its_end(self) -> None:
        """Whatever ends it, nobody listens any more: the server keeps no subscription of it."""
        c = await self.connect()
        q = self.queue(c)
        await q.push("a")
        before = set(c.connection._subs)
        await self.fails(c.queue(fresh()).pop(wait=0.02), EmptyError, 408)
        await q.pop(wait=PATIENCE)
        pop = asyncio.create_task(q.pop_many(2, wait=PATIENCE))
        await self.begun(q)
        self.assertEqual(len(set(c.connection._subs) - before), 1)
        pop.cancel()
        await asyncio.wait({pop})
        await self.until("it is gone", lambda: set(c.connection._subs) == before)

    async def test_a_late_answer_of_a_wait(self) -> None:
        """It may come later than other requests are repeated: another attempt would bring none sooner, and it may be a lease."""
        after = 0.1 * SLOW

        def respond(verb: str, n: int, m: Msg) -> None:
            async def late() -> None:
                await asyncio.sleep(2 * after)
                await f.bridge.publish(m.reply, b"x", headers={"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t"})

            if "pop" in verb:
                asyncio.ensure_future(late())

        f = await self.fake(respond, ask_again_after=after)
        self.assertEqual((await f.client.queue("jobs").pop(wait=0.001, lease="1h")).text, "x")

    async def test_a_wait_whose_last_answers_are_slow(self) -> None:
        """The client hears what the server says later."""
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url, ask_again_after=PATIENCE)
        q = c.queue(fresh())
        await q.push("a")
        pop = asyncio.create_task(q.pop(min=9, wait=PATIENCE))
        await self.begun(q)
        proxy.answers.clear()
        with patch("pqbridge.mailbox._LAST_ANSWERS", 0.01):
            pop.cancel()
            await asyncio.wait({pop})
            await c.mailbox.left()
        proxy.answers.set()
        self.assertEqual((await q.pop(timeout=10 * SLOW)).text, "a")

    async def test_a_wait_goes_on_under_another_subject(self) -> None:
        proxy = await Proxy.start(self)
        replies: list[str] = []

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            replies.append(m.reply)
            return Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t"}) if len(replies) > 1 else None

        f = await self.fake(respond)
        c = await self.connect(proxy.url, prefix=f.prefix, ask_again_after=PATIENCE)
        pop = asyncio.create_task(c.queue("jobs").pop(wait=PATIENCE, lease="1h"))
        await self.until("it waits", lambda: replies)
        proxy.cut()
        await pop
        inbox = {reply.rsplit(".w.")[0] for reply in replies}
        self.assertEqual((len(replies), len(set(replies)), len(inbox)), (2, 2, 1))

    async def test_a_wait_that_ends_early_begins_anew(self) -> None:
        answers = [failure(408, "timeout"), failure(408, "timeout"), Answer({"PQ-Id": "i"}, "x")]
        f = await self.fake(lambda verb, n, m: answers[n - 1])
        self.assertEqual((await f.client.queue("jobs").peek(wait=PATIENCE)).text, "x")
        self.assertEqual(len(f.requests), 3)

    async def test_no_inbox_right(self) -> None:
        q = self.queue()
        await q.push("a")
        asked: list[str] = []

        async def note(m: Any) -> None:
            asked.append(m.subject)

        await self.client.connection.subscribe(f"pq.{q.name}.>", cb=note)
        await self.client.connection.flush()
        worker = await self.connect(user="worker", password="worker")
        for act in (lambda: worker.queue(q.name).pop(), lambda: worker.queue(q.name).push("b"), lambda: worker.queue(q.name).pop(wait=PATIENCE)):
            err = await self.fails(act(), ForbiddenError, 403)
            self.assertIn('expected another inbox_prefix, such as "_INBOX.worker"', str(err))
        allowed = await self.connect(user="worker", password="worker", inbox_prefix="_INBOX.worker")
        await allowed.queue(fresh()).push("x")
        self.assertEqual(asked, [])
        self.assertEqual((await q.info())["ready"], 1)

    async def test_an_inbox_right_that_is_lost(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url, user="all", password="all", ask_again_after=PATIENCE)
        q = self.queue(c)
        await q.push("a", priority=1)
        waits = asyncio.create_task(q.pop(max=0, wait=PATIENCE, lease="1m"))
        await self.begun(q)
        c.connection.options.update(user="worker", password="worker")
        proxy.cut()
        await self.fails(waits, UnknownResultError, 504)  # nobody can say what became of the first attempt
        await self.fails(q.pop(), ForbiddenError, 403)
        await self.fails(q.push("b"), ForbiddenError, 403)
        self.assertEqual((await self.client.queue(q.name).info())["ready"], 1)
        c.connection.options.update(user="all", password="all")
        proxy.cut()
        self.assertEqual((await q.pop(wait=PATIENCE)).text, "a")

    async def test_requests_keep_their_order_from_the_first_on(self) -> None:
        c = await self.connect()
        q = self.queue(c)
        await asyncio.gather(*(q.push(str(n)) for n in range(200)))
        self.assertEqual([i.text for i in await q.pop_many(200)], [str(n) for n in range(200)])


    async def test_who_may_not_acknowledge_waits_in_one_step(self) -> None:
        """And gets what nobody could acknowledge when its lease is over."""
        q = self.queue()
        taker = await self.connect(user="taker", password="taker", inbox_prefix="_INBOX.taker")
        with patch("pqbridge.take.CONFIRM", 0.2):
            pop = asyncio.create_task(taker.queue(q.name).pop(wait=PATIENCE))
            await self.until("it waits", lambda: taker.mailbox._waits)
            await q.push("a")
            self.assertEqual(((await pop).text, taker.no_steps), ("a", {q.name}))

    async def test_a_wait_that_is_refused(self) -> None:
        """It is an error, and the next one has two steps again."""
        f = await self.fake(lambda verb, n, m: failure(400, text='unknown field "confirm": expected some of …') if m.data else failure(404, "empty"))
        for _ in range(2):
            await self.fails(f.client.queue("jobs").pop(wait=PATIENCE), BadRequestError, 400)
        self.assertEqual([sorted(body) for body in f.bodies], [[], ["confirm", "expires"]] * 2)

    async def test_what_was_waited_for_is_as_what_was_there(self) -> None:
        for lease in ("", "1h"):
            q = self.queue()
            await q.configure({"lease": lease or "0s"})
            await q.push("there", headers={"H": "1"}, key="k")
            waits = asyncio.create_task(self.client.queue(q.name).pop_many(2, min=1, wait=PATIENCE))
            await self.begun(q)
            await q.push_many([NewItem("late", priority=n, headers={"H": "1"}, key="k") for n in (1, 2)])
            found = [await q.pop(max=0), *await waits]
            shown = [(i.leased, i.settled, i.deliveries, i.fence > 0, i.lease_expires is not None, i.backoff, i.headers, i.key) for i in found]
            leased = bool(lease)
            self.assertEqual(shown, [(leased, False, int(leased), leased, leased, 0, {"H": ["1"]}, "k")] * 3)
            self.assertEqual((await q.info())["leased"], 3 * leased)

    async def test_a_cancellation_during_the_acknowledgement(self) -> None:
        """The caller gets the item, and is cancelled where he waits next; a timeout whose block has ended is over."""
        acknowledging, go = asyncio.Event(), asyncio.Event()

        def respond(verb: str, n: int, m: Any) -> Answer | None:
            if ".ack." in verb:
                acknowledging.set()

                async def answer() -> None:
                    await go.wait()
                    await f.bridge.publish(m.reply)

                asyncio.ensure_future(answer())
                return None
            leased = {"PQ-Id": "i", "PQ-Deliveries": "1", "PQ-Ack": f"pq.jobs.ack.c.{'t' * 8}", "PQ-Confirm": "2030-01-01T00:00:00Z"}
            return Answer(leased, "x") if b"confirm" in m.data else failure(404, "empty")

        f = await self.fake(respond, ask_again_after=PATIENCE, bridge_prefix="pq")
        got: list[str] = []
        after: list[str] = []

        async def program(limit: float | None = None) -> None:
            if limit is None or sys.version_info < (3, 11):
                got.append((await f.client.queue("jobs").pop(wait=PATIENCE)).text)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None) as timeout:
                        timeouts.append(timeout)
                        got.append((await f.client.queue("jobs").pop(wait=PATIENCE)).text)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            after.append("went on")

        timeouts: list[Any] = []
        task = asyncio.ensure_future(program())
        await acknowledging.wait()
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait({task})
        self.assertEqual((got, after, task.cancelled()), (["x"], [], True))
        acknowledging.clear()
        go.clear()
        task = asyncio.ensure_future(program(1))
        await acknowledging.wait()
        if timeouts:
            timeouts[0].reschedule(0)
        await asyncio.sleep(0.01)
        go.set()
        await task
        self.assertEqual((got, after), (["x"] * 2, ["went on"]))

    async def test_an_acknowledgement_that_fails(self) -> None:
        """What cannot be acknowledged is not handed out."""
        for answer, kind in ((failure(410, "expired"), EmptyError), (failure(400), BadRequestError), (None, UnknownResultError)):

            def respond(verb: str, n: int, m: Any) -> Answer | None:
                if ".ack." in verb:
                    return answer
                return Answer({"PQ-Id": "i", "PQ-Ack": f"{f.prefix}.jobs.ack.c.t", "PQ-Confirm": "2030-01-01T00:00:00Z"}) if b"confirm" in m.data and n < 3 else failure(404 if n == 1 else 408)

            f = await self.fake(respond, timeout=PATIENCE if answer else 2 * SLOW)
            await self.fails(f.client.queue("jobs").pop(wait=0.05), kind)


WAITS_CUT = int(os.environ.get("PQ_TEST_WAITS", "45"))


class CancelMeetsPush(TestCase):
    """Waits that are cancelled at random moments beside pushes: each item is at the client or in the queue."""

    async def each_once(self, most: int, wait: Wait, leave: Callable[[Awaitable[Any], asyncio.Event, float], Awaitable[None]]) -> tuple[int, int]:
        """leave: cancels what it waits for after some seconds."""
        client, pusher = await self.connect(), await self.connect()
        q = self.queue(client)
        await q.configure({})
        got: list[str] = []
        pushed: list[str] = []

        there: list[str] = []

        async def drain() -> None:
            with contextlib.suppress(EmptyError):
                while True:
                    there.extend(item.text for item in await q.pop_many(1000))

        async def waits(finished: asyncio.Event) -> None:
            try:
                found = await wait(q)
                got.extend(item.text for item in (found if isinstance(found, list) else [found]))
            finally:
                finished.set()

        rounds = WAITS_CUT // (3 * len(CUTS)) + 1
        for n in range(rounds):
            texts = [f"{n}.{i}" for i in range(most)]
            pushed += texts

            async def push() -> None:
                await self.until("it waits", lambda: client.mailbox._waits or finished.is_set())
                await client.connection.flush()
                began.set()
                await pusher.queue(q.name).push_many(list(texts))

            await drain()
            began, finished = asyncio.Event(), asyncio.Event()
            pushing = asyncio.ensure_future(push())
            await leave(waits(finished), began, self.random.random() * 0.004)
            await pushing

        async def quiet() -> bool:
            return (await q.info())["leased"] == 0

        taken = len(got)
        await self.until("nothing is leased", quiet)
        await drain()
        self.assertEqual(sorted(got + there), sorted(pushed), f"{leave.__name__}, {most} items, seed {self.seed}")
        return taken, len(there)

    def setUp(self) -> None:
        self.seed = random.randrange(2**32)
        self.random = random.Random(self.seed)

    async def test_cancel_meets_push(self) -> None:
        kinds: dict[str, tuple[int, Wait]] = {
            "pop": (1, lambda q: q.pop(wait=PATIENCE)),
            "repeatable": (1, lambda q: q.pop(wait=PATIENCE, repeatable=True)),
            "pop_many": (3, lambda q: q.pop_many(3, wait=PATIENCE)),
        }
        totals = await asyncio.gather(*(self.each_once(most, wait, leave) for leave in CUTS for most, wait in kinds.values()))
        taken, there = (sum(column) for column in zip(*totals))
        self.assertTrue(WAITS_CUT < 1000 or (taken and there))
class Synchronous(unittest.TestCase):
    def test_cancelled_pop_takes_nothing(self) -> None:
        """Ctrl-C, and the program goes on."""
        client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(client.close)
        q = client.queue(fresh())
        q.configure({})

        def interrupt() -> None:
            while q.info()["waiting"] == 0:
                pass
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        helper = threading.Thread(target=interrupt)
        helper.start()
        with self.assertRaises(KeyboardInterrupt):
            q.pop(wait=PATIENCE)
        helper.join()
        q.push("late")
        self.assertEqual(q.pop(wait=PATIENCE, lease="1h").text, "late")

    def test_cancel_meets_push(self) -> None:
        """Ctrl-C at random moments, while it waits."""
        client, pusher = (sync.connect(URL, timeout=PATIENCE, error_cb=quiet) for _ in range(2))
        self.addCleanup(client.close)
        self.addCleanup(pusher.close)
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        q = client.queue(fresh())
        q.configure({})
        got: list[str] = []

        def interrupted(signum: int, frame: Any) -> None:
            while frame is not None:  # elsewhere it would be this test that loses the item
                if frame.f_code is background._Outcome.wait.__code__:
                    raise KeyboardInterrupt
                frame = frame.f_back

        former = signal.signal(signal.SIGINT, interrupted)
        self.addCleanup(signal.signal, signal.SIGINT, former)
        rounds = WAITS_CUT // 20 + 1
        for n in range(rounds):
            done = threading.Event()

            def press(n: int = n, done: threading.Event = done, after: float = chance.random() * 0.004) -> None:
                while not client._real.mailbox._waits and not done.is_set():
                    pass
                pushing = threading.Thread(target=pusher.queue(q.name).push, args=[str(n)])
                pushing.start()
                late = time.monotonic() + after
                while time.monotonic() < late:
                    pass
                while not done.is_set():
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    done.wait(0.02)
                pushing.join()

            helper = threading.Thread(target=press)
            helper.start()
            try:
                got.append(q.pop(wait=PATIENCE).text)
            except KeyboardInterrupt:
                pass
            done.set()
            helper.join()
        late = time.monotonic() + PATIENCE
        while q.info()["leased"]:
            self.assertLess(time.monotonic(), late)
        there: list[str] = []
        with contextlib.suppress(EmptyError):
            while True:
                there += [item.text for item in q.pop_many(1000)]
        self.assertEqual(sorted(got + there), sorted(map(str, range(rounds))), f"seed {seed}")
