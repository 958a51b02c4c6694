"""The second step of a pop for good that has waited: what was leased is acknowledged, and then it is the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .ack_many import ack_many
from .core import Place
from .errors import FORBIDDEN, LeaseLostError, PQError, error_of
from .item import Item


async def confirmed(queue: Place, items: list[Item]) -> list[Item]:
    """Those of the items that are the caller's now. What the queue itself leases stays leased."""
    if not items[0].confirms:
        return items
    acknowledging = asyncio.get_running_loop().create_task(_acknowledge(queue, items))
    later = await _undisturbed(acknowledging)
    mine = acknowledging.result()
    if later is not None:
        if not mine:
            raise later
        _cancel_again(later)
    return mine


async def _acknowledge(queue: Place, items: list[Item]) -> list[Item]:
    try:
        if len(items) == 1:
            await items[0].ack()
            results: list[BaseException | None] = [None]
        else:
            results = await ack_many(queue, items, None)
    except PQError as err:
        results = [err]
    mine = [item for item, result in zip(items, results) if result is None]
    for item in mine:
        item.belongs()
    for failure in results:
        if isinstance(failure, PQError) and failure.code == FORBIDDEN:
            queue.client.no_steps.add(queue.name)  # the items return, and then a single step has to do
        elif isinstance(failure, PQError) and not isinstance(failure, LeaseLostError) and not mine:
            raise error_of("pop", queue.name, failure.code, failure.text, failure.reason, cause=failure)
    return mine


async def _undisturbed(task: asyncio.Task[list[Item]]) -> asyncio.CancelledError | None:
    """Waits for its end, and returns the cancellation that came meanwhile: an item that is acknowledged is in no
    queue any more, so the caller has to get it."""
    later: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as err:
            later = err
    return later


def _cancel_again(later: asyncio.CancelledError) -> None:
    """The task is cancelled where it waits next, when it has its item: unless that was a timeout, and its block has
    ended by then."""
    task = asyncio.current_task()
    assert task is not None
    cancelling: Callable[[], int] = getattr(task, "cancelling", int)  # from Python 3.11 on
    uncancel: Callable[[], int] = getattr(task, "uncancel", int)
    count = cancelling()

    def cancel() -> None:
        if cancelling() >= count:
            uncancel()
            task.cancel(*later.args[:1])

    asyncio.get_running_loop().call_soon(cancel)
