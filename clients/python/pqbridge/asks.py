"""What the idle workers of one consumer ask for: one pop for as many items as workers are idle, none for a busy one."""

from __future__ import annotations

import asyncio
from collections import deque

from .item import Item
from .mailbox import Listening
from .supply import Supply

_FEW = 2
_MOST_UNDER_WAY = 16


class Asks:
    """As in a lane, a worker asks at once while fewer than two pops are under way, each for one worker, and otherwise
    workers ask together, two passes of the loop later."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._listening = Listening(supply.queue.client.mailbox)
        self._idle: deque[asyncio.Future[Item | None]] = deque()
        self._pops: set[asyncio.Task[None]] = set()
        self._together = 0  # how many of these are for several workers
        self._leaving = False
        self._leaves: asyncio.Task[None] | None = None

    @property
    def _stopped(self) -> bool:
        return self._leaves is not None

    def ask(self) -> asyncio.Future[Item | None]:
        """The next item, or None when there are to be no more. An error says that there will be none."""
        worker: asyncio.Future[Item | None] = asyncio.get_running_loop().create_future()
        if self._stopped or not self._supply.reserve():
            worker.set_result(None)
            return worker
        worker.add_done_callback(self._cancelled)
        if not self._idle and len(self._pops) < _FEW and not self._together or self._supply.most == 1:
            self._ask([worker])
        else:
            self._idle.append(worker)
            self._begin()
        return worker

    def _cancelled(self, worker: asyncio.Future[Item | None]) -> None:
        if worker.cancelled():
            self._supply.release()

    def _tell(self, worker: asyncio.Future[Item | None], item: Item | None, err: Exception | None = None) -> None:
        """Answers a worker. One that gets no item may ask again at once, so it gives its place back before."""
        if worker.done():
            return
        if item is None:
            self._supply.release()
        if err is not None:
            worker.set_exception(err)
        else:
            worker.set_result(item)

    def stop(self) -> None:
        """Asks for nothing more, and has nobody listen to answers any more."""
        if self._leaves is None:
            self._leaves = asyncio.get_running_loop().create_task(self._listening.leave())
        for pop in self._pops:
            pop.cancel()
        while self._idle:
            self._tell(self._idle.popleft(), None)

    async def left(self) -> None:
        """Waits until the server knows that nobody listens."""
        if self._leaves is not None:
            await asyncio.wait({self._leaves})

    def _begin(self) -> None:
        if not self._leaving and self._idle and len(self._pops) < _MOST_UNDER_WAY:
            self._leaving = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._leave)

    def _leave(self) -> None:
        self._leaving = False
        n = min(len(self._idle), self._supply.most)
        workers = [worker for worker in (self._idle.popleft() for _ in range(n)) if not worker.done()]
        if workers:
            self._ask(workers)
        self._begin()

    def _ask(self, workers: list[asyncio.Future[Item | None]]) -> None:
        pop = asyncio.get_running_loop().create_task(self._pop(workers))
        self._pops.add(pop)
        together = len(workers) > 1
        self._together += together
        pop.add_done_callback(lambda pop: self._over(pop, workers, together))

    def _over(self, pop: asyncio.Task[None], workers: list[asyncio.Future[Item | None]], together: bool) -> None:
        self._pops.discard(pop)
        self._together -= together
        if pop.cancelled():
            for worker in workers:
                self._tell(worker, None)
        if not self._stopped:
            self._begin()

    async def _pop(self, workers: list[asyncio.Future[Item | None]]) -> None:
        try:
            items = await self._supply.take(len(workers), self._listening)
        except Exception as err:
            for worker in workers:
                self._tell(worker, None, err)
            return
        for item in items or ():
            self._tell(workers.pop(0), item)
        if items and not self._stopped:
            self._idle.extendleft(reversed(workers))  # in front of those who came later
            return
        for worker in workers:
            self._tell(worker, None)
