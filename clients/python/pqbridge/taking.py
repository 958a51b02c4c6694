"""Pops and peeks, the pop behind an acknowledgement, and what else may wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, Literal, TypeVar

import nats.errors

from .absence import Absence
from .again import READS
from .answers import Answers
from .call import ended
from .core import Place
from .deadline import INFINITE
from .duration import Duration, nanoseconds, seconds
from .errors import TIMEOUT, TOO_LARGE, UNKNOWN_RESULT, EmptyError, LeaseLostError, PQError, in_doubt, may_repeat, refusal_in, unreadable
from .mailbox import Listening, Request, denial, no_connection, random_token
from .message import Message
from .retry import Retry, longer
from .values import count, header_text, holder_of, priority_of

T = TypeVar("T")

# How an item is read from an answer.
Read = Callable[[Place, Message, str, float], T]

End = Literal["min", "max"]

# What one request may wait; a longer wait takes several.
LONGEST_WAIT = 110.0
LONGEST_LEASE = 12 * 3600.0

# A wait that a bridge ends before its time begins anew, unless so little is left of it.
_LEAST_WAIT = 0.02

# One that was shorter than this says that the bridge has no room, and not that nothing came.
_SHORT_WAIT = 1.0

# Leaves time for the answer to arrive before the deadline. An item that arrives later is lost, or
# leased in vain.
_MARGIN = 0.1


@dataclass(frozen=True)
class Selection:
    """What a pop or a peek asks for."""

    batch: int = 0
    """How many items; 0: a single one."""
    min: int | None = None
    max: int | None = None
    wait: Duration = 0
    lease: Duration | None = None
    pop_id: str | None = None
    repeatable: bool = False
    max_bytes: int | None = None
    timeout: Duration | None = None
    holder: str | None = None
    """What the caller calls itself."""


async def take_next(queue: Place, read: Read[T], ack: str, term: float, selection: Selection, cost: int | None) -> T | None:
    """Acknowledges a lease and pops the next item. It is None if there is none; the acknowledgement
    has taken effect all the same. cost: of the delivery, if it is known."""
    seconds(selection.wait, "wait", zero=True, most=LONGEST_WAIT)
    taking = Taking(queue, read, "ack_next", ack, selection)
    taking.term = taking.term or term
    taking.headers = None if cost is None else {"PQ-Cost": str(cost)}
    try:
        return (await taking.run())[0]
    except EmptyError:
        return None
    except LeaseLostError as err:
        # An earlier attempt has settled the lease and found nothing, or another holder has.
        if err.reason == "gone" and taking.open:
            return None
        raise


class _Refusal(Exception):
    """An answer that is an error, on its way within this file."""

    def __init__(self, why: PQError) -> None:
        super().__init__(why)
        self.why = why


class Taking(Generic[T]):
    """A pop or a peek under way."""

    _noun = "item"
    _longest = LONGEST_WAIT

    def __init__(self, queue: Place, read: Read[T], op: str, subject: str, s: Selection, listening: Listening | None = None) -> None:
        self._queue = queue
        self._read = read
        self._client = queue.client
        self._op = op
        self._subject = subject
        self._batch = s.batch
        self.wait = seconds(s.wait, "wait", zero=True)
        self.term = 0.0 if s.lease is None else seconds(s.lease, "lease", most=LONGEST_LEASE)
        if s.pop_id is not None and s.repeatable:
            raise ValueError("pop_id together with repeatable: expected one of them")
        id = random_token() if s.repeatable else None
        if s.pop_id is not None:
            id = header_text(s.pop_id, "pop_id", 1024)
        fields: dict[str, Any] = {
            "lease": None if s.lease is None else nanoseconds(self.term),
            "min": None if s.min is None else priority_of(s.min, "min"),
            "max": None if s.max is None else priority_of(s.max, "max"),
            "max_bytes": None if s.max_bytes is None else count(s.max_bytes, "max_bytes"),
            "msg_id": id,
            "holder": None if s.holder is None else holder_of(s.holder),
        }
        self._fields = {name: value for name, value in fields.items() if value is not None}
        self.headers: dict[str, str] | None = None
        self._own_id = s.repeatable
        self._reads = op in READS
        self._repeatable = self._reads or id is not None
        # Nor does it harm to ask twice for a lease: what comes twice is given back.
        self._once_more = self._repeatable or self.term > 0
        self._deadline = self._client.deadline(s.timeout, self.wait)
        self._answers = Answers(self._client.mailbox, listening)
        self.absence: Absence | None = None
        """What says for how long nothing answers."""
        self._single = False  # each item comes in a message of its own
        self._bundled = False
        self._sent = 0
        self._unknown = False  # an answer said that an attempt may have been done
        self.open = False
        """Whether an attempt without an answer may still be under way."""

    def confirm(self, lasts: float) -> None:
        """Leases what would be popped for good, until it is acknowledged."""
        self._fields["confirm"] = nanoseconds(lasts)
        self._once_more = True

    async def run(self) -> list[T]:
        """Repeats the request until it gets items, or the time is up."""
        items: list[T] = []
        try:
            items = await self._run()
            return items
        except nats.errors.Error as cause:
            raise no_connection(self._request(b""), cause) from cause
        except PQError as err:
            raise err if self._reads else in_doubt(err, self.open)
        finally:
            await self._answers.close(returned=bool(items))

    def _request(self, body: bytes, headers: dict[str, str] | None = None) -> Request:
        return Request(self._op, self._queue.name, self._subject, headers, body)

    def _written(self, expires: float, repeat: bool) -> Request:
        """An attempt."""
        fields = dict(self._fields)
        if self._batch:
            fields["bundle" if self._bundled else "batch"] = self._batch
        if expires > 0:
            fields["expires"] = nanoseconds(expires)
        if repeat:
            fields["repeat"] = True
        body = json.dumps(fields).encode() if fields else b""
        if self._op == "ack_next":
            body = b"+NXT " + body if body else b"+NXT"
        return self._request(body, self.headers)

    def _is_found(self, m: Message) -> bool:
        """Whether a message is what was asked for."""
        return m.is_item

    async def _run(self) -> list[T]:
        mailbox, limits, answers, deadline = self._client.mailbox, self._client.patience, self._answers, self._deadline
        retry, early = Retry(), Retry()
        started = monotonic()
        patience = limits.late if self.wait > 0 else limits.attempt
        refusal: PQError | None = None
        while True:
            await mailbox.up(self._request(b""), deadline)
            if mailbox.closed:
                answers.broken = answers.broken or nats.errors.ConnectionClosedError()
            if answers.broken or deadline.over:
                raise ended(self._request(b""), self._sent, refusal, answers.broken)
            left = self._left(started)
            expires = min(left, self._longest)
            # What ends this pop without an item has to end its earlier attempts, too. As long as it
            # goes on afterwards, another attempt may pop the item.
            repeat = self.open and "msg_id" in self._fields and left <= LONGEST_WAIT
            sent = monotonic()
            until = INFINITE if not self._repeatable and self.wait == 0 else monotonic() + expires + patience
            try:
                items = await self._attempt(expires, repeat, until)
            except _Refusal as r:
                e = r.why
                if e.__cause__ is None:
                    await answers.answered()
                if self.absence:
                    self.absence.refused(e)
            else:
                if items:
                    if self.absence:
                        self.absence.answered()
                    return items
                if answers.denied:
                    self.open = self._unknown or answers.unheard or bool(answers.pending)
                    raise denial(self._request(b""), answers.denied)
                self.open = True
                if answers.broken or deadline.over:
                    raise ended(self._request(b""), self._sent, refusal, answers.broken)
                if not self._repeatable and not (self._once_more and answers.lost):
                    raise ended(self._request(b""), self._sent, None, TimeoutError("no answer arrived in time"))
                patience = longer(patience)
                continue
            if self._bundled and e.code == TOO_LARGE:
                self._single = True  # an item fits into no bundle; nothing was done
                continue
            if e.code == TIMEOUT and self._left(started) > _LEAST_WAIT and self._may_go_on(repeat):
                if monotonic() - sent < min(_SHORT_WAIT, expires / 2):
                    early.allowed(0)
                    await early.wait(deadline)
                continue
            refusal = e
            self._unknown = self._unknown or (e.code == UNKNOWN_RESULT and e.__cause__ is None)
            self.open = self.open or self._unknown
            if not may_repeat(e, self._repeatable) or not retry.allowed(limits.retry_for) or not await retry.wait(deadline, e):
                raise e

    def _may_go_on(self, marked: bool) -> bool:
        """Whether another attempt may take an item. None with the id of a marked one does."""
        if marked and not self._own_id:
            return False
        if marked:
            self._fields["msg_id"], self.open, self._unknown = random_token(), False, False
            self._answers.forget()
        return True

    def _left(self, started: float) -> float:
        """How much longer the pop may wait for an item."""
        if self.wait == 0:
            return 0.0
        until = self._deadline.left
        return max(min(self.wait - (monotonic() - started), until - min(_MARGIN, until / 2)), 0.001)

    async def _attempt(self, expires: float, repeat: bool, until: float) -> list[T]:
        """Asks once and collects the answers. It returns no items if no answer arrives, or if answers
        may be lost with the connection and the request can be repeated. Items also come from earlier
        attempts; what else these answer has no meaning any more."""
        answers, deadline = self._answers, self._deadline
        self._bundled = self._batch > 0 and not self._single
        reply = await answers.attempt(self._subject, waits=expires > 0)
        await self._client.mailbox.publish(self._written(expires, repeat), reply)
        self._sent += 1
        items: list[T] = []
        over = False
        while not over:
            await answers.bell.wait(min(until - monotonic(), deadline.left))
            lost = answers.lost and self._once_more and not items  # otherwise the rest of a batch may be on its way
            over = monotonic() >= until or deadline.over or lost or answers.broken is not None or answers.denied is not None
            # Answers that have arrived count even if the time is up.
            if self._collect(items):
                await answers.answered()
                break
        return items

    def _collect(self, items: list[T]) -> bool:
        """Reads what has arrived, and says whether nothing more will come."""
        while one := self._answers.next():
            m, late = one
            if not self._is_found(m):
                if late:
                    continue
                if items or m.ends_batch:
                    return True
                raise _Refusal(refusal_in(m, self._op, self._queue.name) or unreadable(self._op, self._queue.name, m.data, ValueError(f"it is no {self._noun}")))
            try:
                item = self._read(self._queue, m, self._op, self.term)
            except PQError as err:
                raise _Refusal(err) from None
            if not self._answers.got(m):
                continue
            items.append(item)
            if self._batch == 0:
                return True
        return False
