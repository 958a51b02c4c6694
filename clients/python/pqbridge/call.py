"""A request that is answered by one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import nats.errors

from .again import READS, REPEATS
from .deadline import INFINITE, Bell, Deadline
from .errors import UNKNOWN_RESULT, PQError, alike, error_of, in_doubt, may_repeat, refusal_in
from .mailbox import Mailbox, Request, denial, no_connection
from .message import Message
from .retry import Retry, longer


@dataclass(frozen=True)
class Patience:
    """How long a client waits, in seconds."""

    timeout: float
    retry_for: float
    attempt: float
    absence: float = 5.0

    @property
    def late(self) -> float:
        """For an answer that another attempt does not bring sooner, at first: that of a pop that waits. Given up, a late
        answer costs more than the wait for it: it may be a lease."""
        return 5 * self.attempt


def ended(request: Request, sent: int, refusal: PQError | None, cause: BaseException | None) -> PQError:
    """The error of a request whose time is up. It has the last refusal if there is one, because that
    says more."""
    if refusal is not None:
        return refusal
    if sent == 0:
        return no_connection(request, cause)
    return error_of(request.op, request.queue, UNKNOWN_RESULT, "no answer", cause=cause or TimeoutError("the time is up"))


class Call:
    def __init__(self, request: Request, repeatable: bool = False, refusal: PQError | None = None, does: str | None = None) -> None:
        """repeatable: doing it twice is like doing it once, whatever again.py says of the operation: it has an id, say.
        does: the operation, where errors name another one."""
        self.subject = request.subject
        self.refusal = refusal
        """The last one. One that it is given was that of another message, and it waits before it is sent."""
        self.left: Callable[[], None] | None = None
        """Called when it has been sent first."""
        self.sent = 0
        """How often it was sent."""
        self._pending = 0  # attempts on this connection that were neither answered nor refused
        self._unknown = 0  # attempts that nobody will answer any more
        self.request = request
        self._reads = (does or request.op) in READS
        self._repeatable = repeatable or self._reads or (does or request.op) in REPEATS
        self._bell = Bell()
        self._answer: Message | None = None
        self._broken: BaseException | None = None
        self._denied: PQError | None = None
        self._lost = False

    @property
    def open(self) -> bool:
        """Whether an attempt without an answer may still change something."""
        return self._pending + self._unknown > 0 and not self._reads

    def given_up(self, request: Request) -> PQError:
        """The error of a part of it that waits no longer."""
        return in_doubt(ended(request, self.sent, self.refusal and alike(self.refusal, request.op), self._broken), self.open)

    def deliver(self, m: Message) -> None:
        if self._answer is None:  # one is enough; the first attempt's may come late
            self._answer = m
            self._pending = max(0, self._pending - 1)
        self._bell.ring()

    def reconnect(self) -> None:
        self._lost = True
        self._unknown, self._pending = self._unknown + self._pending, 0
        self._bell.ring()

    def fail(self, cause: BaseException) -> None:
        self._broken = cause
        self._bell.ring()

    def refuse(self, cause: BaseException) -> bool:
        if self._pending == 0:
            return False
        self._pending -= 1
        if self._pending == 0:  # otherwise another attempt may have passed
            self.deny(cause)
        return True

    def deny(self, cause: BaseException) -> None:
        self._denied = self._denied or denial(self.request, cause)
        self._bell.ring()

    async def send(self, mailbox: Mailbox, patience: Patience, deadline: Deadline) -> Message:
        """Sends the request, repeats it if necessary, and returns its answer. Requests keep their order."""
        reply = mailbox.receive(self)
        try:
            return await self._send(mailbox, reply, patience, deadline)
        except PQError as err:
            raise in_doubt(err, self.open)
        finally:
            mailbox.stop(reply)

    async def _send(self, mailbox: Mailbox, reply: str, limits: Patience, deadline: Deadline) -> Message:
        retry = Retry()
        patience = limits.attempt
        if self.refusal and not (retry.allowed(limits.retry_for) and await retry.wait(deadline, self.refusal)):
            raise self.refusal
        while True:
            await mailbox.up(self.request, deadline)
            if mailbox.closed:
                self.fail(nats.errors.ConnectionClosedError())
            if self._broken or deadline.over:
                raise ended(self.request, self.sent, self.refusal, self._broken)
            self._pending += 1
            try:
                await mailbox.publish(self.request, reply)
            except PQError:
                self._pending -= 1
                raise
            self.sent += 1
            if self.sent == 1 and self.left is not None:
                self.left()
            self._lost = False
            until = monotonic() + patience if self._repeatable else INFINITE
            await self._wait(until, deadline)
            m = self._answer
            if m is None:
                if self._denied:
                    raise self._denied
                if self._broken or deadline.over:
                    raise ended(self.request, self.sent, self.refusal, self._broken)
                patience = longer(patience)
                continue
            self._answer = None
            refusal = refusal_in(m, self.request.op, self.request.queue)
            if refusal is None:
                return m
            self.refusal = refusal
            self._unknown += refusal.code == UNKNOWN_RESULT
            if not may_repeat(refusal, self._repeatable) or not retry.allowed(limits.retry_for) or not await retry.wait(deadline, refusal):
                raise refusal

    async def _wait(self, until: float, deadline: Deadline) -> None:
        while self._answer is None and not self._broken and not self._denied and not deadline.over:
            left = until - monotonic()
            if left <= 0 or (self._lost and self._repeatable):
                return
            await self._bell.wait(min(left, deadline.left))
