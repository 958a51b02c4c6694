"""Where workers get their items: pops that go on whatever happens to the connection or the bridge."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from .absence import Absence
from .core import Place
from .errors import BAD_REQUEST, FORBIDDEN, NOT_FOUND, TIMEOUT, EmptyError, LeaseLostError, PQError, error_of
from .item import Item
from .mailbox import Listening
from .outcome import GiveUp, RetryAfter
from .retry import backoff
from .take import take
from .taking import End, Selection
from .values import count

OnError = Callable[[BaseException, "Item | None"], object]

DEFAULT_LEASE = 30.0

# How long one request waits for an item. A bridge that dies meanwhile is noticed after that.
_ONE_WAIT = 30.0

# When nothing can be got, how long until it is tried again.
_FIRST_TROUBLE = 0.1
_LAST_TROUBLE = 10.0


def own_name() -> str:
    """What workers call themselves."""
    return f"{''.join(c for c in socket.gethostname() if '!' <= c <= '~')[:100] or 'unknown'}-{os.getpid()}"


_log = logging.getLogger("pqbridge")


def log_error(err: BaseException, item: Item | None) -> None:
    """What becomes of the errors of workers, unless a program says otherwise."""
    if item is None:
        _log.warning("%s", err)
    elif isinstance(err, (GiveUp, RetryAfter)):
        _log.info("item %s of %s: %r", item.id, item.queue, err)
    elif isinstance(err, PQError):  # such as a lease that was revoked: its stack says nothing
        _log.warning("item %s of %s: %s", item.id, item.queue, err)
    else:
        _log.error("item %s of %s: %s", item.id, item.queue, err, exc_info=err)


class Supply:
    """Items under leases, for one worker or several. limit: how many at most."""

    def __init__(self, queue: Place, end: End, selection: Selection, limit: int | None, stop_when_empty: bool, on_error: OnError) -> None:
        self.queue = queue
        self.report = on_error
        self._end = end
        self._selection = replace(selection, wait=0 if stop_when_empty else _ONE_WAIT, holder=own_name() if selection.holder is None else selection.holder)
        self._left = float("inf") if limit is None else count(limit, "limit")
        self._stop_when_empty = stop_when_empty
        self._troubles = 0
        self._begun = False  # whether a pop has been answered
        self._absence = Absence(queue.client.patience.absence, on_error)

    @property
    def holder(self) -> str:
        """What the leases show as their holder."""
        return self._selection.holder or ""

    @property
    def most(self) -> int:
        """How many items one pop may ask for."""
        return self.queue.client.lanes.most

    def reserve(self) -> bool:
        """Whether there is to be another item, and makes it that of the caller."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def release(self) -> None:
        """The caller has got none."""
        self._left += 1

    async def next(self) -> Item | None:
        """The next item, or None when there are to be no more. An error says that there will be none."""
        if not self.reserve():
            return None
        items = None
        try:
            items = await self.take(1)
        finally:
            if not items:
                self.release()
        return items[0] if items else None

    async def take(self, n: int, listening: Listening | None = None) -> list[Item] | None:
        """Up to n items, at least one, or None when there are to be no more."""
        waits = self._selection if n == 1 else replace(self._selection, batch=n)
        while True:
            first = not self._begun  # it does not wait, because only then a bridge says that there is no queue
            try:
                items = await take(self.queue, "pop", self._end, replace(waits, wait=0) if first else waits, listening, self._absence)
                self._begun = True
                self._troubles = 0
                return items
            except PQError as err:
                if err.code in (BAD_REQUEST, FORBIDDEN) or self.queue.client.mailbox.closed:
                    raise
                if isinstance(err, EmptyError):
                    self._begin(err)
                if self._stop_when_empty and isinstance(err, EmptyError):
                    return None
                if first and err.code == NOT_FOUND:
                    continue
                # No item arrived; or the one of a lost answer went to another consumer.
                if isinstance(err, LeaseLostError) or err.code == TIMEOUT:
                    self._troubles = 0  # the bridge answers
                    continue
                if not self._absence.ended(err):
                    self.report(err, None)
            self._troubles += 1
            await asyncio.sleep(backoff(self._troubles, _FIRST_TROUBLE, _LAST_TROUBLE))

    def _begin(self, err: EmptyError) -> None:
        """A pop was answered that nothing is there."""
        if not self._begun and err.reason == "unknown":
            text = f"queue {self.queue.name} does not exist yet: expected its first push, or another name"
            self.report(error_of("consume", self.queue.name, NOT_FOUND, text, err.reason), None)
        self._begun = True
