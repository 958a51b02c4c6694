"""Pushes at the same time go in one message. Each has an id of its own: neither a repetition of the message nor a later
message of its own adds anything twice. Those without an id go with their like, and are not repeated.

Pushes of several priorities go together on the subject that has none. Whether the user may publish there the client does
not try, because the server would tell the program's error_cb. Until the program itself has done so, each priority
has a lane of its own."""

from __future__ import annotations

from collections.abc import Sequence

from .bundle import bundle
from .call import Call
from .core import Place
from .deadline import Deadline
from .errors import FORBIDDEN, TOO_LARGE, PQError, in_doubt, may_repeat
from .lane import Bundle, Joining, Landed
from .mailbox import HeaderList, Request, headers_size
from .pushed import error_in, items_of

_MOST_BYTES = 16 << 10  # of a push that goes with others
_FRAME = 60  # a priority and the sizes

# What an answer has for each push.
_ANSWER = 160


class Push(Joining):
    """A push under way. headers: all of a message of its own."""

    __slots__ = ("place", "priority", "subject", "headers", "payload", "id", "bytes")

    def __init__(self, place: Place, priority: int | None, headers: list[tuple[str, str]], payload: bytes, id: str | None) -> None:
        self.place = place
        self.priority = priority
        self.subject = place.subject("push" if priority is None else f"push.{priority}")
        self.headers = HeaderList(headers)
        self.payload = payload
        self.id = id
        self.bytes = len(payload) + headers_size(self.headers)
        super().__init__(self.bytes + _FRAME, self.bytes > _MOST_BYTES or any(name.lower() == "nats-trace-dest" for name in self.headers))

    def request(self) -> Request:
        return Request("push", self.place.name, self.subject, self.headers or None, self.payload)

    def goes_with(self, other: Push) -> bool:
        return (self.id is None) == (other.id is None)

    async def go(self, deadline: Deadline) -> Landed:
        lanes, name = self.place.client.lanes, self.place.name
        own = ("push", self.subject)
        key = ("push", self.place.subject("push")) if self.priority is not None and lanes.mixes(name) else own
        landed = await lanes.go(own, key, self, deadline, ship, _ANSWER)
        return await self.by_itself(deadline, landed) if landed.apart else landed

    async def by_itself(self, deadline: Deadline, before: Landed | None = None) -> Landed:
        """before: what became of it in a message with others."""
        call = Call(self.request(), self.id is not None, before.error if before else None)
        try:
            landed = await _sent_alone(self, call, deadline)
        except PQError as err:
            raise in_doubt(err, before is not None and before.open)
        return landed if before is None else Landed(landed.answer, again=landed.again or before.again)


async def _sent_alone(push: Push, call: Call, deadline: Deadline) -> Landed:
    client = push.place.client
    m = await call.send(client.mailbox, client.patience, deadline)
    if push.priority is None:
        client.lanes.learn("push", push.place.name, True)
    return Landed((None, m.data), again=call.sent > 1)


async def ship(together: Bundle[Push]) -> Sequence[Landed]:
    pushes = together.calls
    first = pushes[0]
    if len(pushes) == 1:
        return [await _sent_alone(first, together.send(Call(first.request(), first.id is not None)), together.deadline)]
    place = first.place
    client, name = place.client, place.name
    mixed = any(one.subject != first.subject for one in pushes)
    frames = [([("PQ-Priority", str(one.priority)), *one.headers.pairs] if mixed and one.priority is not None else one.headers.pairs, one.payload) for one in pushes]
    subject = place.subject("push") if mixed else first.subject
    request = Request("push", name, subject, {"PQ-Bundle": str(len(pushes)), "PQ-Each": "true"}, bundle(frames))
    call = together.send(Call(request, first.id is not None))
    try:
        m = await call.send(client.mailbox, client.patience, together.deadline)
        found = items_of(name, m.data, len(pushes))
    except PQError as err:
        if not _divides(err, mixed):
            raise
        if err.code == FORBIDDEN:
            client.lanes.learn("push", name, False)
        return [Landed(apart=True, open=call.open, again=call.sent > 1)] * len(pushes)
    if mixed or first.priority is None:
        client.lanes.learn("push", name, True)
    return [_landed(name, one, item, m.data, call) for one, item in zip(pushes, found)]


def _divides(err: PQError, mixed: bool) -> bool:
    """Whether nothing was done, and each push may fare better in a message of its own."""
    if err.code == FORBIDDEN:
        return mixed and err.__cause__ is not None  # the server's word about the subject
    return err.code == TOO_LARGE and err.__cause__ is None


def _landed(queue: str, push: Push, item: object, body: bytes, call: Call) -> Landed:
    error = item.get("error") if isinstance(item, dict) else None
    if not error:
        return Landed((item, body), again=call.sent > 1)
    refused = error_in(queue, error)
    again = may_repeat(refused, push.id is not None)
    return Landed(error=refused, apart=again, open=call.open or refused.code == 504, again=call.sent > 1)
