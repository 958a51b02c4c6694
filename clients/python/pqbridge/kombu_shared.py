"""The clients of a process: kombu has a connection for each thread that sends, and tasks that are sent at the same time go
together only if they have one client."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .client import Client
from .kombu_settings import Settings

_locks: dict[int, threading.Lock] = {}  # by process: a child of a fork may have a copy that nobody unlocks
_shared: dict[tuple[int, str], Shared] = {}


def _lock() -> threading.Lock:
    return _locks.setdefault(os.getpid(), threading.Lock())


class Shared:
    """A client that several transports use."""

    def __init__(self, key: tuple[int, str], client: Client) -> None:
        self.client = client
        self.settings = Settings(client)
        self._key = key
        self._users = 0

    def leave(self) -> bool:
        """Whether nobody uses it any more."""
        with _lock():
            self._users -= 1
            if self._users == 0 and _shared.get(self._key) is self:
                del _shared[self._key]
            return self._users == 0

    def join(self) -> Shared:
        self._users += 1
        return self


def share(address: str, connect: Callable[[], Client]) -> Shared:
    """A client of this address, until leave is called. One whose connection is away is not shared further: who connects
    wants to know whether that is possible."""
    with _lock():
        key = os.getpid(), address
        found = _shared.get(key)
        if found is None or not found.client.connection.is_connected:
            found = _shared[key] = Shared(key, connect())
        return found.join()


def joined() -> list[Shared]:
    """The clients of this process, each of them used once more."""
    with _lock():
        return [found.join() for (process, _), found in _shared.items() if process == os.getpid()]
