"""taskiq on pqd."""

from __future__ import annotations

import asyncio
from typing import Annotated

from taskiq import Context, InMemoryBroker, SimpleRetryMiddleware, TaskiqDepends
from taskiq.api import run_receiver_task
from taskiq.brokers.inmemory_broker import InmemoryResultBackend
from taskiq.exceptions import SendTaskError
from taskiq.kicker import AsyncKicker

from pqbridge.taskiq import Broker, spent
from world import PATIENCE, SLOW, URL, TestCase, fresh


class Taskiq(TestCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.name = fresh("taskiq")
        self.pq = self.client.queue(self.name)
        self.started: list[str] = []
        self.gate = asyncio.Event()
        self.broker = await self.another()

    async def another(self, lease: float = PATIENCE) -> Broker:
        """A broker as another process has it."""
        broker = Broker(URL, queue=self.name, lease=lease, timeout=PATIENCE)
        broker.add_middlewares(SimpleRetryMiddleware(default_retry_count=3))
        await broker.startup()
        self.addAsyncCleanup(broker.shutdown)
        return broker

    def work(self, broker: Broker, most: int = 100) -> asyncio.Task[None]:
        @broker.task(task_name="note")
        async def note(name: str) -> None:
            self.started.append(name)

        @broker.task(task_name="wait")
        async def wait(name: str) -> None:
            self.started.append(name)
            await self.gate.wait()

        @broker.task(task_name="fail", retry_on_error=True)
        async def fail(name: str) -> None:
            self.started.append(name)
            if len(self.started) < 3:
                raise ValueError(name)

        worker = asyncio.create_task(run_receiver_task(broker, max_async_tasks=most))
        self.addCleanup(worker.cancel)
        return worker

    async def send(self, task: str, *args: object, **labels: object) -> None:
        await AsyncKicker(task, self.broker, dict(labels)).kiq(*args)  # type: ignore[call-overload]

    async def left(self) -> int:
        info = await self.pq.info()
        return info["ready"] + info["leased"] + info["delayed"]

    async def empty(self) -> bool:
        return await self.left() == 0

    async def test_order_and_delay(self) -> None:
        await self.send("note", "late", delay=0.3, priority=9)
        await self.send("note", "low", priority=1)
        await self.send("note", "none")
        await self.send("note", "high", priority=5)
        await self.send("note", "gone", ttl=0.001)
        self.work(self.broker, most=1)
        await self.until("all are done", self.empty)
        self.assertEqual(sorted(self.started, key=["high", "low", "none", "late"].index), ["high", "low", "none", "late"])
        self.assertEqual([name for name in self.started if name != "late"], ["high", "low", "none"])

    async def test_a_long_task_runs_once(self) -> None:
        lease = SLOW  # longer on a machine that has much else to do
        self.work(await self.another(lease))
        await self.send("wait", "long")

        async def old() -> bool:
            return (await self.pq.info())["oldest_lease"] > 2 * lease

        await self.until("it has run for two leases", old)
        self.gate.set()
        await self.until("it is acknowledged", self.empty)
        self.assertEqual(self.started, ["long"])

    async def test_retries(self) -> None:
        self.work(self.broker)
        await self.send("fail", "again", retry_on_error=True, max_retries=3)
        await self.until("it is done", self.empty)
        self.assertEqual(self.started, ["again"] * 3)

    async def test_cost(self) -> None:
        """A label says it, and the task what it has really cost: in the loop or in a thread, however it ends, each attempt for itself."""
        await self.pq.configure({"cost_rate": "1000000/24h"})

        @self.broker.task(task_name="costs")
        async def costs(cost: int, context: Annotated[Context, TaskiqDepends()]) -> None:
            spent(context, cost + 1)
            spent(context, cost)

        @self.broker.task(task_name="in a thread")
        def in_a_thread(cost: int, context: Annotated[Context, TaskiqDepends()]) -> None:
            spent(context, cost)

        @self.broker.task(task_name="costs again", retry_on_error=True)
        async def costs_again(context: Annotated[Context, TaskiqDepends()]) -> None:
            again = int(context.message.labels.get("_retries") or 0)
            spent(context, 5 + again)
            if not again:
                raise ValueError

        @self.broker.task(task_name="together")
        async def together(cost: int, context: Annotated[Context, TaskiqDepends()]) -> None:
            self.started.append("together")
            if len(self.started) == 2:
                self.gate.set()
            await self.gate.wait()
            spent(context, cost)

        async def cost(reserved: int, spent: int) -> None:
            async def is_so() -> bool:
                return (await self.pq.info()).get("cost") == {"reserved": reserved, "spent": spent}

            await self.until(f"{reserved} are reserved, {spent} spent", is_so)

        await self.pq.push("it is no task")
        strange = await self.pq.pop(lease=PATIENCE)
        self.work(self.broker)
        await self.until("it listens", lambda: self.broker.listens)
        self.broker._intakes[0].hold(strange)
        await self.send("costs", 30, cost=50)
        await self.send("in a thread", 90, cost="50")
        await cost(100, 120)
        await self.send("note", "nothing", cost=50)
        await cost(150, 170)
        await self.send("costs again", cost=50, retry_on_error=True)
        await cost(250, 181)
        self.started.clear()
        for again in range(2):  # both at once
            await AsyncKicker("together", self.broker, {"cost": 50, "_retries": again}).with_task_id("same").kiq(1 + again)  # type: ignore[call-overload]
        await cost(350, 184)
        with self.assertRaises(SendTaskError) as refused:
            await self.send("note", "nothing", cost=0)
        self.assertIn("cost is 0: expected an integer from 1 to 1000000", str(refused.exception.__cause__))

    async def test_cost_that_nobody_can_say(self) -> None:
        said: list[str] = []

        async def costs(cost: int, context: Annotated[Context, TaskiqDepends()]) -> None:
            try:
                spent(context, cost)
                said.append("nothing")
            except (RuntimeError, ValueError) as err:
                said.append(str(err))

        self.broker.register_task(costs, task_name="costs")
        self.work(self.broker)
        await self.send("costs", 30, ack_type="when_received")
        await self.until("it has run", lambda: said)
        await self.send("costs", -1)
        await self.until("the other one has run", lambda: len(said) == 2)
        other = InMemoryBroker()
        other.register_task(costs, task_name="costs")
        await AsyncKicker("costs", other, {}).kiq(30)  # type: ignore[call-overload]
        await self.until("it has run with another broker", lambda: len(said) == 3)
        self.assertIn("the task costs is acknowledged, and cannot say what it has cost: expected ack_type", said[0])
        self.assertEqual(said[1:], ["the cost is -1: expected an integer from 0 to 1000000", "nothing"])

    async def test_requeued(self) -> None:
        @self.broker.task(task_name="requeue")
        async def requeue(context: Annotated[Context, TaskiqDepends()]) -> None:
            self.started.append("requeue")
            if len(self.started) < 3:
                await context.requeue()

        self.work(self.broker)
        await self.send("requeue")
        await self.until("it has run three times", lambda: len(self.started) == 3)
        await self.until("it is done", self.empty)

    async def test_a_worker_ends(self) -> None:
        first = await self.another()
        worker = self.work(first)
        await self.send("wait", "twice")
        await self.until("it runs", lambda: self.started)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await first.shutdown()
        self.gate.set()
        self.work(self.broker)
        await self.until("it is done", self.empty)
        self.assertEqual(self.started, ["twice"] * 2)

    async def test_results_are_those_of_another_backend(self) -> None:
        """The queue keeps none, so who asks for one without a backend gets None at once."""

        @self.broker.task(task_name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        with self.assertWarnsRegex(UserWarning, "^No result backend configured"):
            self.assertIsNone((await (await add.kiq(2, 3)).wait_result(timeout=PATIENCE)).return_value)
        self.broker.with_result_backend(InmemoryResultBackend())
        asked = await add.kiq(2, 3)
        self.work(self.broker)
        self.assertEqual((await asked.wait_result(timeout=PATIENCE)).return_value, 5)
        await self.until("both are done", self.empty)

    async def test_without_a_connection(self) -> None:
        broker = Broker(URL)
        with self.assertRaisesRegex(RuntimeError, "expected await broker.startup"):
            await broker.listen().__anext__()
