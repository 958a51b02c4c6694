"""What happens at queues and no answer reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nats.aio.subscription import Subscription

from .duration import time_of

if TYPE_CHECKING:
    from .client import Client

_TYPE = "io.pq.v1.event."


@dataclass(frozen=True)
class Event:
    """Fields that an event does not have keep their defaults."""

    type: str
    """dead, expired, lease_lost, evicted, error, …"""
    time: datetime
    queue: str
    id: str = ""
    priority: int = 0
    deliveries: int = 0
    reason: str = ""
    """Of dead: why."""
    dead_letter: str = ""
    """Of dead: the queue where the item went; "": it was dropped."""
    code: int = 0
    error: str = ""
    """Of error, with code: why pushes without a reply subject were not stored."""
    count: int = 0


class Events:
    """Events from the moment the block begins: an asynchronous context manager, and an iterator in it."""

    def __init__(self, client: Client, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Events:
        nc = self._client.connection
        self._subscription = await nc.subscribe(self._subject)
        await nc.flush()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        if self._subscription is not None and not self._client.connection.is_closed:
            await self._subscription.unsubscribe()

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        if self._subscription is None:
            raise RuntimeError("the events have not begun: expected async with client.events() as events")
        while True:
            m = await self._subscription.next_msg(timeout=None)
            event = _event(m.data)
            if event is not None:
                return event


def _event(body: bytes) -> Event | None:
    """The event in a message, None if it is none of this protocol."""
    try:
        fields: dict[str, Any] = json.loads(body)
        known = {name: value for name, value in fields.items() if name in Event.__dataclass_fields__}
        return Event(**{**known, "type": fields["type"].removeprefix(_TYPE), "time": time_of(fields["time"]), "queue": fields["queue"]})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
