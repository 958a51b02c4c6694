"""Settlements at the same time go in one message, to a subject that whoever may acknowledge may publish to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .bundle import bundle
from .call import Call
from .core import Place
from .deadline import Deadline
from .errors import FORBIDDEN, TOO_LARGE, UNKNOWN_RESULT, PQError, error_of, may_repeat, unreadable
from .lane import Bundle, Joining, Landed
from .mailbox import Request

_REFUSED = re.compile(r"-ERR ([1-9]\d{2}) (\S+)(?: (.*))?")

# What an answer has for each settlement.
_ANSWER = 40


# The bytes of a settlement with a reason. One of more has a message of its own: a message with many has 2 KiB for each.
_LONGEST_WORD = 1100

# What a frame has beside the ack subject and the word.
_FRAMING = len("1000 1000\nPQ-Ack: \nPQ-Cost: 1000000\n\n")


class Settling(Joining):
    """A settlement under way. ack: the subject that settles the lease. result: what the work has brought, which a line of a
    message has no room for. cost: what the delivery has really cost, if that is known; it goes in a header."""

    __slots__ = ("place", "op", "ack", "word", "result", "cost")

    def __init__(self, place: Place, op: str, ack: str, word: str, result: bytes | None = None, cost: int | None = None) -> None:
        self.place = place
        self.op = op
        self.ack = ack
        self.word = word
        self.result = result
        self.cost = cost
        alone = result is not None or "\n" in word or "\r" in word or len(word.encode(errors="replace")) > _LONGEST_WORD
        super().__init__(len(ack) + len(word) + len(result or b"") + _FRAMING, alone)

    def request(self) -> Request:
        word = self.word.encode()
        return Request(self.op, self.place.name, self.ack, dict(self._costs()) or None, word if self.result is None else word + b" " + self.result)

    def line(self) -> bytes:
        """What it is in a message with others."""
        return f"{self.place.client.acks.written(self.ack)} {self.word}\n".encode()

    def frame(self) -> tuple[list[tuple[str, str]], bytes]:
        """The same where a line has no room for it, or for another one."""
        return [("PQ-Ack", self.place.client.acks.written(self.ack)), *self._costs()], self.word.encode()

    def _costs(self) -> list[tuple[str, str]]:
        return [] if self.cost is None else [("PQ-Cost", str(self.cost))]

    async def go(self, deadline: Deadline) -> Landed:
        """The answer is the time until which the lease lasts, and "dropped" if there was no room for what was said with that; "" if it
        is over."""
        lanes, name = self.place.client.lanes, self.place.name
        self.apart = self.apart or lanes.right("ack", name) is False
        landed = await lanes.go(("ack", name), ("ack", name), self, deadline, ship, _ANSWER)
        return await self.by_itself(deadline, landed) if landed.apart else landed

    async def by_itself(self, deadline: Deadline, before: Landed) -> Landed:
        landed = await _sent_alone(self, Call(self.request(), True, before.error), deadline)
        return Landed(landed.answer, landed.error, open=landed.open or before.open)


async def _sent_alone(one: Settling, call: Call, deadline: Deadline) -> Landed:
    client = one.place.client
    try:
        m = await call.send(client.mailbox, client.patience, deadline)
    except PQError as err:
        return Landed(error=err, open=call.open)
    return Landed(f"{m.get('PQ-Lease-Expires')} {m.get('PQ-Note')}".strip())


async def ship(together: Bundle[Settling]) -> Sequence[Landed]:
    calls = together.calls
    if len(calls) == 1:
        return [await _sent_alone(calls[0], together.send(Call(calls[0].request(), True)), together.deadline)]
    place = calls[0].place
    client, name = place.client, place.name
    about = {"PQ-Bundle": str(len(calls))}
    if any(one.cost is not None for one in calls):
        about["PQ-Frames"] = "true"
        body = bundle(one.frame() for one in calls)
    else:
        body = b"".join(one.line() for one in calls)
    request = Request("ack", name, place.subject("ack.bundle.settle"), about, body)
    call = together.send(Call(request, True))
    try:
        m = await call.send(client.mailbox, client.patience, together.deadline)
    except PQError as err:
        if err.code == FORBIDDEN and err.__cause__ is not None:
            client.lanes.learn("ack", name, False)
        elif err.code != TOO_LARGE:
            raise
        return [Landed(apart=True, open=call.open)] * len(calls)
    lines = m.data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    if len(lines) != len(calls):
        raise unreadable("ack", name, m.data, ValueError(f"{len(lines)} results, expected {len(calls)}"))
    return [_landed(one, line, call.open) for one, line in zip(calls, lines)]


def _landed(one: Settling, line: str, open: bool) -> Landed:
    if line == "+OK":
        return Landed("", open=open)
    if line.startswith("+OK "):
        return Landed(line[4:], open=open)
    found = _REFUSED.fullmatch(line)
    if not found:
        return Landed(error=unreadable(one.op, one.place.name, line.encode(), ValueError("expected +OK or -ERR")))
    e = error_of(one.op, one.place.name, int(found[1]), found[3] or "", "" if found[2] == "-" else found[2])
    return Landed(error=e, apart=may_repeat(e, True), open=open or e.code == UNKNOWN_RESULT)
