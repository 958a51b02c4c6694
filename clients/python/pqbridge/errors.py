"""Errors of requests. Each class is what one code of the protocol means; the texts are the bridge's own."""

from __future__ import annotations

import json
import re

from .bulk_result import BulkResult
from .message import Message

BAD_REQUEST = 400
FORBIDDEN = 403
NOT_FOUND = 404
TIMEOUT = 408
CONFLICT = 409
LEASE_LOST = 410
TOO_LARGE = 413
BUSY = 429
UNAVAILABLE = 503
UNKNOWN_RESULT = 504
DAMAGED = 506

# The text of an error of a request that no bridge has received.
NO_BRIDGE = "no bridge is there"


class PQError(Exception):
    """The error of a request: a bridge's answer, or the reason why there was none. A failed request
    has had no effect, except perhaps after UnknownResultError."""

    def __init__(self, op: str, queue: str, code: int, text: str, reason: str = "", item: int | None = None) -> None:
        super().__init__(op, queue, code, text, reason, item)
        self.op = op
        """What was asked for: push, pop, …"""
        self.queue = queue
        """On which queue, "" if on none."""
        self.code = code
        self.text = text
        """What was wrong, and what was expected, as it came. str() escapes what could change a terminal."""
        self.reason = reason
        """Of codes 404, 409, 410 and 429."""
        self.item = item
        """Which item of a push_many it is about, from 0."""
        self.progress = ""
        """Of an item whose result was asked for and that goes on: how far it is, if its holder has said so."""
        self.bulk: BulkResult | None = None
        """How far a bulk operation came before it."""

    def __str__(self) -> str:
        line = f"{self.op} {self.queue}".rstrip() + f": {self.text} ({self.code})"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


class BadRequestError(PQError):
    """400: a name, number, header or body is not as it should be."""


class ForbiddenError(PQError):
    """403: the queue does not exist, or the user may not do that."""


class EmptyError(PQError):
    """404 of pops and peeks, 408: there is nothing, or nothing arrived in time. reason says why."""


class NotFoundError(PQError):
    """404: there is no such item or no such queue."""


class NoResultYetError(PQError):
    """404 (reason "pending") and 408 of results: the item has not ended, or not within the wait. Of a push_and_wait also 409,
    429, 503 and 504 behind its push, which are the cause. Nothing is wrong with the job: result asks again."""

    def __init__(self, queue: str, code: int, id: str, reason: str = "", progress: str = "") -> None:
        super().__init__("result", queue, code, f"job {id} goes on: ask again with result", reason)
        self.args = queue, code, id, reason, progress  # what makes it again, for pickle
        self.progress = progress
        self.id = id
        """Of the job."""


class ConflictError(PQError):
    """409 with a reason: occupied, leased, held, unkept, not_leased, another_key, lease_required, only_min."""


class LeaseLostError(PQError):
    """410: the lease is no longer valid. reason says why: gone, taken, returned, expired or cancelled."""


class ItemCancelledError(LeaseLostError):
    """410 (reason "cancelled"): somebody has cancelled the item, see Queue.cancel. Of a push_and_wait: its own hang-up."""

    @property
    def why(self) -> str:
        """What was said with the cancel, "" if nothing was."""
        said = _CANCELLED.fullmatch(self.text)
        return said[1] or "" if said else ""


class TooLargeError(PQError):
    """413: larger than the NATS server's max_payload allows."""


class BusyError(PQError):
    """429, 409 without a reason: too many requests or waiting pops, or the queue is full. Nothing was done."""


class InternalError(PQError):
    """500: a defect of pqd."""


class UnavailableError(PQError):
    """503: no bridge answers, or its store cannot commit. Nothing was done."""


class UnknownResultError(PQError):
    """504: there was no answer, so the request was done or not."""


class DamagedError(PQError):
    """506: the request needs data of a damaged file of the store. Nothing was done."""


class NotLeasedError(Exception):
    """The item has no lease, so there is nothing to settle."""

    def __init__(self) -> None:
        super().__init__("the item was popped without a lease: expected one that was popped with lease")


class SettledError(Exception):
    """The same object has settled its lease before."""

    def __init__(self) -> None:
        super().__init__("the item was settled already")


_CANCELLED = re.compile(r"(?:lease lost: )?cancelled(?:: (.*))?", re.DOTALL)

_CLASSES: dict[int, type[PQError]] = {
    BAD_REQUEST: BadRequestError,
    FORBIDDEN: ForbiddenError,
    TIMEOUT: EmptyError,
    LEASE_LOST: LeaseLostError,
    TOO_LARGE: TooLargeError,
    BUSY: BusyError,
    UNAVAILABLE: UnavailableError,
    UNKNOWN_RESULT: UnknownResultError,
    DAMAGED: DamagedError,
}

# The operations that look for an item: 404 says that there is none to take.
_LOOKS = frozenset({"pop", "peek", "ack_next"})


def error_of(op: str, queue: str, code: int, text: str, reason: str = "", item: int | None = None, cause: BaseException | None = None) -> PQError:
    """The error of a code, in the class that it means. A cause says that it is no answer of a bridge."""
    if code == NOT_FOUND:
        kind: type[PQError] = EmptyError if op in _LOOKS else NotFoundError
    elif code == CONFLICT:  # without a reason too many pops wait, or the bridge stops
        kind = ConflictError if reason else BusyError
    elif code == LEASE_LOST and reason == "cancelled":
        kind = ItemCancelledError
    else:
        kind = _CLASSES.get(code, InternalError)
    e = kind(op, queue, code, text, reason, item)
    e.__cause__ = cause
    return e


def alike(e: PQError, op: str) -> PQError:
    """The same error for another caller."""
    return error_of(op, e.queue, e.code, e.text, e.reason, cause=e.__cause__)


def refusal_in(m: Message, op: str, queue: str) -> PQError | None:
    """The error in an answer, None if the answer is none."""
    if not m.headers:
        return None
    number = m.get("Nats-Service-Error-Code")
    if number.isdecimal() and len(number) <= 6:
        e = error_of(op, queue, int(number), m.get("Nats-Service-Error"), m.get("PQ-Reason"), _item_of(m))
        e.progress = m.get("PQ-Progress")
        return e
    if m.no_responders:
        return error_of(op, queue, UNAVAILABLE, NO_BRIDGE)
    return None


def _item_of(m: Message) -> int | None:
    """Which item of a bundle an error is about, None if it is about all."""
    if not m.data:
        return None
    try:
        item = json.loads(m.data)["error"].get("item")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return item if isinstance(item, int) else None


def unreadable(op: str, queue: str, body: bytes, cause: BaseException) -> PQError:
    """The error of an answer that the protocol does not have: another program listens on the
    subject, or the responder speaks another version. What became of the request is unknown."""
    start = body[:60].decode("utf-8", "replace")
    return error_of(op, queue, UNKNOWN_RESULT, f"the answer {start!r} cannot be read: {cause}", cause=cause)


def may_repeat(e: PQError, repeatable: bool) -> bool:
    """Whether a request may be sent again after this error: nothing was done, or doing it twice is
    like doing it once."""
    if e.__cause__ is not None:
        return False
    if e.code == CONFLICT:
        return e.reason == ""  # otherwise trying again does not help
    return e.code in (BUSY, UNAVAILABLE) or (e.code == UNKNOWN_RESULT and repeatable)


_ABOUT_ANOTHER_ITEM = frozenset({"occupied", "leased", "another_key"})
_MAY_BE_DONE_LATER = frozenset({FORBIDDEN, CONFLICT, BUSY, UNAVAILABLE, DAMAGED})


def in_doubt(e: PQError, open: bool) -> PQError:
    """The error of a request that is given up. If an earlier attempt is open, a refusal to do it now
    does not say that it will not be done: another bridge may have that attempt."""
    if not open or e.code not in _MAY_BE_DONE_LATER or e.reason in _ABOUT_ANOTHER_ITEM:
        return e
    text = f"an attempt was not answered, and the last one was refused: {e.text} ({e.code})"
    return error_of(e.op, e.queue, UNKNOWN_RESULT, text, cause=e)
