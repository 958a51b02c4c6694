"""What the NATS server says it does not let a connection do.

nats-py keeps the last error, and tells each to one function, which belongs to the program. A refusal that another
follows at once would be missed, so this module stands before that function."""

from __future__ import annotations

import re
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol

from nats.aio.client import Client as Connection

# nats-py has it in small letters.
DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)


class Listener(Protocol):
    async def refused(self, cause: Exception) -> bool:
        """It says whether the program need not hear of it."""


_listening: weakref.WeakKeyDictionary[Connection, weakref.WeakSet[Listener]] = weakref.WeakKeyDictionary()


def listen(nc: Connection, listener: Listener) -> None:
    """From here on the listener gets each refusal, in the order of what was sent. Call it when there is a connection:
    connect takes another function."""
    listeners = _listening.get(nc)
    if listeners is None:
        listeners = _listening[nc] = weakref.WeakSet()
        nc._error_cb = _told(nc._error_cb, listeners)
    listeners.add(listener)


def _told(program: Callable[[Exception], Awaitable[None]], listeners: weakref.WeakSet[Listener]) -> Callable[[Exception], Awaitable[None]]:
    async def tell(err: Exception) -> None:
        known = [await one.refused(err) for one in list(listeners)] if DENIED.search(str(err)) else []
        if not any(known):
            await program(err)

    return tell
