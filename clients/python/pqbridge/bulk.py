"""Operations on all items of a queue that fit."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal, TypedDict

from .bulk_result import BulkResult
from .call import Call
from .core import Place
from .duration import Duration, duration_text, seconds, time_text
from .errors import PQError, unreadable
from .mailbox import Request
from .values import count, priority_of, word

BulkVerb = Literal["remove", "move", "revoke", "requeue"]


class BulkWhere(TypedDict, total=False):
    """Which items: all that is given has to fit. The values of header, reason, cause and origin may end in *."""

    state: Literal["ready", "leased", "delayed"]
    """"ready" if it is not given, "leased" of a revoke."""
    min: int
    max: int
    key: str
    header: dict[str, str]
    reason: str
    """Of the death."""
    cause: str
    """What they failed of last: the reason of the last attempt."""
    origin: str
    """The queue in which they died."""
    holder: str
    pushed_before: datetime
    pushed_after: datetime
    """Or at that time."""
    deliveries: int
    """At least."""
    interruptions: int
    """At least."""


def bulk_fields(
    verb: str,
    where: BulkWhere | None,
    all: bool,
    dry_run: bool,
    priority: int | None,
    delay: Duration | None,
    reason: str,
    to: str | None,
    spread: Duration | None,
) -> dict[str, Any]:
    word(verb, "verb", "remove", "move", "revoke", "requeue")
    fields: dict[str, Any] = {
        "where": None if where is None else {name: time_text(value, name) if isinstance(value, datetime) else value for name, value in where.items()},
        "all": all or None,
        "dry_run": dry_run or None,
        "priority": None if priority is None else priority_of(priority),
        "delay": None if delay is None else duration_text(seconds(delay, "delay", zero=True)),
        "reason": reason or None,
        "to": to,
        "spread": None if spread is None else duration_text(seconds(spread, "spread")),
    }
    return {name: value for name, value in fields.items() if value is not None}


async def run_bulk(queue: Place, verb: str, fields: dict[str, Any], page: int | None, after: str, timeout: Duration | None) -> BulkResult:
    limit = {} if page is None else {"limit": count(page, "page", 500)}
    result = BulkResult(next=after)
    try:
        if not after:  # where it begins is settled before anything changes
            await _page(queue, verb, {**fields, "limit": 0}, result, timeout)
        while result.next and not result.full:
            await _page(queue, verb, {**fields, **limit, "after": result.next}, result, timeout)
    except PQError as err:
        err.bulk = result
        raise
    return result


async def _page(queue: Place, verb: str, fields: dict[str, Any], result: BulkResult, timeout: Duration | None) -> None:
    """Does a page, and adds what it did to the result."""
    client = queue.client
    call = Call(Request(f"bulk_{verb}", queue.name, queue.subject(f"admin.{verb}"), None, json.dumps(fields).encode()))
    try:
        m = await call.send(client.mailbox, client.patience, client.deadline(timeout))
    finally:
        result.at_least |= call.open and not fields.get("dry_run", False)
    try:
        answer = json.loads(m.data)
        result.done += int(answer["done"])
        result.looked += int(answer["looked"])
        result.full, result.next = answer.get("stopped") == "full", str(answer.get("next", ""))
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable(call.request.op, queue.name, m.data, cause) from cause
