"""Leases items for a worker that settles each of them later, by its ack subject.

An acknowledgement takes the next item with it, so a worker that is busy sends one request for each item."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from .client import Client
from .deadline import Deadline
from .errors import BAD_REQUEST, FORBIDDEN, EmptyError, ItemCancelledError, LeaseLostError, PQError
from .hold import extend
from .item import Item
from .retry import backoff

_log = logging.getLogger("pqbridge")

# How long one request waits for an item. A bridge that dies meanwhile is noticed after that.
_ONE_WAIT = 30.0

# Who consumes one queue may consume another one at once; a request under way would be in vain.
_MORE_QUEUES = 0.02

# The most items of one request.
_MOST = 100

_FIRST_TROUBLE = 0.1
_LAST_TROUBLE = 5.0

# How long close waits for settlements.
_LAST_SETTLEMENTS = 5.0


async def unworked(item: Item) -> None:
    """Gives back what nobody has begun with: that counts as nothing."""
    await item.give_back()


def _lost(item: Item, err: LeaseLostError) -> None:
    """What is gone, nobody does again: a program that has its results may have deleted their queue."""
    _log.log(logging.DEBUG if err.reason == "gone" else logging.WARNING, "item %s of %s: %s", item.id, item.queue, err)


Deliver = Callable[[str, Item], None]


class Intake:
    """The items that a worker holds, and those that it takes. All calls are of one loop, which also extends the leases.

    deliver: gets each item, and the name of its queue."""

    def __init__(self, client: Client, lease: float, deliver: Deliver) -> None:
        self._client = client
        self._lease = lease
        self._deliver = deliver
        self._queues: list[tuple[str, str]] = []  # what the worker calls it, and pqd
        self._prefetch = 0
        self._held: dict[str, tuple[Item, asyncio.Task[None]]] = {}
        self._waiting = 0  # without a prefetch: those that the program has not looked at
        self._asked = 0  # how many items the requests under way may bring
        self._changed = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    def consume(self, name: str, queue: str) -> None:
        self._queues.append((name, queue))
        self._restart()

    def cancel(self, name: str) -> None:
        self._queues = [one for one in self._queues if one[0] != name]
        self._restart()

    def prefetch(self, count: int) -> None:
        """How many items to hold; 0: as many as the program takes."""
        self._prefetch, self._waiting = count, 0
        self._changed.set()

    @property
    def counts(self) -> bool:
        """Whether the program has to say which items it has seen."""
        return not self._prefetch

    def seen(self) -> None:
        """The program has looked at an item."""
        self._waiting = max(0, self._waiting - 1)
        self._changed.set()

    def hold(self, item: Item) -> None:
        """From here on the lease is extended until the item is settled."""
        self._held[item.ack_subject] = item, self._keep(item)

    def held(self) -> list[Item]:
        return [item for item, _ in list(self._held.values())]  # also for a thread that is not the loop's

    def spent(self, tag: str, cost: int) -> None:
        """Of an item that is held: what its delivery has really cost so far."""
        if tag in self._held:
            self._held[tag][0].spent(cost)

    def settle(self, tag: str, what: Callable[[Item], Awaitable[None]]) -> asyncio.Task[None] | None:
        """Settles in the background; close waits for that. Another item may be taken at once."""
        held = self._held.pop(tag, None)
        if held is None:
            return None
        name = self._next(held[0]) if what is Item.ack else None
        if name is not None:
            self._asked += 1
        settling = self._settle(*held, what) if name is None else self._ack_next(*held, name)
        task = asyncio.get_running_loop().create_task(settling)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        self._changed.set()
        return task

    def give_back_all(self) -> None:
        for tag in list(self._held):
            self.settle(tag, unworked)
        self._waiting = 0

    async def close(self) -> None:
        """Takes nothing more, and gives back what is not settled."""
        self._queues = []
        self._restart()
        self.give_back_all()
        deadline = Deadline(_LAST_SETTLEMENTS)
        while self._settling and not deadline.over:  # what an acknowledgement brings is given back, too
            await asyncio.wait(self._settling, timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
        for task in list(self._settling):
            task.cancel()
        await self._client.mailbox.left()

    def _restart(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if self._queues:
            self._taking = asyncio.get_running_loop().create_task(self._take_on())

    def _keep(self, item: Item) -> asyncio.Task[None]:
        def lose(err: LeaseLostError) -> None:
            again = "" if isinstance(err, ItemCancelledError) else ": another worker may do its task again"
            _log.warning("item %s of %s: %s%s", item.id, item.queue, err, again)

        return asyncio.get_running_loop().create_task(extend(item, lose))

    def _next(self, item: Item) -> str | None:
        """What the worker calls the queue whose next item an acknowledgement may take; None: there is no room for
        one, or several queues take turns."""
        if self._prefetch and self._room() > 0 and [queue for _, queue in self._queues] == [item.queue]:
            return self._queues[0][0]
        return None

    async def _ack_next(self, item: Item, keeper: asyncio.Task[None], name: str) -> None:
        """It does not wait for an item: without an answer nobody would know whether the acknowledgement has
        taken effect."""
        try:
            found = await item.ack_next()
        except LeaseLostError as err:
            keeper.cancel()
            return _lost(item, err)
        except PQError:
            return await self._settle(item, keeper, Item.ack)
        except BaseException:
            keeper.cancel()
            raise
        finally:
            self._asked -= 1
            self._changed.set()
        keeper.cancel()
        if found is None:
            return
        if name in (one for one, _ in self._queues):
            return self._got(name, found)
        self.hold(found)
        self.settle(found.ack_subject, unworked)

    async def _settle(self, item: Item, keeper: asyncio.Task[None], what: Callable[[Item], Awaitable[None]]) -> None:
        """Goes on until the settlement has taken effect, or the lease is lost."""
        try:
            while True:
                try:
                    return await what(item)
                except LeaseLostError as err:
                    return _lost(item, err)
                except PQError as err:
                    if err.code in (BAD_REQUEST, FORBIDDEN) or self._client.mailbox.closed:
                        return _log.error("item %s of %s: %s", item.id, item.queue, err)
                    if keeper.done():
                        keeper = self._keep(item)
                await asyncio.sleep(_FIRST_TROUBLE)
        finally:
            keeper.cancel()

    async def _take_on(self) -> None:
        troubles = 0
        await asyncio.sleep(_MORE_QUEUES)
        while True:
            room = self._room()
            if room <= 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                await self._take(room)
                troubles = 0
            except EmptyError:
                troubles = 0
            except PQError as err:
                if self._client.mailbox.closed:
                    return
                _log.warning("%s", err)
                troubles += 1
                await asyncio.sleep(backoff(troubles, _FIRST_TROUBLE, _LAST_TROUBLE))

    def _room(self) -> int:
        if self._prefetch:
            return min(self._prefetch - len(self._held) - self._asked, _MOST)
        return 1 - self._waiting

    async def _take(self, room: int) -> None:
        """Queues take turns. Only a look waits at several of them: a pop that nobody waits for any more would
        still get an item."""
        if len(self._queues) == 1:
            return await self._pop(*self._queues[0], room, _ONE_WAIT)
        for name, queue in list(self._queues):
            try:
                await self._pop(name, queue, room, 0)
            except EmptyError:
                continue
            self._queues.remove((name, queue))
            self._queues.append((name, queue))
            return
        looks = [asyncio.get_running_loop().create_task(self._look(queue)) for _, queue in self._queues]
        try:
            await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in looks:
                look.cancel()
            found = await asyncio.gather(*looks, return_exceptions=True)
        for err in found:
            if isinstance(err, PQError) and not isinstance(err, EmptyError):
                raise err

    async def _look(self, queue: str) -> None:
        await self._client.queue(queue).peek(wait=_ONE_WAIT)

    async def _pop(self, name: str, queue: str, room: int, wait: float) -> None:
        self._asked += room
        try:
            found = await self._client.queue(queue).pop_many(room, lease=self._lease, wait=wait)
        finally:
            self._asked -= room
        for item in found:
            self._got(name, item)

    def _got(self, name: str, item: Item) -> None:
        self._waiting += self.counts
        self.hold(item)
        self._deliver(name, item)
