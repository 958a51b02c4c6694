"""Schedules of a queue: what they push, and when."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict, Union

from .duration import Duration, duration_text, seconds, shown, time_of, time_text
from .errors import unreadable
from .pushed import Pushed, pushed
from .values import MOST_COST, count, headers_of, key_of, payload_of, priority_of, word


@dataclass(frozen=True)
class ScheduleItem:
    """What a schedule pushes."""

    payload: Union[str, bytes] = ""
    """Of an answer: a text if it is UTF-8."""
    headers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    priority: int | None = None
    """None: the queue's default."""
    key: str | None = None
    weight: int | None = None
    ttl: Duration | None = None
    cost: int | None = None
    """Of a delivery; None: 1."""


class ScheduleChange(TypedDict, total=False):
    """Fields of a schedule to change. What is missing stays as it is."""

    spec: str
    """When it fires, such as "30 7 * * mon-fri", "@every 10m" or "@at 2030-01-31T09:00:00Z". A new schedule needs one."""
    zone: str
    """A name of the tz database; "UTC" if never given."""
    item: ScheduleItem
    """Replaced as a whole."""
    start: datetime | None
    """No time before it fires; None drops it."""
    end: datetime | None
    count: int
    """How many times it fires in all; 0: no bound."""
    overlap: Literal["skip", "one", "replace", "allow"]
    """What it does while an earlier item of it lives."""
    catch_up: Duration
    """How late it may fire."""
    missed: Literal["one", "all"]
    """Of several times that are due: the last, or all."""
    jitter: Duration
    """A time fires later by up to this."""
    paused: bool


@dataclass(frozen=True)
class ScheduleCounts:
    """How many times of a schedule fired, and how many passed without an item."""

    fired: int = 0
    missed: int = 0
    overlapped: int = 0


@dataclass(frozen=True)
class Schedule:
    """It pushes its item to its queue at each time of a calendar. Durations are texts."""

    name: str
    spec: str
    zone: str
    count: int
    overlap: str
    catch_up: str
    missed: str
    jitter: str
    paused: bool
    item: ScheduleItem | None = None
    """None in lists."""
    start: datetime | None = None
    end: datetime | None = None
    next: datetime | None = None
    """The next time; None if there is none, or it is paused."""
    due: datetime | None = None
    """When it fires for next, with its jitter."""
    last: datetime | None = None
    """The last time that fired."""
    done: bool = False
    """There is no further time."""
    full: bool = False
    """Its time has come, and the queue is full."""
    counts: ScheduleCounts = field(default_factory=ScheduleCounts)
    times: Sequence[datetime] = ()
    """The next ones, of Queue.schedule only."""


def changed(change: ScheduleChange) -> dict[str, Any]:
    """The fields of a change, as JSON has them."""
    if not isinstance(change, Mapping):
        raise TypeError(f"the change is {shown(change)}: expected a mapping such as {{'spec': '@daily'}}")
    return {name: _field(name, value) for name, value in change.items()}


def _field(name: str, value: Any) -> Any:
    if name == "item":
        return _item(value)
    if name in ("start", "end"):
        return None if value is None else time_text(value, name)
    if name in ("catch_up", "jitter"):
        return duration_text(seconds(value, name, zero=True))
    if name == "overlap":
        return word(value, name, "skip", "one", "replace", "allow")
    if name == "missed":
        return word(value, name, "one", "all")
    if name not in ("spec", "zone", "count", "paused"):
        raise ValueError(f"a schedule has no field {shown(name)}: expected {', '.join(ScheduleChange.__annotations__)}")
    return value


def _item(item: Any) -> dict[str, Any]:
    if not isinstance(item, ScheduleItem):
        raise TypeError(f"item is {shown(item)}: expected a ScheduleItem")
    payload = payload_of(item.payload)  # which refuses a text that is no Unicode
    headers: dict[str, list[str]] = {}
    for name, value in headers_of(item.headers):
        headers.setdefault(name, []).append(value)
    fields = {
        **({"payload": item.payload} if isinstance(item.payload, str) else {"payload_base64": base64.b64encode(payload).decode()}),
        "headers": headers or None,
        "priority": None if item.priority is None else priority_of(item.priority),
        "key": None if item.key is None else key_of(item.key),
        "weight": None if item.weight is None else count(item.weight, "weight", 1000),
        "cost": None if item.cost is None else count(item.cost, "cost", MOST_COST),
        "ttl": None if item.ttl is None else duration_text(seconds(item.ttl, "ttl")),
    }
    return {name: value for name, value in fields.items() if value is not None}


def schedule_of(queue: str, s: Any) -> Schedule:
    """A schedule as an answer has it."""
    try:
        plain: dict[str, Any] = {name: s[name] for name in ("name", "spec", "zone", "count", "overlap", "catch_up", "missed", "jitter", "paused")}
        times: dict[str, Any] = {name: time_of(s[name]) for name in ("start", "end", "next", "due", "last") if name in s}
        item = None
        if "item" in s:
            i = dict(s["item"])
            item = ScheduleItem(base64.b64decode(i["payload_base64"]) if "payload_base64" in i else i.get("payload", ""), i.get("headers", {}), i.get("priority"), i.get("key"), i.get("weight"), i.get("ttl"), i.get("cost"))
        counts = ScheduleCounts(**{name: int(s["counts"][name]) for name in ("fired", "missed", "overlapped")})
        shown_times = [time_of(at) for at in s.get("times", [])]
        return Schedule(**plain, **times, item=item, done=s.get("done", False), full=s.get("full", False), counts=counts, times=shown_times)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable("schedule", queue, str(s).encode(), cause) from cause


def times_of(queue: str, answer: Any) -> list[datetime]:
    try:
        return [time_of(at) for at in answer["times"]]
    except (ValueError, TypeError, KeyError) as cause:
        raise unreadable("schedule_times", queue, str(answer).encode(), cause) from cause


def run_of(queue: str, body: bytes) -> Pushed:
    try:
        return pushed(queue, json.loads(body), body)
    except ValueError as cause:
        raise unreadable("run_schedule", queue, body, cause) from cause
