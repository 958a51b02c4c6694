"""A channel of kombu. Messages to the default exchange, and those of durable queues, are items of queues; what is
bound to an exchange until its consumer ends gets its messages over plain NATS."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from queue import Empty
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ConnectionError as KombuConnectionError
from kombu.transport import base, virtual
from kombu.utils.json import dumps

from . import background, kombu_celery, kombu_settings, kombu_spent
from .duration import TEN_YEARS
from .errors import EmptyError, ForbiddenError, LeaseLostError, NotFoundError, PQError
from .item import Item
from .intake import Intake, unworked
from .kombu_message import Message, delivered, new_item
from .push import push
from .queue import Queue
from .take import take
from .taking import Selection

_VALID = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,58}")
_INVALID = re.compile(r"[^A-Za-z0-9-]+")


def queue_name(name: str) -> str:
    """The queue's name in pqd. A name that is none there becomes a similar one, and never that of another queue."""
    if _VALID.fullmatch(name):
        return name
    return f"{_INVALID.sub('-', name)[:42]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class Channel(virtual.Channel):
    supports_fanout = True
    do_restore = False
    body_encoding = None
    closed: bool
    exchange_types: Any

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._pq = connection.pq
        self._fanout = connection.fanout
        self._ours = connection.ours
        self._lease: float = connection.lease
        self._settings: kombu_settings.Settings = connection.settings
        self._intake = Intake(self._pq, self._lease, self._arrive)
        kombu_spent.listen(self._intake)
        self._consuming: dict[str, tuple[str, bool, Callable[[Any], object]]] = {}
        self._transient: set[str] = connection.transient

    def encode_body(self, body: Any, encoding: str | None = None) -> Any:
        """Texts stay readable."""
        if isinstance(body, str) and encoding is None:
            return body, None
        return super().encode_body(body, encoding or "base64")

    # Declarations.

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> Any:
        return base.to_rabbitmq_queue_arguments(arguments or {}, **kwargs)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """A queue need not exist. What is declared as one that ends with its consumer ends so."""
        found: Any = super().queue_declare(queue, passive, **kwargs)
        return queue_declare_ok_t(found.queue, found.message_count, 0)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        if self._fanout.has(queue) or queue in self.connection.declared:
            return True
        try:
            background.run(self._queue(queue).info())
            return True
        except ForbiddenError:
            return True  # who may not look takes it for there
        except NotFoundError:
            return False

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        ends = bool(kwargs.get("auto_delete") or kwargs.get("exclusive"))
        # Workers send results when the program has ended, and would make its queue again. So it stays, and ends by itself.
        replies = ends and queue not in self._transient and kombu_celery.is_reply_queue(queue)
        (self.connection.replies if replies else self.connection.declared).add(queue)
        if ends and not replies:
            self._transient.add(queue)
        change = kombu_settings.settings(kwargs.get("arguments") or {}, replies)
        if change and not kombu_celery.is_fanned_out(queue):
            self._settings.declare(self._queue(queue), change, replies)

    def _queue_bind(self, exchange: str, key: str, pattern: str | None, queue: str) -> None:
        if queue in self.connection.replies:  # results come without an exchange: the name only looks like that of their queue
            self.connection.replies.discard(queue)
            self.connection.declared.add(queue)
            self._transient.add(queue)
            self._settings.forget(queue_name(queue))
        if queue in self._transient:
            kind = self.state.exchanges[exchange]["type"]
            background.run(self._fanout.bind(queue, exchange, key or "", pattern, kind == "fanout"))

    def queue_unbind(self, queue: str, exchange: str | None = None, routing_key: str = "", arguments: Any = None, **kwargs: Any) -> None:
        super().queue_unbind(queue, exchange, routing_key, arguments, **kwargs)
        if not any(self.state.queue_bindings(queue)):
            background.run(self._fanout.drop(queue))

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        if if_empty and self._size(queue):
            return
        self._settings.forget(queue_name(queue))
        if self._fanout.has(queue):
            background.run(self._fanout.drop(queue))
        elif not kombu_celery.is_fanned_out(queue):
            self._delete(queue)
        for table in [exchange["table"] for exchange in self.state.exchanges.values()]:
            table[:] = [bound for bound in table if bound[2] != queue]
        self.state.queue_bindings_delete(queue)
        self.connection.declared.discard(queue)
        self.connection.replies.discard(queue)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        try:
            background.run(self._queue(queue).delete())
        except NotFoundError:
            pass

    def _purge(self, queue: str) -> int:
        if self._fanout.has(queue):
            return int(background.run(self._fanout.clear(queue)))
        try:
            return background.run(self._queue(queue).purge())
        except NotFoundError:
            return 0

    def _size(self, queue: str) -> int:
        """Ready messages, 0 if the user may not look."""
        if self._fanout.has(queue):
            return int(self._fanout.size(queue))
        try:
            return int(background.run(self._queue(queue).info())["ready"])
        except (ForbiddenError, NotFoundError):
            return 0

    def _queue(self, name: str) -> Queue:
        queue: Queue = self._pq.queue(queue_name(name))
        return queue

    # Publishing.

    def basic_publish(self, message: Message, exchange: str, routing_key: str, **kwargs: Any) -> None:
        if not self._ours():
            raise KombuConnectionError("the connection to NATS was made in another process, before a fork")
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            return self._put(routing_key, message)
        kind = self.state.exchanges.get(exchange, {}).get("type", "direct")
        for queue in self._durable(kind, exchange, routing_key):
            self._put(queue, message)
        background.run(self._fanout.publish(exchange, routing_key or "", dumps(message).encode(), kind != "topic"))
        if kind == "fanout" and exchange.endswith(".pidbox"):
            self._remove_revoked(message)

    def _durable(self, kind: str, exchange: str, key: str) -> list[str]:
        """The queues with items that the exchange has for a routing key."""
        try:
            table = self.get_table(exchange)
        except KeyError:
            return []
        found = {bound[2] for bound in table} if kind == "fanout" else set(self.exchange_types[kind].lookup(table, exchange, key, None) or ())
        return sorted(queue for queue in found if queue not in self._transient)

    def _put(self, queue: str, message: Message, **kwargs: Any) -> None:
        place, lasts = self._queue(queue), None
        if kombu_celery.is_result(queue, message):
            lasts = self._settings.result_ttl(place, kombu_celery.result_expires())
        background.run(push(place, new_item(message, kombu_celery.zone(), lasts), None))

    def _put_fanout(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError  # basic_publish does it

    def _remove_revoked(self, control: Message) -> None:
        """A task that is revoked while it waits leaves its queue, as soon as the workers know."""
        for task in kombu_celery.revoked(control):
            for queue in sorted(self.connection.declared | kombu_celery.queues()):
                if queue not in self._transient and not self._fanout.has(queue):
                    item = background.run(self._remove_task(self._queue(queue), task))
                    if item is not None:
                        kombu_celery.mark_revoked(task, delivered(item))

    async def _remove_task(self, queue: Queue, task: str) -> Item | None:
        """Another push of its id says where it is; one that finds none adds an item that nobody gets."""
        try:
            await queue.info()  # so that none is made
            found = await queue.push(b"-", unique=task, delay=TEN_YEARS, ttl=1)
            item = await queue.get(found.id) if found.duplicate else None
            await queue.remove(found.id)
        except PQError:
            return None  # the workers know it
        return item

    # Consuming.

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        background.loop().call_soon_threadsafe(self._intake.prefetch, prefetch_count)

    def basic_consume(self, queue: str, no_ack: bool, callback: Callable[[Any], object], consumer_tag: str, **kwargs: Any) -> None:
        self._consuming[consumer_tag] = queue, no_ack, callback
        self._consumers.add(consumer_tag)
        if self._fanout.has(queue):
            background.run(self._fanout.consume(queue, lambda message: self._arrive_over_nats(queue, message)))
        if self._has_items(queue):
            background.loop().call_soon_threadsafe(self._intake.consume, queue, queue_name(queue))

    def _has_items(self, queue: str) -> bool:
        """Whether it may have items: those of a fan-out, and of a topic until its consumer ends, have none."""
        bound = [self.state.exchanges[key.exchange]["type"] for key in self.state.queue_index.get(queue, ())]
        return queue not in self._transient or not bound or "direct" in bound and not kombu_celery.is_fanned_out(queue)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue, _, _ = self._consuming.pop(consumer_tag, ("", False, None))
        self._consumers.discard(consumer_tag)
        if not queue or not self._ours() or any(other == queue for other, _, _ in self._consuming.values()):
            return
        background.loop().call_soon_threadsafe(self._intake.cancel, queue)
        if self._fanout.has(queue):
            background.run(self._fanout.consume(queue, None))
            if queue in self._transient:
                background.run(self._fanout.drop(queue))
        elif queue in self._transient:
            self.queue_delete(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        if self._fanout.has(queue):
            message = background.run(self._fanout.get(queue))
            return None if message is None else self.Message(message, channel=self)
        try:
            item = background.run(self._pop(queue))
        except EmptyError:
            return None
        found = self.Message(delivered(item), channel=self)
        if no_ack:
            self._settle(item.ack_subject, Item.ack)
        return found

    async def _pop(self, queue: str) -> Item:
        [item] = await take(self._queue(queue), "pop", "min", Selection(lease=self._lease))
        self._intake.hold(item)
        return item

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        self._settle(delivery_tag, Item.ack)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """What is not requeued becomes a dead letter."""
        self._settle(delivery_tag, _requeue if requeue else _reject)

    def basic_recover(self, requeue: bool = False) -> None:
        if not requeue:
            raise NotImplementedError("recover without requeue: expected requeue=True")
        if self._ours():
            background.loop().call_soon_threadsafe(self._intake.give_back_all)

    def _settle(self, tag: str, what: Any) -> None:
        if self._ours():
            background.loop().call_soon_threadsafe(self._settle_held, tag, what)

    def _settle_held(self, tag: str, what: Any) -> None:
        kombu_spent.hear()
        self._intake.settle(tag, what)

    def _arrive(self, queue: str, item: Item) -> None:
        self.connection.arrive(lambda: self._deliver_item(queue, item))

    def _arrive_over_nats(self, queue: str, message: Message) -> None:
        self.connection.arrive(lambda: self._deliver(queue, message))

    def _deliver_item(self, queue: str, item: Item) -> bool:
        """In the program's thread."""
        if self._intake.counts:
            background.loop().call_soon_threadsafe(self._intake.seen)
        try:
            message = delivered(item)
        except ValueError:
            self._settle(item.ack_subject, _not_kombu)
            return True
        if self._deliver(queue, message):
            return True
        self._settle(item.ack_subject, unworked)
        return False

    def _deliver(self, queue: str, message: Message) -> bool:
        for name, no_ack, callback in list(self._consuming.values()):
            if name == queue:
                if no_ack:
                    self._settle(message["properties"]["delivery_tag"], Item.ack)
                callback(self.Message(message, channel=self))
                return True
        return False

    def drain_events(self, timeout: float | None = None, callback: Any = None) -> None:
        raise Empty  # the transport has what arrives

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._ours():
            for tag in list(self._consumers):
                try:
                    self.basic_cancel(tag)
                except (PQError, OSError):
                    pass  # there is no connection
            background.run(self._intake.close())
        if self.connection is not None:
            self.connection.close_channel(self)
        self.exchange_types = None


async def _requeue(item: Item) -> None:
    """A task that is requeued has failed. A result was looked at, as Celery does with each progress."""
    await (unworked(item) if kombu_celery.is_reply_queue(item.queue) else item.nak())


async def _reject(item: Item) -> None:
    try:
        await item.term("rejected")
    except LeaseLostError:
        raise
    except PQError as err:
        if err.code != 403:
            raise
        await item.ack()  # there is no queue for dead letters


async def _not_kombu(item: Item) -> None:
    await item.term("it is no message of kombu")
