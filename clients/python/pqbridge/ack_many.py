"""Acknowledgements of many items in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from .bundle import MOST_ITEMS
from .core import Place
from .deadline import Deadline
from .duration import Duration, shown
from .errors import PQError, alike
from .item import Item
from .lane import Bundle, Landed
from .settle_lane import Settling, ship


async def ack_many(queue: Place, items: Sequence[Item], timeout: Duration | None) -> list[BaseException | None]:
    for i, item in enumerate(items):
        if not isinstance(item, Item) or item.queue != queue.name:
            raise ValueError(f"item {i} is {shown(item)}: expected one of queue {queue.name}")
    together = _Together(queue.client.deadline(timeout))
    results = asyncio.gather(*(item.ack_with(together.add) for item in items), return_exceptions=True)
    try:
        await asyncio.sleep(0)  # now all have added theirs
        await together.send()
        return await results
    finally:
        results.cancel()


class _Together:
    """Acknowledgements for one message, or several if there are too many."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._all: list[tuple[Settling, asyncio.Future[Landed]]] = []

    async def add(self, one: Settling) -> Landed:
        landed: asyncio.Future[Landed] = asyncio.get_running_loop().create_future()
        self._all.append((one, landed))
        found = await landed
        return await one.by_itself(self._deadline, found) if found.apart else found

    async def send(self) -> None:
        for start in range(0, len(self._all), MOST_ITEMS):
            part = self._all[start : start + MOST_ITEMS]
            try:
                found = await ship(Bundle([one for one, _ in part], self._deadline))
            except PQError as err:
                found = [Landed(error=alike(err, "ack"))] * len(part)
            for (_, landed), one in zip(part, found):
                landed.set_result(one)
