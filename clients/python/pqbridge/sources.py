"""Sources of a queue: what feeds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict, Union

from .duration import shown, time_of, time_text
from .errors import unreadable
from .values import count, word


class SourceValue(TypedDict, total=False):
    """The value of a header of a message, or of a token of its subject."""

    header: str
    token: int
    """From 1."""
    default: str | int
    """Of messages without it."""


class SourceMap(TypedDict, total=False):
    """What the items have: a constant, or a value of the message."""

    priority: str | int | SourceValue
    key: str | int | SourceValue
    weight: str | int | SourceValue
    delay: str | int | SourceValue
    not_before: str | int | SourceValue
    ttl: str | int | SourceValue
    unique: str | int | SourceValue
    on_conflict: str | int | SourceValue
    cost: str | int | SourceValue


SourceStart = Union[Literal["first", "new"], int, datetime]


class SourceChange(TypedDict, total=False):
    """Fields of a source to change. What is missing stays as it is."""

    remote: str
    """A name in the PQ_REMOTES of pqd. A new source needs one, and it stays, as do stream or queue and link, and mode."""
    stream: str
    queue: str
    """Instead of a stream: a queue of another store, with the prefix of its pqd."""
    link: str
    """Of that queue."""
    mode: Literal["copy", "take"]
    """"take" acknowledges the messages; "copy" if never given."""
    filter: Sequence[str]
    """Subjects; all of the stream if empty."""
    start: SourceStart
    """"first" if never given, "new", or the number or the time of a message."""
    map: SourceMap
    """Replaced as a whole."""
    batch: int
    """How many messages, or items, are pushed at a time, at most."""
    paused: bool


@dataclass(frozen=True)
class SourceCounts:
    """What became of the messages of a source."""

    delivered: int = 0
    skipped: int = 0
    poisoned: int = 0


@dataclass(frozen=True)
class Source:
    """It feeds its queue from a JetStream stream, or from a queue of another store by a link of that."""

    name: str
    remote: str
    batch: int
    paused: bool
    state: str
    """"running", "starting", "paused", "blocked", "failing", "no_runner" or "stopped"."""
    seq: int
    """The last message that it is done with, or batch of a link."""
    last: int
    """The last message of the stream."""
    lag: int
    """How many messages are missing to it; of a link how many items are ready there."""
    stream: str = ""
    """"" of a link, as is mode; start is None then."""
    queue: str = ""
    """"" of a stream, as is link."""
    link: str = ""
    mode: str = ""
    start: SourceStart | None = None
    filter: Sequence[str] = ()
    map: SourceMap = field(default_factory=SourceMap)
    """Constants are texts."""
    reason: str = ""
    """Why the state is so."""
    since: datetime | None = None
    time: datetime | None = None
    """Of the message seq."""
    runner: str = ""
    """The bridge that runs it."""
    counts: SourceCounts = field(default_factory=SourceCounts)


def changed_source(change: SourceChange) -> dict[str, Any]:
    """The fields of a change, as JSON has them."""
    if not isinstance(change, Mapping):
        raise TypeError(f"the change is {shown(change)}: expected a mapping such as {{'remote': 'hub', 'stream': 'ORDERS'}}")
    return {name: _field(name, value) for name, value in change.items()}


def _field(name: str, value: Any) -> Any:
    if name == "mode":
        return word(value, name, "copy", "take")
    if name == "start":
        if isinstance(value, datetime):
            return {"time": time_text(value, name)}
        return word(value, name, "first", "new") if isinstance(value, str) else {"seq": count(value, name)}
    if name == "filter" and not isinstance(value, str):
        return list(value)
    if name not in SourceChange.__annotations__:
        raise ValueError(f"a source has no field {shown(name)}: expected {', '.join(SourceChange.__annotations__)}")
    return value


def resumed(from_seq: int | None, from_time: datetime | None, skip: bool, accept: bool) -> dict[str, Any] | None:
    """How a source goes on, as JSON has it."""
    fields: dict[str, Any] = {}
    if from_seq is not None:
        fields["from_seq"] = count(from_seq, "from_seq")
    if from_time is not None:
        fields["from_time"] = time_text(from_time, "from_time")
    if skip:
        fields["skip"] = True
    if accept:
        fields["accept"] = True
    if len(fields) > 1:
        raise ValueError("expected one of from_seq, from_time, skip and accept")
    return fields or None


def source_of(queue: str, s: Any) -> Source:
    """A source as an answer has it."""
    try:
        plain: dict[str, Any] = {name: s[name] for name in ("name", "remote", "batch", "paused", "state", "seq", "last", "lag")}
        more: dict[str, Any] = {name: s[name] for name in ("stream", "queue", "link", "mode", "filter", "map", "reason", "runner") if name in s}
        times: dict[str, Any] = {name: time_of(s[name]) for name in ("since", "time") if name in s}
        start = s.get("start")
        if isinstance(start, dict):
            start = time_of(start["time"]) if "time" in start else int(start["seq"])
        counts = SourceCounts(**{name: int(s["counts"][name]) for name in ("delivered", "skipped", "poisoned")})
        return Source(**plain, **more, **times, start=start, counts=counts)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable("source", queue, str(s).encode(), cause) from cause
