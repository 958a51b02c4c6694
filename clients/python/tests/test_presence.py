"""A wait lasts as long as somebody listens, and nothing is sent by who could not hear the answer."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import unittest
from collections.abc import Awaitable, Callable
from typing import Any

from pqbridge import Client, EmptyError, ForbiddenError, Queue, UnavailableError, UnknownResultError, sync
from test_repeat import Proxy
from world import PATIENCE, URL, Answer, TestCase, failure, fresh, quiet

Wait = Callable[[Queue], Awaitable[Any]]

WAITS: dict[str, Wait] = {
    "pop": lambda q: q.pop(wait=PATIENCE),
    "pop_many": lambda q: q.pop_many(10, wait=PATIENCE),
    "lease": lambda q: q.pop(wait=PATIENCE, lease="1h"),
    "peek": lambda q: q.peek(wait=PATIENCE),
}


async def by_task(wait: Awaitable[Any], begun: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.ensure_future(wait)
    await begun()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def by_timeout(wait: Awaitable[Any], begun: Callable[[], Awaitable[None]]) -> None:
    """Its time is over when the wait has begun, whatever the machine does."""
    over = asyncio.ensure_future(begun())
    task = asyncio.ensure_future(asyncio.wait_for(wait, PATIENCE))
    await over
    task.cancel()
    await asyncio.wait({task})


async def by_first_of_two(wait: Awaitable[Any], begun: Callable[[], Awaitable[None]]) -> None:
    both = {asyncio.ensure_future(wait), asyncio.ensure_future(begun())}
    _, pending = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for one in pending:
        one.cancel()
    await asyncio.wait(pending)


async def by_task_group(wait: Awaitable[Any], begun: Callable[[], Awaitable[None]]) -> None:
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
        await by_task(wait, begun)


async def by_asyncio_timeout(wait: Awaitable[Any], begun: Callable[[], Awaitable[None]]) -> None:
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
        self.assertEqual((await f.client.queue("jobs").pop(wait=PATIENCE)).text, "x")
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
        self.assertEqual((q.info()["ready"], q.pop().text), (1, "late"))
