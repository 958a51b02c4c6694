"""Calls at the same time go together.

A lane has the calls of one kind on one queue of one client. While fewer than two of its messages are under way, and
each of them is of one call, a call goes at once, in a message of its own. Otherwise it joins those that wait, and they
leave as soon as the tasks that can run have run: two passes of the loop later. None waits for an answer unless 16
messages are unanswered. Those whom one answer has woken call again together, so no timer is needed. Beside a bundle none
goes at once: its callers and the others would take turns with small messages, which cost more than they save.

Calls leave in the order in which they came. One that is cancelled before it has left was not made."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from .call import Call, ended
from .deadline import INFINITE, Deadline
from .errors import PQError, alike
from .mailbox import Request

_FEW = 2
_MOST_UNDER_WAY = 16
_MOST_BYTES = 256 << 10


class Landed(NamedTuple):
    """What became of a call. open: an attempt without an answer may have taken effect."""

    answer: Any = None
    error: PQError | None = None
    apart: bool = False
    """It has to go by itself, because its message was refused as a whole, or it was: with the error, if it may be
    tried again."""
    open: bool = False
    again: bool = False
    """It was sent more than once."""


class Joining:
    """A call that may go with others. size: the bytes that it adds to a message. apart: it has one of its own."""

    __slots__ = ("size", "apart", "deadline", "landed", "bundle")

    def __init__(self, size: int, apart: bool) -> None:
        self.size = size
        self.apart = apart
        self.deadline: Deadline
        self.landed: asyncio.Future[Landed | None]
        self.bundle: Bundle[Any] | None = None

    def request(self) -> Request:
        """What it is by itself."""
        raise NotImplementedError

    def goes_with(self, other: Any) -> bool:
        """Whether both may be in one message."""
        return True


C = TypeVar("C", bound=Joining)


class Bundle(Generic[C]):
    """The calls of one message."""

    def __init__(self, calls: list[C], deadline: Deadline, left: Callable[[], None] | None = None) -> None:
        self.calls = calls
        self.deadline = deadline
        self.callers = len(calls)
        """How many wait for the answer."""
        self.task: asyncio.Task[None] | None = None
        self.call: Call | None = None
        self._left = left

    def send(self, call: Call) -> Call:
        """Notes what is sent."""
        self.call = call
        call.left = self._left
        return call


Ship = Callable[[Bundle[C]], Awaitable[Sequence[Landed]]]


class Lane(Generic[C]):
    def __init__(self, lanes: Lanes, key: tuple[str, ...], ship: Ship[C], answer: int) -> None:
        self._lanes = lanes
        self._key = key
        self._ship = ship
        self._answer = answer  # bytes that the answer has for each call
        self._waiting: deque[C] = deque()
        self._apart = 0  # how many of these go by themselves, and wait for no answer
        self._leaving = False
        self._under_way = 0
        self._bundles = 0  # how many of these have several calls
        self._joined: set[C] = set()  # those that have neither landed nor left
        self._timer: asyncio.TimerHandle | None = None
        self._due = INFINITE  # when it rings

    @property
    def busy(self) -> bool:
        """Whether a call that went now would overtake another one."""
        return self._leaving or bool(self._waiting)

    async def go(self, call: C, deadline: Deadline) -> Landed:
        if not self.busy and (self._under_way < _FEW and not self._bundles or call.apart):
            self._under_way += 1
            try:
                return (await self._ship(Bundle([call], deadline)))[0]
            finally:
                self._land()
        loop = asyncio.get_running_loop()
        call.deadline, call.landed = deadline, loop.create_future()
        self._waiting.append(call)
        self._apart += call.apart
        self._begin()
        self._joined.add(call)
        if deadline.at < self._due:
            self._ring_at(deadline)
        try:
            found = await call.landed
        except asyncio.CancelledError:
            self._take_out(call)
            raise
        finally:
            self._joined.discard(call)
        if found is None:
            raise self._take_out(call)
        return found

    def _ring_at(self, deadline: Deadline) -> None:
        """One timer is enough for all calls: few of them are still here when their time is up."""
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline.at
        self._timer = asyncio.get_running_loop().call_later(deadline.left, self._ring)

    def _ring(self) -> None:
        self._timer, self._due = None, INFINITE
        for call in self._joined:
            if call.deadline.over and not call.landed.done():
                call.landed.set_result(None)
        later = [call.deadline for call in self._joined if not call.landed.done()]
        if later:
            self._ring_at(min(later, key=_end))

    def _begin(self) -> None:
        if not self._leaving and self._waiting and (self._under_way < _MOST_UNDER_WAY or self._apart):
            self._leaving = True
            asyncio.get_running_loop().call_soon(self._soon)

    def _soon(self) -> None:
        self._lanes.keep(asyncio.get_running_loop().create_task(self._leave()))  # it begins at the next pass

    async def _leave(self) -> None:
        calls = self._cut()
        if not calls:  # all were cancelled
            return self._left()
        bundle = Bundle(calls, max((call.deadline for call in calls), key=_end), self._left)
        bundle.task = asyncio.current_task()
        for call in calls:
            call.bundle = bundle
        self._under_way += 1
        self._bundles += len(calls) > 1
        found: Sequence[Landed] = ()
        wrong: Exception | None = None
        try:
            found = await self._ship(bundle)
        except PQError as err:
            found = [Landed(error=alike(err, call.request().op)) for call in calls]
        except Exception as err:
            wrong = err
        finally:
            if bundle.call is None or not bundle.call.sent:
                self._left()
            self._bundles -= len(calls) > 1
            self._land()
            for n, call in enumerate(calls):
                if call.landed.done():
                    continue
                if wrong is not None:
                    call.landed.set_exception(wrong)
                elif found:
                    call.landed.set_result(found[n])
                else:  # the loop ends
                    call.landed.cancel()

    def _cut(self) -> list[C]:
        """The first of those that wait, as many as one message may have."""
        waiting, calls = self._waiting, list[C]()
        most, room = self._lanes.bounds(self._answer)
        while waiting and len(calls) < most:
            call = waiting[0]
            if call.landed.done():  # cancelled, or its time is up
                self._apart -= waiting.popleft().apart
                continue
            room -= call.size
            if calls and (room < 0 or call.apart or calls[0].apart or not call.goes_with(calls[0])):
                break
            self._apart -= call.apart
            calls.append(waiting.popleft())
        return calls

    def _left(self) -> None:
        self._leaving = False
        self._rest()

    def _land(self) -> None:
        self._under_way -= 1
        self._rest()

    def _rest(self) -> None:
        self._begin()
        if not self.busy and not self._under_way:
            self._lanes.forget(self._key)
            if self._timer is not None:
                self._timer.cancel()

    def _take_out(self, call: C) -> PQError:
        """Nobody waits for a call any more. It returns the error of one whose time is up."""
        bundle = call.bundle
        if bundle is None:
            if call in self._waiting:
                self._waiting.remove(call)
                self._apart -= call.apart
                self._rest()
            return ended(call.request(), 0, None, None)
        bundle.callers -= 1
        if bundle.callers == 0 and bundle.task is not None:
            bundle.task.cancel()  # it is not repeated
        return ended(call.request(), 0, None, None) if bundle.call is None else bundle.call.given_up(call.request())


def _end(deadline: Deadline) -> float:
    return deadline.at


class Lanes:
    """Those of a client. most: calls in one message. mixes: its user may push to the subject without a priority."""

    def __init__(self, most: int, mixes: bool, max_payload: Callable[[], int], connection: Callable[[], int]) -> None:
        self.most = most
        self._mixes = mixes
        self._max_payload = max_payload
        self._connection = connection  # the number of the present one
        self._lanes: dict[tuple[str, ...], Lane[Any]] = {}
        self._rights: dict[tuple[str, str], tuple[int, bool]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def go(self, own: tuple[str, ...], key: tuple[str, ...], call: C, deadline: Deadline, ship: Ship[C], answer: int) -> Landed:
        """Sends a call, by itself or with others. It joins the lane of own if calls wait there, so that none overtakes
        another one, and otherwise that of key."""
        if self.most == 1:
            return (await ship(Bundle([call], deadline)))[0]
        lane: Lane[C] | None = self._lanes.get(own)
        if lane is None or not lane.busy:
            lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self, key, ship, answer)
        return await lane.go(call, deadline)

    def bounds(self, answer: int) -> tuple[int, int]:
        """How many calls one message may have, and how many bytes of them."""
        largest = self._max_payload()
        return max(1, min(self.most, largest // answer)), min(_MOST_BYTES, largest // 4)

    def keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, key: tuple[str, ...]) -> None:
        self._lanes.pop(key, None)

    def mixes(self, queue: str) -> bool:
        """Whether pushes of all priorities may have one subject."""
        right = self.right("push", queue)
        return self._mixes if right is None else right

    def right(self, verb: str, queue: str) -> bool | None:
        """Whether the user may, if that is known of this connection."""
        connection, may = self._rights.get((verb, queue), (-1, False))
        return may if connection == self._connection() else None

    def learn(self, verb: str, queue: str, may: bool) -> None:
        self._rights[verb, queue] = self._connection(), may
