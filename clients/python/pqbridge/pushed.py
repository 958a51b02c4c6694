"""What bridges answer to pushes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .errors import UNKNOWN_RESULT, PQError, error_of, unreadable


@dataclass(frozen=True)
class Pushed:
    id: str
    seq: int
    """Its place in the order of pushes."""
    priority: int
    duplicate: bool = False
    """The push added no item: id and seq are those of the item with its message id, or with its unique
    value. After a lost answer the client cannot tell whether its first attempt has added the item, and
    says False; msg_id is for programs that have to know."""
    evicted: bool = False
    """The queue was full, and this was its least urgent item."""


def answer_of(queue: str, body: bytes) -> Any:
    """The answer to a push, or the error that it is."""
    try:
        answer = json.loads(body)
        error = answer.get("error")
    except (ValueError, AttributeError) as cause:
        raise unreadable("push", queue, body, cause) from cause
    if error:
        raise error_in(queue, error)
    return answer


def error_in(queue: str, error: Any) -> PQError:
    return error_of("push", queue, int(error.get("code") or UNKNOWN_RESULT), str(error.get("description")), str(error.get("reason") or ""), item=error.get("item"))


def items_of(queue: str, body: bytes, n: int) -> list[Any]:
    """What became of each of n items."""
    results = answer_of(queue, body).get("items")
    if not isinstance(results, list) or len(results) != n:
        raise unreadable("push", queue, body, ValueError(f"expected {n} items"))
    return results


def pushed(queue: str, found: Any, body: bytes, own: bool = False) -> Pushed:
    """Reads what became of an item. own: it may repeat an attempt of this client."""
    try:
        if not found["id"]:
            raise ValueError("it has no id")
        duplicate = found.get("duplicate") is True and not own
        return Pushed(str(found["id"]), int(found["seq"]), int(found["priority"]), duplicate, found.get("evicted") is True)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable("push", queue, body, cause) from cause
