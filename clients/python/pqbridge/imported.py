"""Imports: an item goes back to where it stood, in a queue of this or of another store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Union

from .call import Call
from .core import Place
from .duration import Duration, duration_text, seconds, time_text
from .errors import unreadable
from .item_data import Death, ItemData
from .mailbox import HeaderList, Request, headers_size
from .pushed import Pushed, pushed
from .subjects import check_id
from .values import MOST_COST, count, headers_of, key_of, payload_of, priority_of


@dataclass(frozen=True)
class Import:
    """An item with its id and its history. of has those of an item that Queue.get has shown."""

    id: str
    payload: Union[str, bytes, bytearray, memoryview]
    priority: int | None = None
    """Another one than the id's if the item was moved."""
    headers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    pushed: datetime | None = None
    """None: now."""
    not_before: datetime | None = None
    expires: datetime | None = None
    key: str | None = None
    key_fence: int = 0
    """Later leases of the key get higher ones."""
    unique: str | None = None
    unique_until: str | None = None
    deliveries: int = 0
    fence: int = 0
    """Later leases of the item get higher ones."""
    dead: Death | None = None
    attempts: Sequence[Mapping[str, Any]] = ()
    """As PQ-Attempts has them, the oldest first."""
    failures: int = 0
    interruptions: int = 0
    returns: int = 0
    result_ttl: Duration = 0
    """For how long the queue keeps what becomes of it; 0: not at all."""
    cost: int = 1
    """Of a delivery."""

    @classmethod
    def of(cls, item: ItemData) -> Import:
        """A leased item becomes ready. Of a header with several values nats-py shows get only the last."""
        return cls(
            id=item.id,
            payload=item.data,
            priority=item.priority,
            headers=item.headers,
            pushed=item.pushed,
            not_before=item.not_before,
            expires=item.expires,
            key=item.key or None,
            key_fence=item.key_fence,
            unique=item.unique or None,
            unique_until=item.unique_until or None,
            deliveries=item.deliveries,
            failures=item.failures,
            interruptions=item.interruptions,
            returns=item.returns,
            fence=item.fence,
            dead=item.dead,
            result_ttl=item.result_ttl,
            cost=item.cost,
        )

    def wire(self) -> tuple[HeaderList, bytes]:
        check_id(self.id)
        found = [("PQ-Id", self.id)]
        if self.priority is not None:
            found.append(("PQ-Priority", str(priority_of(self.priority))))
        if self.key is not None:
            found.append(("PQ-Key", key_of(self.key)))
        dead = self.dead or Death()
        times = {"Nats-Time-Stamp": self.pushed, "PQ-Not-Before": self.not_before, "PQ-Expires": self.expires, "PQ-Dead-At": dead.at}
        found += [(name, time_text(time, name)) for name, time in times.items() if time is not None]
        counts = {"PQ-Failures": self.failures, "PQ-Interruptions": self.interruptions, "PQ-Returns": self.returns, "PQ-Dead-Interruptions": dead.interruptions}
        numbers = counts | {"PQ-Deliveries": self.deliveries, "PQ-Fence": self.fence, "PQ-Key-Fence": self.key_fence, "PQ-Dead-Deliveries": dead.deliveries}
        texts = {"PQ-Unique": self.unique, "PQ-Unique-Until": self.unique_until}
        texts |= {"PQ-Dead-Reason": dead.reason, "PQ-Origin": dead.origin, "PQ-Origin-Id": dead.origin_id}
        found += [(name, str(value)) for name, value in (numbers | texts).items() if value]
        if result_ttl := seconds(self.result_ttl, "result_ttl", zero=True):
            found.append(("PQ-Result-TTL", duration_text(result_ttl)))
        if count(self.cost, "cost", MOST_COST) > 1:
            found.append(("PQ-Cost", str(self.cost)))
        if self.attempts:
            found.append(("PQ-Attempts", json.dumps(list(self.attempts))))
        return HeaderList(found + headers_of(self.headers)), payload_of(self.payload)


async def import_item(queue: Place, item: Import, timeout: Duration | None) -> Pushed:
    headers, payload = item.wire()
    call = Call(Request("import", queue.name, queue.subject("import"), headers, payload))
    m = await queue.client.send(call, len(payload) + headers_size(headers), timeout)
    try:
        answer = json.loads(m.data)
    except ValueError as cause:
        raise unreadable("import", queue.name, m.data, cause) from cause
    return pushed(queue.name, answer, m.data)
