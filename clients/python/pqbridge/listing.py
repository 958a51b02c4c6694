"""Items and keys as pages show them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from .duration import time_of
from .errors import unreadable
from .item_data import Attempt, Death, attempts_of, duration_of


@dataclass(frozen=True)
class Listed:
    """An item of a list."""

    id: str
    priority: int
    state: str
    deliveries: int
    pushed: datetime
    size: int
    """Bytes of payload and headers."""
    key: str = ""
    held: bool = False
    """Leased without an end, by a link."""
    due: datetime | None = None
    """When the lease ends, or the delay."""
    expires: datetime | None = None
    fence: int = 0
    key_fence: int = 0
    unique: str = ""
    unique_until: str = ""
    dead: Death | None = None
    holder: str = ""
    """Of a leased item: what its holder calls itself."""
    failures: int = 0
    """How many of its leases ended by a nak."""
    interruptions: int = 0
    """How many ran out."""
    returns: int = 0
    """How many were given back, or revoked."""
    since: datetime | None = None
    """Of a leased item: when its lease began."""
    cause: str = ""
    """What it failed of last: the reason of the last attempt, or of its death."""
    attempts: int = 0
    """The number of the last lease that ended without success."""
    last_attempts: list[Attempt] = field(default_factory=list)
    """If they were asked for."""
    headers: dict[str, list[str]] | None = None
    """None where the item does not fit into an answer with them; get has them."""
    data: bytes | None = None
    """The payload, if it was asked for. None where it alone would not fit; get has it."""
    preview: bytes | None = None
    """The beginning of the payload, if it was asked for. None where that is one of many large payloads of a page."""
    result_ttl: float = 0.0
    """For how long the queue keeps what becomes of the item, in seconds; 0: not at all."""
    cost: int = 1
    """Of a delivery."""


class KeySettings(TypedDict, total=False):
    """What an administrator has set for a key. What is missing goes by the queue, or by the pushes."""

    limit: int
    """How many of its items are leased at a time; 0: no limit."""
    rate: str
    """How many deliveries it gets in a time, such as "100/1m"; "": no bound."""
    weight: int
    """Its share where keys take turns, 1 to 1000."""
    paused: bool
    """Its items are not handed out."""
    cost_rate: str
    """How much cost it gets in a time, such as "1440/1s"; "": no bound."""


class KeyChange(TypedDict, total=False):
    """Settings to change; None drops one."""

    limit: int | None
    rate: str | None
    weight: int | None
    paused: bool | None
    cost_rate: str | None


@dataclass(frozen=True)
class KeyInfo:
    """What is known of a key."""

    key: str
    ready: int = 0
    more: bool = False
    """It has more ready items than were counted."""
    leased: int = 0
    limit: int = 0
    """What holds for it: its settings, or those of the queue. A limit of 0 and a rate of "" are none."""
    rate: str = ""
    weight: int = 1
    tokens: int | None = None
    """How many deliveries its rate allows now, if it has one."""
    cost_rate: str = ""
    """How much cost it gets in a time; "": no bound."""
    cost_tokens: int | None = None
    """How much cost that allows now, if it has one; negative: what the key owes."""
    waits_for: str = ""
    """Why its first item is not handed out; "": nothing keeps it."""
    retry: str = ""
    """After which time its rates allow the next delivery, if that has to wait."""
    settings: KeySettings = field(default_factory=lambda: KeySettings())


def listed(queue: str, i: Any) -> Listed:
    try:
        dead = i.get("dead")
        return Listed(
            id=str(i["id"]),
            priority=int(i["priority"]),
            state=str(i["state"]),
            deliveries=int(i["deliveries"]),
            pushed=time_of(i["pushed"]),
            size=int(i["size"]),
            key=i.get("key", ""),
            held=i.get("held") is True,
            due=_time(i.get("due")),
            expires=_time(i.get("expires")),
            fence=int(i.get("fence", 0)),
            key_fence=int(i.get("key_fence", 0)),
            unique=i.get("unique", ""),
            unique_until=i.get("unique_until", ""),
            dead=Death(dead.get("reason", ""), dead.get("origin", ""), dead.get("origin_id", ""), _time(dead.get("at")), dead.get("deliveries", 0), dead.get("interruptions", 0)) if dead else None,
            holder=i.get("holder", ""),
            failures=int(i.get("failures", 0)),
            interruptions=int(i.get("interruptions", 0)),
            returns=int(i.get("returns", 0)),
            since=_time(i.get("since")),
            cause=i.get("cause", ""),
            attempts=int(i.get("attempts", 0)),
            last_attempts=attempts_of(i.get("last_attempts", [])),
            headers=i.get("headers"),
            data=base64.b64decode(i["body"]) if "body" in i else None,
            preview=base64.b64decode(i["preview"]) if "preview" in i else None,
            result_ttl=duration_of(i.get("result_ttl", "0s")),
            cost=int(i.get("cost", 1)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable("list", queue, str(i).encode(), cause) from cause


def _time(text: str | None) -> datetime | None:
    return time_of(text) if text else None


def known(queue: str, k: Any) -> KeyInfo:
    try:
        return KeyInfo(**{name: value for name, value in k.items() if name in KeyInfo.__dataclass_fields__})
    except (TypeError, AttributeError) as cause:
        raise unreadable("keys", queue, str(k).encode(), cause) from cause
