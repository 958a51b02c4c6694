"""What becomes of an item, by what the work on it raised or returned."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from traceback import walk_tb
from typing import Protocol, TypeVar

from .duration import Duration, seconds
from .errors import TooLargeError
from .retry import backoff
from .values import returned_of


class RetryAfter(Exception):
    """For work to raise: the item is delivered again after a time."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"again in {delay}")
        self.delay = seconds(delay, "delay", zero=True)


class GiveUp(Exception):
    """For work to raise: the item becomes a dead letter, because trying again would not help."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def default_backoff(failures: int) -> float:
    """The delay before the next delivery of a failed item, in seconds: one after the first failure, twice
    as long after each further one, 5 minutes at most. Each is somewhat longer or shorter."""
    return backoff(failures, 1.0, 300.0)


# How many bytes of a reason an attempt keeps.
_KEPT = 200

# The attempt of what the end of its worker has cut short.
STOPPED = "stopped"


class Settles(Protocol):
    """What outcome has to know of an item."""

    backoff: float
    deliveries: int
    interruptions: int
    returns: int
    result_ttl: float

    async def ack(self, *, result: bytes | None = None, timeout: Duration | None = None) -> None: ...
    async def nak(self, delay: Duration | None = None, *, reason: str = "", timeout: Duration | None = None) -> None: ...
    async def give_back(self, reason: str = "", *, timeout: Duration | None = None) -> None: ...
    async def term(self, reason: str = "", *, timeout: Duration | None = None) -> None: ...


def outcome(item: Settles, err: BaseException | None, delay: Callable[[int], Duration] | None = None, stopped: bool = False) -> tuple[Callable[[], Awaitable[None]], bool]:
    """How to settle an item, and whether that is all that the error was to say. delay: of the program; None:
    as the queue says, default_backoff if it says nothing. stopped: the work was told to end."""
    if err is None:
        return item.ack, True
    if isinstance(err, GiveUp):
        return lambda: item.term(err.reason), True
    if isinstance(err, RetryAfter):
        return lambda: item.nak(err.delay, reason=_told(err.__cause__ or err)), True
    if stopped or not isinstance(err, Exception) or isinstance(err, asyncio.CancelledError):
        return lambda: item.give_back(STOPPED), False  # the program ends, and the item did not fail
    if delay is None and item.backoff > 0:
        return lambda: item.nak(reason=_told(err)), False  # as the queue says
    failures = item.deliveries - item.interruptions - item.returns  # this one included
    return lambda: item.nak((delay or default_backoff)(failures), reason=_told(err)), False


S = TypeVar("S", bound=Settles)
Report = Callable[[BaseException, S], object]


def kept(item: S, value: object, report: Report[S]) -> Callable[[], Awaitable[None]]:
    """How to settle an item whose work is done: with what it returned as the result. Where there is none, or nobody has
    asked for it, nothing is sent of it."""
    if value is None or not item.result_ttl:
        return item.ack
    return lambda: _keep(item, value, report)


async def _keep(item: S, value: object, report: Report[S]) -> None:
    """A value that cannot be kept makes the item a dead letter: the work is done, and whoever does it again has no
    other value."""
    try:
        result = returned_of(value)
    except Exception as err:  # of whatever kind the value raises
        wrong = ValueError(f"the returned value cannot be kept: {err}")
        wrong.__cause__ = err
        report(wrong, item)
        return await item.term(str(wrong))
    try:
        await item.ack(result=result)
    except TooLargeError as err:  # the lease goes on
        report(err, item)
        await item.term(f"the returned value is too large: {err.text}")


def _told(err: BaseException) -> str:
    """The error, and where it was raised."""
    what = f"{type(err).__name__}: {err}".removesuffix(": ")
    frames = [] if isinstance(err, RetryAfter) else list(walk_tb(err.__traceback__))  # one is raised on purpose
    if not frames:
        return what
    frame, line = frames[-1]
    where = f" ({os.path.basename(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name})"
    if len((what + where).encode(errors="replace")) > _KEPT:
        what = what.encode(errors="replace")[: _KEPT - len(where.encode()) - len("…".encode())].decode(errors="ignore") + "…"
    return what + where
