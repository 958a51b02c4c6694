"""Waiting: for a bell, for a time, and no longer than a deadline."""

from __future__ import annotations

import asyncio
from time import monotonic

INFINITE = float("inf")


class Bell:
    """A bell keeps one ring for who comes to wait later. One waits at a time."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        if self._waiter is not None:
            _wake(self._waiter)

    async def wait(self, seconds: float) -> bool:
        """Waits for a ring, for some seconds at most, and says whether there was one."""
        if not self._rung and seconds > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if seconds == INFINITE else loop.call_later(seconds, _wake, self._waiter)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Deadline:
    """The end of an operation."""

    __slots__ = ("at",)

    def __init__(self, seconds: float) -> None:
        self.at = monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self.at - monotonic())

    @property
    def over(self) -> bool:
        return monotonic() >= self.at
