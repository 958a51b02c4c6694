"""Functions that work on the items of a queue."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict

from .consume import Consumer, Handler
from .duration import Duration
from .item import Item
from .supply import OnError
from .taking import End


class ConsumeOptions(TypedDict, total=False):
    """The arguments of Queue.consume behind the handler."""

    concurrency: int
    end: End
    lease: Duration
    min: int | None
    max: int | None
    repeatable: bool
    limit: int | None
    stop_when_empty: bool
    holder: str | None
    backoff: Callable[[int], Duration] | None
    on_error: OnError


class Worker:
    """What Queue.worker makes of a function, which can still be called."""

    def __init__(self, start: Callable[[], Consumer], handler: Handler) -> None:
        if not callable(handler):
            raise TypeError(f"the handler is {handler!r}: expected an asynchronous function of an item, as in @queue.worker(concurrency=4)")
        functools.update_wrapper(self, handler)
        self._start = start
        self._handler = handler

    async def __call__(self, item: Item) -> Any:
        return await self._handler(item)

    def start(self) -> Consumer:
        """Begins to consume."""
        return self._start()

    async def run(self, grace: Duration = 20.0) -> None:
        """Consumes until SIGTERM or Ctrl-C; see Consumer.run."""
        await self.start().run(grace)
