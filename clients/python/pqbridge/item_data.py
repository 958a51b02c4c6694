"""What an item is, as a bridge answered it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .config import Explain
from .duration import seconds, time_of
from .errors import LeaseLostError


@dataclass
class Death:
    """Why and when an item came to a dead-letter queue, and from which queue."""

    reason: str = ""
    origin: str = ""
    origin_id: str = ""
    at: datetime | None = None
    deliveries: int = 0
    interruptions: int = 0


@dataclass
class Attempt:
    """A lease of an item that ended without success."""

    n: int
    """Goes on when the item becomes a dead letter and is requeued."""
    start: datetime | None
    """None if it is not known."""
    end: datetime
    holder: str
    outcome: str
    """"nak", "expired", "back", "revoked" or "terminated"."""
    reason: str


def attempts_of(shown: Any) -> list[Attempt]:
    """Attempts as answers have them."""
    try:
        return [
            Attempt(int(a["n"]), time_of(a["start"]) if "start" in a else None, time_of(a["end"]), a.get("holder", ""), a["outcome"], a.get("reason", ""))
            for a in shown
        ]
    except (TypeError, KeyError, AttributeError) as cause:
        raise ValueError(f"attempts: {cause!r}") from cause


def duration_of(text: str) -> float:
    return seconds(text, "the duration", zero=True)


_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "PQ-Id": ("id", str),
    "PQ-Priority": ("priority", int),
    "PQ-Key": ("key", str),
    "PQ-Deliveries": ("deliveries", int),
    "PQ-Failures": ("failures", int),
    "PQ-Interruptions": ("interruptions", int),
    "PQ-Returns": ("returns", int),
    "Nats-Time-Stamp": ("pushed", time_of),
    "PQ-Num-Pending": ("pending", int),
    "PQ-Fence": ("fence", int),
    "PQ-Key-Fence": ("key_fence", int),
    "PQ-Lease-Expires": ("lease_expires", time_of),
    "PQ-State": ("state", str),
    "PQ-Held": ("held", lambda text: text == "true"),
    "PQ-Not-Before": ("not_before", time_of),
    "PQ-Expires": ("expires", time_of),
    "PQ-Waits-For": ("waits_for", str),
    "PQ-Key-Ahead": ("key_ahead", int),
    "PQ-Explain": ("explain", json.loads),
    "PQ-Unique": ("unique", str),
    "PQ-Unique-Until": ("unique_until", str),
    "PQ-Result-TTL": ("result_ttl", duration_of),
    "PQ-Cost": ("cost", int),
    "PQ-Backoff": ("backoff", duration_of),
    "PQ-Holder": ("holder", str),
    "PQ-Progress": ("progress", str),
    "PQ-Progress-At": ("progress_at", time_of),
    "PQ-Schedule": ("schedule", str),
    "PQ-Scheduled-At": ("scheduled_at", time_of),
}

_DEATH: dict[str, tuple[str, Callable[[str], Any]]] = {
    "PQ-Dead-Reason": ("reason", str),
    "PQ-Origin": ("origin", str),
    "PQ-Origin-Id": ("origin_id", str),
    "PQ-Dead-At": ("at", time_of),
    "PQ-Dead-Deliveries": ("deliveries", int),
    "PQ-Dead-Interruptions": ("interruptions", int),
}


_NEEDED = ("PQ-Id", "PQ-Priority", "PQ-Deliveries", "PQ-Fence", "PQ-Key-Fence", "PQ-Lease-Expires")
"""They say which item it is, and what its lease is."""


@dataclass
class ItemSource:
    """The message of which a source has made an item."""

    name: str = ""
    """Of the source."""
    subject: str = ""
    seq: int = 0
    """In the stream."""
    time: datetime | None = None
    msg_id: str = ""
    """Its Nats-Msg-Id, "" if it had none."""
    id: str = ""
    """That of an item which came by a link, "" otherwise."""


_SOURCE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "PQ-Source": ("name", str),
    "PQ-Source-Subject": ("subject", str),
    "PQ-Source-Seq": ("seq", int),
    "PQ-Source-Time": ("time", time_of),
    "PQ-Source-Msg-Id": ("msg_id", str),
    "PQ-Source-Id": ("id", str),
}


class ItemData:
    def __init__(self, queue: str, ack_subject: str) -> None:
        self._settled = False
        self.loss: LeaseLostError | None = None
        """Why its lease was lost while it was kept: an ItemCancelledError, if somebody has cancelled it."""
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
        """How often it was handed out, this time included: who finds more than 1 is perhaps not the first to begin with it."""
        self.failures = 0
        """How many of its leases ended by a nak."""
        self.interruptions = 0
        """How many ran out: their workers said nothing."""
        self.returns = 0
        """How many were given back, or revoked: they count towards nothing."""
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
        self.backoff = 0.0
        """How long a leased item stays away if a plain nak gives it back now, in seconds; 0: the queue has no backoff."""
        self.progress = ""
        """What the last holder that said anything has said of how far it is, with report: a worker goes on from there. "": none
        has, or the item leaves no room for it in a message."""
        self.progress_at: datetime | None = None
        self.result_ttl = 0.0
        """For how long the queue keeps what becomes of the item, in seconds; 0: its push did not ask for that, so a result
        would be dropped."""
        self.cost = 1
        """How much a delivery of the item takes of the cost_rate of its queue and of its key, by the word of its push."""
        self.schedule = ""
        """The schedule that has pushed the item, "" if none has."""
        self.scheduled_at: datetime | None = None
        """The time for which it did."""
        self.source: ItemSource | None = None
        """The message of a stream of which a source has made it."""
        self.dead: Death | None = None
        """Of items of a dead-letter queue."""

        # Set by get only.
        self.state = ""
        """"ready", "leased" or "delayed"."""
        self.held = False
        """Leased without an end, by a link."""
        self.not_before: datetime | None = None
        self.expires: datetime | None = None
        self.waits_for = ""
        """What keeps the item from being handed out."""
        self.key_ahead = 0
        """How many ready items of its key are handed out before it, up to 10,000."""
        self.explain: Explain | None = None
        """Why the item is not handed out; of get with explain."""
        self.unique = ""
        self.unique_until = ""
        self.holder = ""
        """What the holder of the item's lease calls itself, "" if that is not known."""
        self.attempts = 0
        """The number of the last lease that ended without success."""
        self.last_attempts: list[Attempt] = []
        """Those leases that the item remembers, the oldest first; of get with attempts."""

    def read_header(self, name: str, values: list[str]) -> None:
        """A header that only informs is as one that is not there when it cannot be read: it must not cost the item."""
        try:
            self._read_header(name, values)
        except ValueError:
            if name in _NEEDED:
                raise

    def _read_header(self, name: str, values: list[str]) -> None:
        of: ItemData | Death | ItemSource = self
        field = _FIELDS.get(name)
        if field is None and name in _DEATH:
            of = self.dead = self.dead or Death()
            field = _DEATH[name]
        if field is None and name in _SOURCE:
            of = self.source = self.source or ItemSource()
            field = _SOURCE[name]
        if name == "PQ-Attempts" and len(values) == 1:
            if values[0].startswith("["):
                self.last_attempts = attempts_of(json.loads(values[0]))
            self.attempts = self.last_attempts[-1].n if self.last_attempts else int(values[0])
            return
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
