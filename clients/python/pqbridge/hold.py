"""Extends a lease while its holder works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from time import monotonic
from types import TracebackType
from typing import Protocol, TypeVar

from .bells import Bells, Lost, why_lost
from .deadline import INFINITE, Bell
from .duration import Duration
from .errors import LeaseLostError, PQError, SettledError


class Leased(Protocol):
    """What extend has to know of an item."""

    id: str
    queue: str
    fence: int
    lease_term: float
    lease_expires: datetime | None
    loss: LeaseLostError | None

    @property
    def settled(self) -> bool: ...

    async def extend(self, *, timeout: Duration | None = None) -> None: ...


T = TypeVar("T", bound="Leased | None")

# How often bells extend one lease at most: anybody may ring who may publish.
_RING_EVERY = 1.0


class Rings:
    """What bells have told of one lease."""

    __slots__ = ("bell", "lost")

    def __init__(self) -> None:
        self.bell = Bell()
        self.lost: Lost | None = None


class Keeper:
    """Extends the lease of an item until it is cancelled, from the time on when that is needed, or a bell rings: most items
    are done by then."""

    def __init__(self, item: Leased, lose: Callable[[LeaseLostError], None], bells: Bells | None = None) -> None:
        every, _ = extend_interval(item)
        self.lease = item.id, item.fence
        self._item = item
        self._lose = lose
        self._bells = bells
        self._rings = Rings()
        self._began = monotonic()
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(every, self._begin)
        if bells is not None:
            bells.enter(self)

    def _begin(self) -> None:
        self._timer.cancel()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(extend(self._item, self._lose, monotonic() - self._began, self._rings))

    def ring(self, lost: Lost | None) -> None:
        self._rings.lost = lost or self._rings.lost
        self._rings.bell.ring()
        self._begin()

    def cancel(self) -> None:
        if self._bells is not None:
            self._bells.leave(self)
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


class Ahead:
    """Keeps the item that a future gives, until it is cancelled: it may come before the work on it can begin."""

    def __init__(self, asked: asyncio.Future[T], bells: Bells) -> None:
        self.lost: LeaseLostError | None = None
        self._asked = asked
        self._bells = bells
        self._keeper: Keeper | None = None
        asked.add_done_callback(self._came)

    def _came(self, asked: asyncio.Future[T]) -> None:
        if not asked.cancelled() and asked.exception() is None and (item := asked.result()) is not None:
            self._keeper = Keeper(item, self._lose, self._bells)

    def _lose(self, err: LeaseLostError) -> None:
        self.lost = err

    def cancel(self) -> None:
        self._asked.remove_done_callback(self._came)
        if self._keeper is not None:
            self._keeper.cancel()


async def extend(item: Leased, lose: Callable[[LeaseLostError], None], held: float = 0.0, rings: Rings | None = None) -> None:
    """Extends the item's lease until it is settled, or lost. held: for how long it is held already. rings: what extends it
    sooner, and tells why it is lost."""
    rings = rings or Rings()

    def lost(err: LeaseLostError) -> None:
        item.loss = err
        lose(err)

    every, lasts = extend_interval(item)
    end = monotonic() + lasts - held
    hurried = -INFINITE
    while True:
        due = monotonic() + every - held
        held = 0.0
        if await rings.bell.wait(due - monotonic()):
            pause = min(due, hurried + _RING_EVERY) - monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            hurried = monotonic()
        if item.settled:
            return
        # An answer that comes after the end of the lease is of no use. But this program may itself
        # have stood still until now, and then only the bridge knows.
        sent, told = monotonic(), rings.lost
        left = end - sent
        try:
            await item.extend(timeout=left if left > 0 else every)
            end = sent + lasts
            if rings.lost is told:  # which was not so
                rings.lost = None
        except LeaseLostError as err:
            return None if item.settled else lost(why_lost(err, rings.lost))
        except SettledError:
            return
        except PQError as err:
            if item.settled:
                return
            if monotonic() >= end:
                return lost(not_extended(item, err))


class Hold:
    """Keeps a lease while a block runs, and cancels the block when the lease is lost."""

    def __init__(self, item: Leased) -> None:
        self._item = item
        self._lost: LeaseLostError | None = None
        self._extending: asyncio.Task[None] | None = None
        self._block: asyncio.Task[object] | None = None

    async def __aenter__(self) -> Hold:
        self._block = asyncio.current_task()
        self._extending = asyncio.get_running_loop().create_task(extend(self._item, self._lose))
        return self

    def _lose(self, err: LeaseLostError) -> None:
        self._lost = err
        if self._block is not None:
            self._block.cancel()

    async def end(self, err: BaseException | None) -> LeaseLostError | None:
        """Stops, and returns why the lease was lost if that ended the block."""
        assert self._extending is not None and self._block is not None
        self._extending.cancel()
        if self._lost is None:
            return None
        if not isinstance(err, asyncio.CancelledError):
            try:
                await asyncio.sleep(0)  # here the block is cancelled, which has just ended
            except asyncio.CancelledError:
                pass
        uncancel = getattr(self._block, "uncancel", None)  # from Python 3.11 on
        if uncancel is not None and uncancel() > 0:
            return None  # somebody else has cancelled it, too
        return self._lost

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        lost = await self.end(err)
        if lost is not None and (err is None or isinstance(err, asyncio.CancelledError)):
            raise lost


def extend_interval(item: Leased) -> tuple[float, float]:
    """How long to wait between two extensions of a lease, and how long after the last one it counts as
    lost: a lost message or a restart of the bridge must not end it."""
    parts = 3
    if item.lease_term > 0:
        return item.lease_term / parts, item.lease_term
    # Only the bridge knows how long the lease is: the time that is left by the clock of this machine
    # may be wrong.
    seems = (item.lease_expires - datetime.now(timezone.utc)).total_seconds() if item.lease_expires else 0.0
    every = min(max(seems / parts, 0.3), 5.0)
    return every, max(seems, every * parts)


def not_extended(item: Leased, cause: PQError) -> LeaseLostError:
    """The error of a lease that could not be extended in time."""
    e = LeaseLostError("extend", item.queue, 410, "the lease could not be extended in time", "expired")
    e.__cause__ = cause
    return e
