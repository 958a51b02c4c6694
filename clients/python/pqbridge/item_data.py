"""What an item is, as a bridge answered it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .duration import time_of


@dataclass
class Death:
    """Why and when an item came to a dead-letter queue, and from which queue."""

    reason: str = ""
    origin: str = ""
    origin_id: str = ""
    at: datetime | None = None
    deliveries: int = 0


_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "PQ-Id": ("id", str),
    "PQ-Priority": ("priority", int),
    "PQ-Key": ("key", str),
    "PQ-Deliveries": ("deliveries", int),
    "Nats-Time-Stamp": ("pushed", time_of),
    "PQ-Num-Pending": ("pending", int),
    "PQ-Fence": ("fence", int),
    "PQ-Key-Fence": ("key_fence", int),
    "PQ-Lease-Expires": ("lease_expires", time_of),
    "PQ-State": ("state", str),
    "PQ-Not-Before": ("not_before", time_of),
    "PQ-Expires": ("expires", time_of),
    "PQ-Waits-For": ("waits_for", str),
    "PQ-Key-Ahead": ("key_ahead", int),
    "PQ-Unique": ("unique", str),
    "PQ-Unique-Until": ("unique_until", str),
}

_DEATH: dict[str, tuple[str, Callable[[str], Any]]] = {
    "PQ-Dead-Reason": ("reason", str),
    "PQ-Origin": ("origin", str),
    "PQ-Origin-Id": ("origin_id", str),
    "PQ-Dead-At": ("at", time_of),
    "PQ-Dead-Deliveries": ("deliveries", int),
}


class ItemData:
    def __init__(self, queue: str, ack_subject: str) -> None:
        self._settled = False
        self.ack_subject = ack_subject
        """The subject that settles the lease, "" without one. Another program can settle with attach."""
        self.queue = queue
        self.id = ""
        self.priority = 0
        self.key = ""
        """"" is none."""
        self.data = b""
        """The payload."""
        self.headers: dict[str, list[str]] = {}
        """As it was pushed. Of a header with several values nats-py shows the last, unless the item came
        in a bundle, as those of pop_many do."""
        self.deliveries = 0
        """How often it was leased, this time included."""
        self.pushed: datetime | None = None
        self.pending = 0
        """Ready items behind it."""
        self.fence = 0
        """Grows with every lease of the item. A system that the work writes to can refuse a lower one."""
        self.key_fence = 0
        """Grows with every lease of all items of the key, where one is leased at a time; otherwise 0."""
        self.lease_expires: datetime | None = None
        """By the bridge's clock. An extension changes it."""
        self.lease_term = 0.0
        """How long the lease was asked for, in seconds; 0: the queue decides."""
        self.dead: Death | None = None
        """Of items of a dead-letter queue."""

        # Set by get only.
        self.state = ""
        """"ready", "leased" or "delayed"."""
        self.not_before: datetime | None = None
        self.expires: datetime | None = None
        self.waits_for = ""
        """What keeps the item from being handed out."""
        self.key_ahead = 0
        """How many ready items of its key are handed out before it, up to 10,000."""
        self.unique = ""
        self.unique_until = ""

    def read_header(self, name: str, values: list[str]) -> None:
        of: ItemData | Death = self
        field = _FIELDS.get(name)
        if field is None and name in _DEATH:
            of = self.dead = self.dead or Death()
            field = _DEATH[name]
        if field is None:
            if not name.startswith("PQ-"):  # a later version's
                self.headers[name] = values
            return
        if len(values) != 1:
            raise ValueError(f"header {name} occurs {len(values)} times: expected once")
        setattr(of, field[0], field[1](values[0]))

    def __repr__(self) -> str:
        return f"<Item {self.id} of {self.queue}, priority {self.priority}>"

    @property
    def leased(self) -> bool:
        return self.ack_subject != ""

    @property
    def settled(self) -> bool:
        """Whether this object has settled its lease."""
        return self._settled

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.data.decode()

    def json(self) -> Any:
        """The payload as JSON."""
        return json.loads(self.data)
