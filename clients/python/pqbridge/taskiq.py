"""A broker for taskiq."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage, Context, TaskiqMessage

from .client import Client, connect
from .duration import Duration, seconds
from .intake import Intake
from .item import Item
from .options import ConnectOptions
from .supply import DEFAULT_LEASE
from .taking import LONGEST_LEASE
from .values import MOST_COST, count

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Broker", "spent"]


class Broker(AsyncBroker):
    """Tasks are items of a queue. A task's labels say more of it: priority, of which higher ones are first, as
    on RabbitMQ; delay and ttl, durations; cost, of each delivery: see also spent.

    A worker leases a task and extends the lease until taskiq acknowledges it; lease: for how long a worker
    that has died keeps its tasks. Other arguments are those of pqbridge.connect."""

    def __init__(self, servers: str | list[str] | None = None, *, queue: str = "taskiq", lease: Duration = DEFAULT_LEASE, **options: Unpack[ConnectOptions]) -> None:
        super().__init__()
        self._servers = servers
        self._name = queue
        self._lease = seconds(lease, "lease", most=LONGEST_LEASE)
        self._options: ConnectOptions = options
        self._client: Client | None = None
        self._intakes: list[Intake] = []

    @property
    def client(self) -> Client:
        if self._client is None:
            raise RuntimeError("the broker has no connection: expected await broker.startup()")
        return self._client

    async def startup(self) -> None:
        if self._client is None:
            self._client = await connect(self._servers, **self._options)
        await super().startup()

    async def shutdown(self) -> None:
        """Tasks that were not acknowledged go to other workers."""
        await super().shutdown()
        for intake in self._intakes:
            await intake.close()
        self._intakes = []
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def kick(self, message: BrokerMessage) -> None:
        labels = message.labels
        delay = labels.get("delay")
        await self.client.queue(self._name).push(
            message.message,
            priority=-int(labels.get("priority") or 0),
            msg_id=_attempt(message.task_id, labels),
            delay=_duration(delay) if delay else None,
            ttl=_duration(labels["ttl"]) if labels.get("ttl") else None,
            cost=int(labels["cost"]) if labels.get("cost") is not None else None,
        )

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        arrived: asyncio.Queue[Item] = asyncio.Queue()
        intake = Intake(self.client, self._lease, lambda name, item: arrived.put_nowait(item))
        self._intakes.append(intake)
        intake.consume(self._name, self._name)
        while True:
            item = await arrived.get()
            yield AckableMessage(data=item.data, ack=partial(_acknowledge, intake, item))
            intake.seen()  # taskiq asks for another one when it has room for it

    @property
    def listens(self) -> bool:
        return bool(self._intakes)

    def held(self, message: TaskiqMessage) -> Item | None:
        """The item of a task that runs here, until it is acknowledged."""
        for intake in self._intakes:
            for item in intake.held():
                try:
                    task = self.formatter.loads(message=item.data)
                except Exception:
                    continue  # it is no task
                if _attempt(task.task_id, task.labels) == _attempt(message.task_id, message.labels):
                    return item
        return None


def spent(context: Context, cost: int) -> None:
    """Says in a task what this delivery has really cost so far, 0 to 1,000,000, where the label cost was a guess: see
    pqbridge.Item.spent. context: that of the task, which TaskiqDepends() has. With another broker it does nothing."""
    count(cost, "the cost", MOST_COST, 0)
    if not isinstance(context.broker, Broker):
        return
    item = context.broker.held(context.message)
    if item is not None:
        item.spent(cost)
    elif context.broker.listens:
        raise RuntimeError(f"the task {context.message.task_name} is acknowledged, and cannot say what it has cost: expected ack_type when_executed or when_saved")


async def _acknowledge(intake: Intake, item: Item) -> None:
    done = intake.settle(item.ack_subject, Item.ack)
    if done is not None:
        await asyncio.shield(done)


def _attempt(task: str, labels: dict[str, Any]) -> str:
    """The id of a message. A task that is retried, or requeued by its context, keeps its id, and is a message of its own."""
    again, requeued = (int(labels.get(name) or 0) for name in ("_retries", "X-Taskiq-requeue"))
    return task + (f" {again}" if again else "") + (f" requeued {requeued}" if requeued else "")


def _duration(label: Any) -> Duration:
    """taskiq may hand over numbers as texts."""
    try:
        return float(label)
    except (TypeError, ValueError):
        found: Duration = label
        return found
