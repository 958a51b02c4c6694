"""Pushes: what an item is, as headers and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict, Union

from .bundle import MOST_ITEMS, bundle
from .call import Call
from .core import Place
from .duration import Duration, duration_text, seconds, shown, time_text
from .mailbox import Request, headers_size, random_token
from .push_lane import Push
from .pushed import Pushed, answer_of, items_of, pushed
from .values import MOST_COST, count, header_text, headers_of, key_of, payload_of, priority_of, word

_MOST_WEIGHT = 1000
_LONGEST_VALUE = 1024
_LONGEST_RESULT = 168 * 3600.0


@dataclass(frozen=True)
class NewItem:
    """An item on its way."""

    payload: Union[str, bytes, bytearray, memoryview]
    priority: int | None = None
    """Low ones are first at the end "min". Without it the item gets the queue's default."""
    headers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Headers that stay with the item."""
    key: str | None = None
    """Whose item it is. The queue's configuration says what follows."""
    weight: int | None = None
    """The share of its key where keys take turns, 1 to 1000. Without it the push changes nothing."""
    unique: str | None = None
    """A value that one item of the queue has at a time."""
    unique_until: Literal["leased"] | None = None
    """"leased": the item has its unique value only until it is leased first."""
    on_conflict: Literal["keep", "replace", "raise"] | None = None
    """What the push does if an item has the unique value; "keep" if not given."""
    msg_id: str | None = None
    """Of all pushes with this id within the queue's dedup_window only the first one adds an item. Without
    it the client makes a random one, so that a repetition after a lost answer is no second item."""
    without_msg_id: bool = False
    """Push without an id. Then the client does not repeat a push without an answer, which fails with
    UnknownResultError."""
    delay: Duration | None = None
    """The item is not ready before this time has passed."""
    not_before: datetime | None = None
    """The item is not ready before this time, by the bridge's clock."""
    ttl: Duration | None = None
    """The item expires unless it is popped within this time."""
    result_ttl: Duration | None = None
    """The queue keeps what becomes of the item for this time at least, up to 168h; it rounds up to 1m, 10m, 1h, 6h, 24h
    or 168h. Without it the queue keeps nothing."""
    cost: int | None = None
    """How much each delivery takes of the cost_rate of the queue and of its key, 1 to 1,000,000; without it 1. It may be a
    guess: see Item.spent."""

    def wire(self) -> tuple[list[tuple[str, str]], bytes]:
        """Its headers, without priority and id, and its payload. An error says what is wrong with it."""
        found: list[tuple[str, str]] = []
        if self.priority is not None:
            priority_of(self.priority)
        if self.msg_id is not None:
            header_text(self.msg_id, "msg_id", _LONGEST_VALUE)
            if self.without_msg_id:
                raise ValueError("msg_id together with without_msg_id: expected one of them")
        if self.key is not None:
            found.append(("PQ-Key", key_of(self.key)))
        if self.weight is not None:
            if self.key is None:
                raise ValueError("weight without key: expected the key whose weight it is")
            found.append(("PQ-Weight", str(count(self.weight, "weight", _MOST_WEIGHT))))
        if self.unique is not None:
            found.append(("PQ-Unique", header_text(self.unique, "unique", _LONGEST_VALUE)))
        elif self.unique_until is not None or self.on_conflict is not None:
            raise ValueError("unique_until or on_conflict without unique: expected the value that they are about")
        if self.unique_until is not None:
            found.append(("PQ-Unique-Until", word(self.unique_until, "unique_until", "leased")))
        if self.on_conflict is not None:
            found.append(("PQ-On-Conflict", word(self.on_conflict, "on_conflict", "keep", "replace", "raise")))
        if self.delay is not None:
            if self.not_before is not None:
                raise ValueError("delay together with not_before: expected one of them")
            found.append(("PQ-Delay", duration_text(seconds(self.delay, "delay", zero=True))))
        if self.not_before is not None:
            found.append(("PQ-Not-Before", time_text(self.not_before, "not_before")))
        if self.ttl is not None:
            found.append(("PQ-TTL", duration_text(seconds(self.ttl, "ttl"))))
        if self.result_ttl is not None:
            found.append(("PQ-Result-TTL", duration_text(seconds(self.result_ttl, "result_ttl", most=_LONGEST_RESULT))))
        if self.cost is not None:
            found.append(("PQ-Cost", str(count(self.cost, "cost", MOST_COST))))
        if self.headers:
            found += headers_of(self.headers)
        return found, payload_of(self.payload)


class PushOptions(TypedDict, total=False):
    """The arguments of Queue.push behind the payload. NewItem says what they mean."""

    json: Any
    priority: int | None
    headers: Mapping[str, str | Sequence[str]] | None
    key: str | None
    weight: int | None
    unique: str | None
    unique_until: Literal["leased"] | None
    on_conflict: Literal["keep", "replace", "raise"] | None
    msg_id: str | None
    without_msg_id: bool
    delay: Duration | None
    not_before: datetime | None
    ttl: Duration | None
    result_ttl: Duration | None
    cost: int | None
    timeout: Duration | None


async def push(queue: Place, given: NewItem | str | bytes, timeout: Duration | None, settle: str | None = None) -> Pushed:
    """Pushes an item. settle: the ack subject of an item that the push acknowledges."""
    item = given if isinstance(given, NewItem) else NewItem(given)
    headers, payload = item.wire()
    if settle is not None:
        headers.append(("PQ-Settle", settle))
    made = item.msg_id is None and not item.without_msg_id  # a random id, so that a repetition is no second item
    id = random_token() if made else item.msg_id
    if id is not None:
        headers.append(("Nats-Msg-Id", id))
    one = Push(queue, item.priority, headers, payload, id)
    deadline = queue.client.deadline(timeout)
    await queue.client.make_room(one.request, one.bytes, deadline)
    try:
        landed = await (one.go(deadline) if settle is None else one.by_itself(deadline))
    finally:
        queue.client.free_room(one.bytes)
    if landed.error is not None:
        raise landed.error
    found, body = landed.answer
    own = made and (landed.again or item.unique is None)
    return pushed(queue.name, answer_of(queue.name, body) if found is None else found, body, own)


async def push_many(queue: Place, given: Sequence[NewItem | str | bytes], timeout: Duration | None) -> list[Pushed]:
    """Pushes many items in one message."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"the items are {shown(given)}: expected a list of items")
    if not given:
        return []
    if len(given) > MOST_ITEMS:
        raise ValueError(f"{len(given)} items: expected at most {MOST_ITEMS}")
    items = [one if isinstance(one, NewItem) else NewItem(one) for one in given]
    frames = []
    for i, item in enumerate(items):
        try:
            headers, payload = item.wire()
        except (TypeError, ValueError) as err:
            raise type(err)(f"item {i}: {err}") from None
        if item.priority is not None:
            headers.append(("PQ-Priority", str(item.priority)))
        if item.msg_id is not None:
            headers.append(("Nats-Msg-Id", item.msg_id))
        frames.append((headers, payload))
    # With an id of its own an item needs none of the bundle. Where one is to have none, a repetition
    # might add it twice.
    repeatable = not any(item.without_msg_id for item in items)
    made = repeatable and any(item.msg_id is None for item in items)
    about = {"PQ-Bundle": str(len(items)), **({"Nats-Msg-Id": random_token()} if made else {})}
    body = bundle(frames)
    call = Call(Request("push", queue.name, queue.subject("push"), about, body), repeatable)
    m = await queue.client.send(call, len(body) + headers_size(about), timeout)
    results = items_of(queue.name, m.data, len(items))
    queue.client.lanes.learn("push", queue.name, True)
    return [pushed(queue.name, one, m.data, made and call.sent > 1) for one in results]
