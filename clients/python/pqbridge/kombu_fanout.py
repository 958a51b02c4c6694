"""Exchanges over plain NATS: a message reaches the queues that are bound now, and no others.

A message to exchange e with routing key k goes to the subject <prefix>.<e>.<k>, both of them escaped so that
each is one token."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from .flushing import flush
from .kombu_message import Message, read

_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

# How many messages a queue keeps that nobody consumes.
_MOST = 10_000


def _token(name: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode()) or "%"


class Fanout:
    """The bindings of one connection."""

    def __init__(self, nc: Connection, prefix: str) -> None:
        self._nc = nc
        self._prefix = prefix
        self._bound: dict[str, dict[tuple[str, str], Subscription]] = {}
        self._kept: dict[str, deque[Message]] = {}
        self._consumers: dict[str, Callable[[Message], None]] = {}

    def has(self, queue: str) -> bool:
        return queue in self._bound

    async def bind(self, queue: str, exchange: str, key: str, pattern: str | None, every: bool) -> None:
        """From its return on the queue gets what is published with the routing key, or with one that the pattern
        matches; every: with any."""
        bound = self._bound.setdefault(queue, {})
        self._kept.setdefault(queue, deque(maxlen=_MOST))
        if (exchange, key) in bound:
            return
        match = re.compile(pattern).match if pattern and not every else None

        async def receive(m: Msg) -> None:
            try:
                message = read(m.data)
            except ValueError:
                return
            if match is None or match(message["properties"]["delivery_info"].get("routing_key", "")):
                self._receive(queue, message)

        token = "*" if every or match else _token(key)
        bound[exchange, key] = await self._nc.subscribe(f"{self._prefix}.{_token(exchange)}.{token}", cb=receive)
        await flush(self._nc)

    async def publish(self, exchange: str, key: str, payload: bytes, wait: bool) -> None:
        """wait: until the server has it, so that the program may end."""
        await self._nc.publish(f"{self._prefix}.{_token(exchange)}.{_token(key)}", payload)
        if wait:
            await flush(self._nc)

    def _receive(self, queue: str, message: Message) -> None:
        consumer = self._consumers.get(queue)
        if consumer is not None:
            consumer(message)
        elif queue in self._kept:
            self._kept[queue].append(message)

    async def consume(self, queue: str, consumer: Callable[[Message], None] | None) -> None:
        """Hands over what has come and what comes; None: keep it again."""
        if consumer is None:
            self._consumers.pop(queue, None)
            return
        self._consumers[queue] = consumer
        while self._kept.get(queue):
            consumer(self._kept[queue].popleft())

    async def get(self, queue: str) -> Message | None:
        kept = self._kept.get(queue)
        return kept.popleft() if kept else None

    async def clear(self, queue: str) -> int:
        kept = self._kept.get(queue)
        if not kept:
            return 0
        found = len(kept)
        kept.clear()
        return found

    def size(self, queue: str) -> int:
        return len(self._kept.get(queue, ()))

    async def drop(self, queue: str) -> None:
        """The queue ends."""
        self._kept.pop(queue, None)
        self._consumers.pop(queue, None)
        for subscription in self._bound.pop(queue, {}).values():
            await subscription.unsubscribe()
