"""Messages of kombu as items: what of a message the queue itself has to know."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from kombu.utils.json import dumps, loads

from .duration import TEN_YEARS
from .item import Item
from .push import NewItem

Message = dict[str, Any]

_MINUTE = timedelta(minutes=1)


def new_item(message: Message, zone: tzinfo, lasts: float | None = None) -> NewItem:
    """The item of a message. An eta becomes the time before which it is not ready, expires its TTL if nobody
    waits for its result, a task's id and content its message id, the header PQ-Cost its cost. zone: of times that have none. lasts: for how many
    seconds it lasts at most."""
    headers: Mapping[str, Any] = message.get("headers") or {}
    properties: Mapping[str, Any] = message["properties"]
    now = datetime.now(timezone.utc)
    latest = now + timedelta(seconds=TEN_YEARS) - _MINUTE
    due = _time(headers.get("eta"), zone)
    task = _task_id(headers)
    return NewItem(
        dumps(message),
        # The queue delivers low priorities first, and RabbitMQ high ones.
        priority=-int(properties.get("priority") or 0),
        unique=task,
        unique_until="leased" if task else None,
        msg_id=_message_id(task, message),
        not_before=min(due, latest) if due and due > now else None,
        cost=headers.get("PQ-Cost"),
        # Who waits for the result of a task learns from a worker that it has expired.
        ttl=_ttl(_time(headers.get("expires"), zone), properties.get("expiration"), now, lasts) if task is None or headers.get("ignore_result") else None,
    )


def _task_id(headers: Mapping[str, Any]) -> str | None:
    task = headers.get("id")
    return task if isinstance(task, str) and "task" in headers and 0 < len(task.encode()) <= 1000 and task.isprintable() and task.strip() == task else None


def _message_id(task: str | None, message: Message) -> str | None:
    """A message that kombu publishes again after an error is the same. A task that is retried or replaced, or a
    signature that is sent again in another place, keeps its id, and is a message of its own."""
    if task is None:
        return None
    said = dumps([message.get("headers"), message.get("body")]).encode()
    return f"{task} {hashlib.blake2b(said, digest_size=9).hexdigest()}"


def _time(text: object, zone: tzinfo) -> datetime | None:
    """A time of a header. Of one that cannot be read the worker says what is wrong with it."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=zone)


def _ttl(expires: datetime | None, expiration: object, now: datetime, most: float | None) -> float | None:
    """A task that has expired already goes to a worker, which says so."""
    lasts = [] if most is None else [most]
    if expires is not None:
        lasts.append((expires - now).total_seconds())
    if expiration is not None:
        lasts.append(float(str(expiration)) / 1000)  # milliseconds, as AMQP has them
    return min(lasts) if lasts and 0 < min(lasts) <= TEN_YEARS else None


def read(data: bytes) -> Message:
    """The message of an item. An error says that the item is none."""
    message = loads(data.decode())
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
        raise ValueError("it is no message of kombu")
    return message


def delivered(item: Item) -> Message:
    """The message of an item as a consumer gets it. The queue has waited for its eta, so the worker must not:
    it would keep the task in memory by its own clock."""
    message = read(item.data)
    properties = message["properties"]
    properties["delivery_tag"] = item.ack_subject
    properties.setdefault("delivery_info", {})["redelivered"] = item.deliveries > 1
    headers = message.get("headers")
    if headers and headers.get("eta") and _over(headers["eta"], item):
        headers["eta"] = None
    return message


def _over(eta: object, item: Item) -> bool:
    """Whether the queue has waited for all of it, and not only for the longest time that it can."""
    due = _time(eta, timezone.utc)
    return due is not None and (item.pushed is None or due - item.pushed < timedelta(seconds=TEN_YEARS) - _MINUTE - timedelta(days=1))
