"""What happens at queues and no answer reports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, get_args

from nats.aio.subscription import Subscription

from .core import Core
from .duration import time_of
from .flushing import flush

_TYPE = "io.pq.v1.event."


EventType = Literal[
    "dead",
    "expired",
    "lease_lost",
    "revoked",
    "cancelled",
    "evicted",
    "schedule_missed",
    "source_stopped",
    "source_skipped",
    "source_poisoned",
    "link_stopped",
    "purged",
    "queue_deleted",
    "error",
]

EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


@dataclass(frozen=True)
class Event:
    """Fields that an event does not have keep their defaults."""

    type: str
    """One of EventType, or of a later version."""
    time: datetime
    queue: str
    id: str = ""
    priority: int = 0
    deliveries: int = 0
    reason: str = ""
    """Why an item died or was cancelled, a lease was revoked, times were missed, a source or a link has stopped."""
    dead_letter: str = ""
    """Of dead: the queue where the item went; "": it was dropped."""
    code: int = 0
    error: str = ""
    """Of error, with code: why pushes without a reply subject were not stored."""
    count: int = 0
    """How many times, messages or pushes it stands for."""
    holder: str = ""
    """Of lease_lost and revoked: who had the lease, if that is known."""
    not_before: datetime | None = None
    """Of lease_lost and revoked: when the item is ready again, if it is delayed."""
    name: str = ""
    """Of the schedule, the source or the link."""
    from_time: datetime | None = None
    """Of schedule_missed: the first of the times."""
    to_time: datetime | None = None
    """And the last."""
    at_least: bool = False
    """There may have been more than count."""
    text: str = ""
    """Of source_stopped and link_stopped: more about the reason."""
    failures: int = 0
    """Of an item: how many of its leases ended by nak, or its worker's failure."""
    interruptions: int = 0
    """How many ran out."""
    returns: int = 0
    """And how many were given back or revoked."""
    more: dict[str, Any] = field(default_factory=dict)
    """What later versions say beside."""


class Events:
    """Events from the moment the block begins: an asynchronous context manager, and an iterator in it."""

    def __init__(self, client: Core, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Events:
        nc = self._client.connection
        self._subscription = await nc.subscribe(self._subject)
        await flush(nc)
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
            if event is not None and event.type != _BELL:
                return event


# What a bridge says to the holder of a lease, and to nobody else. Consumers hear it by themselves.
_BELL = "lost"

_NAMES = {"from": "from_time", "to": "to_time"}
_TIMES = frozenset({"time", "not_before", "from_time", "to_time"})


def _event(body: bytes) -> Event | None:
    """The event in a message, None if it is none of this protocol."""
    try:
        fields: dict[str, Any] = {_NAMES.get(name, name): value for name, value in json.loads(body).items()}
        fields["type"] = fields["type"].removeprefix(_TYPE)
        known: dict[str, Any] = {name: time_of(value) if name in _TIMES else value for name, value in fields.items() if name in Event.__dataclass_fields__ and name != "more"}
        return Event(**known, more={name: value for name, value in fields.items() if name not in known})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
