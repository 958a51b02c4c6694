"""Ends items for good that nobody wants any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .core import Place
from .duration import Duration, shown, time_of
from .errors import LEASE_LOST, ItemCancelledError, NoResultYetError, PQError, unreadable
from .mailbox import background
from .pushed import Pushed
from .result import Outcome, Result, result
from .subjects import check_id
from .values import cut


@dataclass(frozen=True)
class Cancelled:
    """What became of an item that was to be cancelled."""

    outcome: Outcome
    """"cancelled", or how it had ended before."""
    finished_at: datetime | None
    """When it had; None: it was this request that has ended it."""
    priority: int
    deliveries: int


async def cancel(queue: Place, id: str, reason: str, spare_leased: bool, timeout: Duration | None) -> Cancelled:
    check_id(id)
    if not isinstance(reason, str):
        raise TypeError(f"the reason is {shown(reason)}: expected a text")
    fields: dict[str, Any] = {"reason": cut(reason)} if reason else {}
    if spare_leased:
        fields["leased"] = False
    answer = await queue.client.ask("cancel", queue.name, queue.subject(f"cancel.{id}"), fields, timeout)
    try:
        ended = answer.get("finished_at")
        return Cancelled(answer["outcome"], None if ended is None else time_of(ended), int(answer["priority"]), int(answer["deliveries"]))
    except (KeyError, ValueError, TypeError) as cause:
        raise unreadable("cancel", queue.name, str(answer).encode(), cause) from cause


async def or_hang_up(queue: Place, pushing: Awaitable[Pushed], waits: Callable[[str], Awaitable[Result]]) -> Result:
    """The result of an item that is cancelled when the wait for it ends before."""
    push = asyncio.ensure_future(pushing)
    try:
        return await waits((await asyncio.shield(push)).id)
    except NoResultYetError as late:
        return await _hang_up(queue, late.id, late)
    except asyncio.CancelledError:
        # Who is cancelled waits no longer than for this. Cancelled again, it goes on alone.
        await asyncio.wait({background(_undo(queue, push))})
        raise


async def _undo(queue: Place, push: Awaitable[Pushed]) -> None:
    """Cancels an item, whose id is not known before its push is answered."""
    await cancel(queue, (await push).id, _hung_up("its task was cancelled"), False, None)


def _hung_up(why: str) -> str:
    return f"the caller has hung up: {why}"


async def _hang_up(queue: Place, id: str, late: NoResultYetError) -> Result:
    reason = _hung_up("its time is up")
    try:
        done = await cancel(queue, id, reason, False, None)
    except PQError as err:
        late.__cause__ = late.__cause__ or err
        raise late
    if done.finished_at is None or done.outcome == "cancelled":
        raise ItemCancelledError("result", queue.name, LEASE_LOST, f"cancelled: {reason}", "cancelled") from late
    return await result(queue, id, 0, None)  # it has just ended
