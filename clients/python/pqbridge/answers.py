"""The messages that answer a pop or a peek, whichever of its attempts they answer: a repeated pop
gives the same items under the same leases."""

from __future__ import annotations

from collections import deque

from .bundle import unbundled
from .deadline import Bell
from .mailbox import Listening, Mailbox
from .message import Message

# For how long a lease that the caller has got is not given back, if an earlier attempt that has
# it, too, is answered late.
_LATE_FOR = 600.0


def _lease_of(m: Message) -> tuple[str, str]:
    """Two answers with one lease may have different subjects."""
    return m.get("PQ-Id"), m.get("PQ-Fence")


class _Attempt:
    def __init__(self, answers: Answers, subject: str, number: int) -> None:
        self.subject = subject
        self._answers = answers
        self._number = number

    def deliver(self, m: Message) -> None:
        self._over()
        for one in unbundled(m):
            self._answers.here.append((one, self._number))
        self._answers.bell.ring()

    def _over(self) -> bool:
        """Whether it was pending until now."""
        was = self in self._answers.pending
        self._answers.pending.discard(self)
        return was

    def reconnect(self) -> None:
        self._answers.unheard |= self._over()
        self._answers.lost = True
        self._answers.bell.ring()

    def fail(self, cause: BaseException) -> None:
        self._answers.broken = cause
        self._answers.bell.ring()

    def refuse(self, cause: BaseException) -> bool:
        if not self._over():
            return False
        if not self._answers.pending:  # otherwise another attempt may have passed
            self.deny(cause)
        return True

    def deny(self, cause: BaseException) -> None:
        self._answers.denied = self._answers.denied or cause
        self._answers.bell.ring()


class Answers:
    def __init__(self, mailbox: Mailbox, listening: Listening | None = None) -> None:
        self._mailbox = mailbox
        self._listening = listening
        self._replies: list[str] = []
        self._waits: list[str] = []  # those with a subscription of their own
        self._leases: set[tuple[str, str]] = set()  # that the caller has got from a repeated request
        self._got: list[Message] = []
        self.here: deque[tuple[Message, int]] = deque()
        self.bell = Bell()
        """Rung when something has changed."""
        self.lost = False
        """Whether the connection is a new one."""
        self.broken: BaseException | None = None
        """Why no answer will come."""
        self.denied: BaseException | None = None
        self.pending: set[_Attempt] = set()
        """Those of this connection that were neither answered nor refused."""
        self.unheard = False
        """Whether an answer may have been lost with a connection."""

    async def attempt(self, subject: str, waits: bool) -> str:
        """The reply subject of another attempt. If the connection is a new one, those that waited on the former one
        have ended."""
        if self.lost:
            await self._leave()
            self.lost = False
        attempt = _Attempt(self, subject, len(self._replies) + 1)
        if waits and self._listening is not None:
            reply = await self._listening.receive(attempt)
        elif waits:
            reply = await self._mailbox.receive_waiting(attempt)
            self._waits.append(reply)
        else:
            reply = self._mailbox.receive(attempt)
        self._replies.append(reply)
        self.pending.add(attempt)
        return reply

    def forget(self) -> None:
        """What became of the attempts so far has no meaning any more."""
        self.pending.clear()
        self.unheard = False

    async def answered(self) -> None:
        """The latest attempt has its whole answer."""
        if self._waits and self._waits[-1] == self._replies[-1]:
            await self._mailbox.stop_waiting(self._waits.pop())

    async def _leave(self) -> None:
        while self._waits:
            await self._mailbox.leave(self._waits.pop(), self._give_back)

    def next(self) -> tuple[Message, bool] | None:
        """The next message, and whether it answers an earlier attempt; None when there is none yet."""
        if not self.here:
            return None
        message, attempt = self.here.popleft()
        return message, attempt < len(self._replies)

    def got(self, m: Message) -> bool:
        """Notes that the caller gets the item of a message. It says false if the caller has it already."""
        if len(self._replies) > 1 and m.is_item:  # otherwise no other answer has its lease
            lease = _lease_of(m)
            if lease in self._leases:
                return False
            self._leases.add(lease)
        self._got.append(m)
        return True

    async def close(self, returned: bool) -> None:
        """Gives back the items that the caller has not got, and those that arrive later; all of them if
        nothing was returned to the caller."""
        await self._leave()
        if not returned:
            self._leases.clear()
            self.here.extend((message, 0) for message in self._got)
        for message, _ in self.here:
            self._give_back(message)
        self.here.clear()
        self._got.clear()
        for reply in self._replies:
            if self._leases:
                self._mailbox.late(reply, self._give_back, _LATE_FOR)
            else:
                self._mailbox.stop(reply)

    def _give_back(self, m: Message) -> None:
        if _lease_of(m) not in self._leases:
            self._mailbox.give_back(m)
