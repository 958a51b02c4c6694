"""Workers: they lease items, call a handler on each, and settle what it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from time import monotonic
from types import TracebackType
from typing import Any

from .asks import Asks
from .bells import Bells
from .duration import Duration, seconds
from .errors import ItemCancelledError, LeaseLostError, PQError, SettledError
from .hold import Ahead, Keeper
from .item import Item
from .outcome import kept, outcome
from .signals import on_stop
from .supply import Supply
from .values import count

Handler = Callable[[Item], Awaitable[object]]


# Some supervisors signal a process and its group, so a stop comes twice.
_ONE_STOP = 1.0


class Told:
    """How often a program was told to stop. What comes within a second of the first is the same."""

    def __init__(self) -> None:
        self.once = asyncio.Event()
        self.twice = asyncio.Event()
        self._first = 0.0

    def tell(self) -> None:
        if not self.once.is_set():
            self._first = monotonic()
            self.once.set()
        elif monotonic() - self._first >= _ONE_STOP:
            self.twice.set()


class Consumer:
    """The workers of one Queue.consume. Wait for it with await: a program that is cancelled there
    cancels the handlers, and hands back their items. As an asynchronous context manager it stops at the
    end of the block."""

    def __init__(self, supply: Supply, handler: Handler, concurrency: int, delay: Callable[[int], Duration] | None) -> None:
        if not callable(handler):
            raise TypeError(f"the handler is {handler!r}: expected an asynchronous function of an item")
        self._supply = supply
        self._handler = handler
        self._delay = delay
        self._stopping = False
        self._cutting = False
        self._fatal: BaseException | None = None
        self._asks = Asks(supply)
        self._bells = Bells(supply.queue, supply.holder)
        self._handling: set[asyncio.Task[Any]] = set()
        loop = asyncio.get_running_loop()
        workers = count(concurrency, "concurrency", 10_000)
        self._bells.begin()
        self._workers = [loop.create_task(self._run()) for _ in range(workers)]
        self._over = loop.create_task(self._until_over())

    async def _until_over(self) -> None:
        """Waits until all workers have ended, and nobody listens for them any more."""
        await asyncio.wait(self._workers)
        self._asks.stop()
        await self._asks.left()
        await self._bells.stop()

    def drain(self) -> None:
        """Takes no more items. It does not wait, so a handler may call it."""
        self._stopping = True
        self._asks.stop()

    async def stop(self, grace: Duration | None = None) -> None:
        """Takes no more items, waits for the handlers and settles their items. After grace it cancels the
        handlers, and hands back what they have not settled."""
        limit = None if grace is None else seconds(grace, "grace", zero=True)
        self.drain()
        await self._asks.left()
        await asyncio.wait(self._workers, timeout=limit)
        self._cutting = True
        for task in self._handling:
            task.cancel()
        await asyncio.wait({self._over})
        await self._supply.queue.client.mailbox.left()
        self._raise()

    async def run(self, grace: Duration = 20.0) -> None:
        """Waits until all workers have ended, as wait does, and stops them at SIGTERM or Ctrl-C: they take nothing
        more, and what runs after the grace is cancelled and handed back. Another signal, a second later or more, ends the
        grace. It returns then, so that the program ends in order."""
        loop = asyncio.get_running_loop()
        told = Told()
        with on_stop(lambda: loop.call_soon_threadsafe(told.tell)):
            await self.until(told, grace)

    async def until(self, told: Told, grace: Duration) -> None:
        """Waits until all workers have ended, or the program was told to stop, once or twice."""
        limit = seconds(grace, "grace", zero=True)
        first, second = (asyncio.ensure_future(event.wait()) for event in (told.once, told.twice))
        working = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({working, first}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.drain()
                await asyncio.wait({working, second}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await self.stop(grace=0)
            await working
        finally:
            for task in (first, second, working):
                task.cancel()
            await asyncio.gather(first, second, working, return_exceptions=True)

    async def wait(self) -> None:
        """Waits until all workers have ended. It fails if they cannot go on: an argument is wrong, the user
        may not pop, or the connection was closed."""
        try:
            await asyncio.wait({self._over})
        except asyncio.CancelledError:
            await asyncio.gather(self.stop(grace=0), return_exceptions=True)
            raise
        self._raise()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop(None if err is None else 0)

    def _raise(self) -> None:
        if self._fatal is not None:
            raise self._fatal

    async def _run(self) -> None:
        """A worker. The settlement of an item and the ask for the next one leave at the same time, and the next one begins
        when both are answered."""
        try:
            item = await self._asks.ask()
            while item is not None:
                if self._stopping:
                    return await self._return(item)
                settle = await self._serve(item)
                asked = self._asks.ask()
                lost = None if settle is None else await self._settle(item, settle, asked)
                item = await asked
                if item is not None and lost is not None:  # somebody else has it
                    self._supply.release()
                    self._report(lost, item)
                    item = None
                if item is None and not self._stopping:  # what was settled behind the ask may have made something ready
                    item = await self._asks.ask()
        except Exception as err:
            self._end(err)

    async def _return(self, item: Item) -> None:
        """Gives back what has come too late to begin with it."""
        try:
            await item.give_back()
        except PQError as err:
            self._report(err, item)

    def _end(self, err: BaseException) -> None:
        self._fatal = self._fatal or err
        self.drain()

    async def _serve(self, item: Item) -> Callable[[], Awaitable[None]] | None:
        """Calls the handler on an item, and returns what settles the item, None if that is done."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(_called(self._handler, item))
        lost: list[LeaseLostError] = []

        def lose(err: LeaseLostError) -> None:
            lost.append(err)
            task.cancel()

        keeper = Keeper(item, lose, self._bells)
        self._handling.add(task)
        if self._cutting:
            task.cancel()
        try:
            await _ended(task)
        except asyncio.CancelledError:  # the loop ends: there is no time to wait for answers
            task.cancel()
            self._supply.queue.client.mailbox.drop(item.ack_subject)
            raise
        finally:
            keeper.cancel()
            self._handling.discard(task)
        err = lost[0] if lost and task.cancelled() else asyncio.CancelledError() if task.cancelled() else task.exception()
        cancelled = None if item.settled or not isinstance(item.loss, ItemCancelledError) else item.loss
        if cancelled is not None and not isinstance(err, LeaseLostError):  # the handler has not said it
            self._report(cancelled, item)
        if isinstance(err, Exception):
            self._report(err, item)
        # A late acknowledgement still takes effect if no other consumer has got the item.
        if item.settled or cancelled is not None or (err is not None and lost):
            return None
        if err is None:
            return kept(item, task.result(), self._report)
        return outcome(item, err, self._delay, self._cutting)[0]

    async def _settle(
        self, item: Item, settle: Callable[[], Awaitable[None]], asked: asyncio.Future[Item | None]
    ) -> LeaseLostError | None:
        """Settles an item, and keeps the next one meanwhile. It returns why its lease is lost all the same."""
        ahead = Ahead(asked, self._bells)
        try:
            await settle()
        except (PQError, SettledError) as trouble:
            self._report(trouble, item)
        except Exception as wrong:  # of the program's own delay
            self._end(wrong)
        finally:
            ahead.cancel()
        return ahead.lost

    def _report(self, err: BaseException, item: Item) -> None:
        try:
            self._supply.report(err, item)
        except Exception as second:  # a program that does not want to go on
            self._end(second)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Waits for its end, and does not cancel it."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(task: asyncio.Task[Any]) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(tell)
    await over


async def _called(handler: Handler, item: Item) -> object:
    return await handler(item)
