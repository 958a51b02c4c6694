"""Links of a queue: what gives its items to another store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from .duration import shown, time_of
from .errors import unreadable


class LinkChange(TypedDict, total=False):
    """Fields of a link to change. What is missing stays as it is."""

    to: str
    """The store id of the taker, as system of its client shows it. A new link needs one, and it stays."""
    paused: bool


@dataclass(frozen=True)
class Link:
    """It gives the items of its queue to another store."""

    name: str
    to: str
    paused: bool
    state: str
    """"starting", "running" or "paused"."""
    batch: int
    """The number of the last batch; 0: there was none."""
    held: int
    """Items of it that the taker has not confirmed."""
    given: int
    """Items that the taker has confirmed."""
    since: datetime | None = None
    """When the batch was made."""


def changed_link(change: LinkChange) -> dict[str, Any]:
    """The fields of a change, as JSON has them."""
    if not isinstance(change, Mapping):
        raise TypeError(f"the change is {shown(change)}: expected a mapping such as {{'to': 'd9b1c2'}}")
    for name in change:
        if name not in LinkChange.__annotations__:
            raise ValueError(f"a link has no field {shown(name)}: expected {', '.join(LinkChange.__annotations__)}")
    return dict(change)


def link_of(queue: str, found: Any) -> Link:
    """A link as an answer has it."""
    try:
        fields: dict[str, Any] = {name: found[name] for name in ("name", "to", "paused", "state", "batch", "held", "given")}
        return Link(**fields, since=time_of(found["since"]) if "since" in found else None)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise unreadable("link", queue, str(found).encode(), cause) from cause
