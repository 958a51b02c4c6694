"""What became of an item."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from .core import Place
from .duration import Duration, duration_text, time_of
from .errors import TIMEOUT, BusyError, NoResultYetError, PQError, UnavailableError, UnknownResultError, unreadable
from .mailbox import Request
from .message import Message
from .subjects import check_id
from .taking import Selection, Taking

Outcome = Literal["done", "dead", "handed_over", "expired", "removed", "evicted", "cancelled"]


@dataclass(frozen=True)
class Result:
    """What became of an item whose push asked for that, by its result_ttl."""

    outcome: Outcome
    """How it ended. "done": it was acknowledged, or popped without a lease. "handed_over": another push acknowledged it, or a
    link took it."""
    body: bytes
    """What its holder said with the acknowledgement; b"": nothing."""
    dropped: bool
    """The holder said something, and the queue had no room for it."""
    finished_at: datetime
    deliveries: int
    reason: str
    """Why it is dead, or was cancelled, "" otherwise."""
    dead_letter: str
    """Of a dead item: the queue that has it now."""
    next: str
    """Of an item that was handed over: the queue that has it now, or link:<name>."""
    next_id: str
    """Its id in either."""
    cause: str = ""
    """Of a dead item: what it failed of last, or why it is dead."""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @classmethod
    def read(cls, queue: Place, m: Message, op: str, term: float = 0.0) -> Result:
        """Reads an answer that is a result."""
        try:
            return cls(
                outcome=cast(Outcome, m.get("PQ-Outcome")),
                body=m.data,
                dropped=m.get("PQ-Result") == "dropped",
                finished_at=time_of(m.get("PQ-Finished-At")),
                deliveries=int(m.get("PQ-Deliveries")),
                reason=m.get("PQ-Dead-Reason") or m.get("PQ-Cancel-Reason"),
                cause=m.get("PQ-Dead-Cause") or m.get("PQ-Dead-Reason"),
                dead_letter=m.get("PQ-Dead-Letter"),
                next=m.get("PQ-Next"),
                next_id=m.get("PQ-Next-Id"),
            )
        except ValueError as cause:
            raise unreadable(op, queue.name, m.data, cause) from cause


class _Asking(Taking[Result]):
    """A request for a result under way. It changes nothing, so it is asked again until there is an answer."""

    _noun = "result"
    _longest = 10.0  # a bridge that dies meanwhile costs no more than that, and unlike a pop it takes nothing along

    def _written(self, expires: float, repeat: bool) -> Request:
        return self._request(b"", {"PQ-Wait": duration_text(expires)} if expires > 0 else None)

    def _is_found(self, m: Message) -> bool:
        return "PQ-Outcome" in m.headers


async def result(queue: Place, id: str, wait: Duration, timeout: Duration | None) -> Result:
    check_id(id)
    selection = Selection(wait=wait, timeout=timeout)
    try:
        return (await _Asking(queue, Result.read, "result", queue.subject(f"result.{id}"), selection).run())[0]
    except PQError as err:
        if err.code == TIMEOUT or err.reason == "pending":
            raise NoResultYetError(queue.name, err.code, id, err.reason, err.progress) from None
        raise


async def result_of_push(queue: Place, id: str, wait: float, timeout: float | None) -> Result:
    """The result of an item that the caller has pushed. Where the answer is missing, an error that says that nothing was
    done would have the caller push it again."""
    try:
        return await result(queue, id, wait, timeout)
    except (BusyError, UnavailableError, UnknownResultError) as err:
        raise NoResultYetError(queue.name, err.code, id, err.reason) from err
