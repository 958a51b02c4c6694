"""What everything that is asked of bridges stands on: the connection with its subjects and its patience, and the
name of a queue on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client as Connection

from .call import Call, Patience
from .deadline import Deadline
from .duration import Duration, seconds
from .errors import UNAVAILABLE, error_of, unreadable
from .inflight import InFlight
from .lane import Lanes
from .mailbox import Mailbox, Request
from .message import Message
from .subjects import AckSubjects, Grammar, check_queue


class Core:
    """Of a client."""

    connection: Connection
    grammar: Grammar
    acks: AckSubjects
    patience: Patience
    mailbox: Mailbox
    no_steps: set[str]
    """Queues where a pop for good cannot be confirmed: the user may not acknowledge."""
    lanes: Lanes
    _in_flight: InFlight

    def deadline(self, timeout: Duration | None, more: float = 0.0) -> Deadline:
        """The deadline of an operation; more: seconds on top of the client's own timeout."""
        return Deadline(self.patience.timeout + more if timeout is None else seconds(timeout, "timeout"))

    async def make_room(self, request: Callable[[], Request], size: int, deadline: Deadline) -> None:
        """Waits until there is room for a push of so many bytes. It has that until free_room."""
        if not await self._in_flight.acquire(size, deadline):
            r = request()
            text = "there was no room for the push: max_in_flight of them, or 16 MiB, wait for their answers"
            raise error_of(r.op, r.queue, UNAVAILABLE, text, cause=TimeoutError("the time is up"))

    def free_room(self, size: int) -> None:
        self._in_flight.release(size)

    async def send(self, call: Call, size: int, timeout: Duration | None) -> Message:
        """Sends a request of so many bytes when there is room for it, and returns its answer."""
        deadline = self.deadline(timeout)
        await self.make_room(lambda: call.request, size, deadline)
        try:
            return await call.send(self.mailbox, self.patience, deadline)
        finally:
            self.free_room(size)

    async def ask(self, op: str, queue: str, subject: str, fields: dict[str, Any] | None, timeout: Duration | None, does: str | None = None) -> Any:
        """Sends a request that is answered by a JSON object."""
        body = b"" if fields is None else json.dumps(fields).encode()
        call = Call(Request(op, queue, subject, None, body), does=does)
        m = await call.send(self.mailbox, self.patience, self.deadline(timeout))
        try:
            answer = json.loads(m.data)
            if not isinstance(answer, dict):
                raise ValueError("expected a JSON object")
            return answer
        except ValueError as cause:
            raise unreadable(op, queue, m.data, cause) from cause


class Place:
    """Of a queue."""

    def __init__(self, client: Core, name: str) -> None:
        check_queue(name)
        self.client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def subject(self, verb: str) -> str:
        """The subject of a verb, with what follows it."""
        return self.client.grammar.subject(self.name, verb)
