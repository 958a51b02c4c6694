"""What the queues of kombu are in pqd: the settings of those that are declared with some, and of those in which programs get
their results.

A queue that ends when it is empty and unused may have ended before any request, and the next push makes it without settings. So
they are declared again, before the queue can have ended."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from time import monotonic
from typing import Any

from . import background
from .client import Client
from .config import Config, ConfigChange
from .duration import TEN_YEARS, seconds
from .errors import BadRequestError, ForbiddenError, NotFoundError, PQError
from .queue import Queue

_LEAST, _MOST = 60.0, 720 * 3600.0

# For how long the queue of a program's results stays when it is empty. A late result makes it again, so this only has to be longer
# than most tasks: what comes then ends with the queue of a program that has ended.
_REPLIES = 3600.0

# How long a result lasts whose program has ended. 0 would be for ever.
_UNREAD = "1s"

# A result is no work that fails, however often its program looks at it.
_LOOKS = 0

# How long a program waits when it ends.
_LAST = 2.0

# The most queues that are remembered. Who uses another one asks pqd.
_MOST_KNOWN = 10_000

# A child of a fork has the names of its parent, which still reads its results.
_process = os.getpid()


def text(lasts: float) -> str:
    return f"{math.ceil(lasts * 1000)}ms"


def settings(arguments: Mapping[str, Any], replies: bool) -> ConfigChange:
    """What the arguments of a declaration, milliseconds as AMQP has them, are in pqd. replies: the queue is for the results of one
    program, in which they last as long as it says that the queue does."""
    found: ConfigChange = {}
    lasts, ends = arguments.get("x-message-ttl"), arguments.get("x-expires")
    ttls = [lasts, ends] if replies else [lasts]
    if any(ttls):
        found["ttl"] = text(min(min(float(ttl) for ttl in ttls if ttl) / 1000, TEN_YEARS))
    if replies:
        found["expire_empty"], found["max_deliveries"] = expire_empty(ends / 1000 if ends else None), _LOOKS
    elif ends is not None:
        found["expire_empty"] = text(min(max(ends / 1000, _LEAST), _MOST)) if ends else "0s"
    return found


def expire_empty(lasts: float | None) -> str:
    """Of a queue of results that last for so many seconds, None: for ever."""
    return text(min(max(lasts or _REPLIES, _LEAST), _REPLIES))


class Settings:
    """Of the queues of one client. Requests go from the thread of the program, and all else happens in the background."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, tuple[float, float | None]] = {}  # until when a queue surely has its settings, and the TTL that a result needs besides
        self._replies: dict[str, str] = {}  # those that this program reads, and their expire_empty
        self._ends = True  # pqd knows queues that end
        self._may = True  # look whether they do

    def declare(self, queue: Queue, change: ConfigChange, replies: bool) -> None:
        if not self._has(queue.name):
            background.run(self._declare(queue, change, replies))

    def result_ttl(self, queue: Queue, lasts: float | None) -> float | None:
        """The TTL that a result needs whose queue is this one, None: the queue has it. Whoever reads that queue has declared it; if
        nobody does, or it has ended, it gets settings with which it ends again. lasts: how long results last, None: for ever."""
        if not self._has(queue.name):
            background.run(self._look(queue, lasts))
        return self._known.get(queue.name, (0, lasts))[1]

    def forget(self, name: str) -> None:
        """It is deleted, or not for results."""
        for queues in (self._known, self._replies):
            background.loop().call_soon_threadsafe(queues.pop, name, None)

    async def end(self) -> None:
        """The program ends: nobody reads its results any more. Those that come go at once, and their queue when it is unused: a
        queue that is deleted would be made again by the next one."""
        if self._replies and self._client.connection.is_connected and os.getpid() == _process:
            await asyncio.gather(*(self._end(self._client.queue(name), expires) for name, expires in self._replies.items()))

    def _has(self, name: str) -> bool:
        found = self._known.get(name)
        return found is not None and monotonic() < found[0]

    def _know(self, name: str, expires: str, ttl: float | None = None) -> None:
        """The queue was used now, and stays for nine tenths of the time at least."""
        self._known.pop(name, None)
        while len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[name] = monotonic() + (seconds(expires, "expire_empty", zero=True) / 2 or math.inf), ttl

    async def _declare(self, queue: Queue, change: ConfigChange, replies: bool) -> None:
        if replies:
            self._replies.pop(queue.name, None)
            while len(self._replies) >= _MOST_KNOWN:
                del self._replies[next(iter(self._replies))]
            self._replies[queue.name] = change["expire_empty"]
        await self._configure(queue, change)
        self._know(queue.name, change.get("expire_empty", "0s") if self._ends else "0s")

    async def _configure(self, queue: Queue, change: ConfigChange) -> None:
        """A pqd before expire_empty refuses it."""
        if self._ends:
            try:
                await queue.configure(change)
                return
            except BadRequestError as err:
                if "expire_empty" not in change or '"expire_empty"' not in err.text:
                    raise
                self._ends = False
        rest: Any = {name: value for name, value in change.items() if name != "expire_empty"}
        if rest:
            await queue.configure(rest)

    async def _look(self, queue: Queue, lasts: float | None) -> None:
        """A look is no administrative act, and the push that follows uses the queue."""
        expires = expire_empty(lasts)
        if not self._may:
            return self._know(queue.name, expires, lasts)
        try:
            found = await self._config(queue)
            ends, ttl = (found.get("expire_empty", "0s"), seconds(found["ttl"], "ttl", zero=True)) if found else ("0s", 0.0)
            if self._ends and ends == "0s":
                change: ConfigChange = {"expire_empty": expires, "max_deliveries": _LOOKS}
                if lasts and not ttl:
                    change["ttl"] = text(lasts)
                await self._configure(queue, change)
        except ForbiddenError:
            self._may = False
            return self._know(queue.name, expires, lasts)
        self._know(queue.name, expires if ends == "0s" else ends, None if ttl or self._ends and ends == "0s" else lasts)

    async def _config(self, queue: Queue) -> Config | None:
        try:
            return await queue.config()
        except NotFoundError:
            return None

    async def _end(self, queue: Queue, expires: str) -> None:
        try:
            if not self._ends:
                return await queue.delete(timeout=_LAST)
            # From here on results go by themselves, and those from before are purged.
            await queue.configure({"ttl": _UNREAD, "expire_empty": expires}, timeout=_LAST)
            await queue.purge(timeout=_LAST)
        except PQError:
            pass  # they go when their time has come
