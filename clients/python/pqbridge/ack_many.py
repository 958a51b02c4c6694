"""Acknowledgements of many items in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from .core import Place
from .duration import Duration, shown
from .item import Item
from .settlements import Settlements


async def ack_many(queue: Place, items: Sequence[Item], timeout: Duration | None) -> list[BaseException | None]:
    for i, item in enumerate(items):
        if not isinstance(item, Item) or item.queue != queue.name:
            raise ValueError(f"item {i} is {shown(item)}: expected one of queue {queue.name}")
    together = Settlements(queue)
    results = asyncio.gather(*(item.ack_with(together, timeout) for item in items), return_exceptions=True)
    try:
        await asyncio.sleep(0)  # now all have added theirs
        await together.send(timeout)
        return await results
    finally:
        results.cancel()
