"""Bounds the pushes that were sent and not answered yet."""

from __future__ import annotations

from collections import deque

from .deadline import Bell, Deadline

# Bridges accept 64 MiB from all their clients.
_MOST_BYTES = 16 << 20


class _Place:
    def __init__(self, size: int) -> None:
        self.size = size
        self.bell = Bell()
        self.admitted = False


class InFlight:
    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._bytes = 0
        self._waiting: deque[_Place] = deque()
        self._flushing: set[Bell] = set()

    def _fits(self, size: int) -> bool:
        return self._n < self._most and (self._bytes == 0 or self._bytes + size <= _MOST_BYTES)

    def _add(self, size: int) -> None:
        self._n += 1
        self._bytes += size

    async def acquire(self, size: int, deadline: Deadline) -> bool:
        """Takes room for a push, behind those that wait already. It says false if the deadline came first."""
        if not self._waiting and self._fits(size):
            self._add(size)
            return True
        place = _Place(size)
        self._waiting.append(place)
        try:
            while not place.admitted and not deadline.over:
                await place.bell.wait(deadline.left)
        except BaseException:
            if place.admitted:
                self.release(size)
            raise
        finally:
            if not place.admitted:
                self._waiting.remove(place)
                self._admit()  # it may have kept smaller ones waiting
        return place.admitted

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0].size):
            first = self._waiting.popleft()
            self._add(first.size)
            first.admitted = True
            first.bell.ring()

    def release(self, size: int) -> None:
        self._n -= 1
        self._bytes -= size
        self._admit()
        if self._n == 0:
            for bell in self._flushing:
                bell.ring()

    async def flush(self, deadline: Deadline) -> bool:
        """Waits until no push is in flight. It says false if the deadline came first."""
        bell = Bell()
        self._flushing.add(bell)
        try:
            while self._n > 0 and not deadline.over:
                await bell.wait(deadline.left)
        finally:
            self._flushing.discard(bell)
        return self._n == 0
