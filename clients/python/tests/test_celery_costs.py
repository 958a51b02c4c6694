"""What tasks of Celery say that they have cost. Each test has a worker of its own."""

from __future__ import annotations

from collections.abc import Callable

from celery_world import PATIENCE, AtPqd, Worker, until
import pqbridge.kombu

import celery_app as tasks


class Costs(AtPqd):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.addClassCleanup(tasks.app.close)

    def costly(self, *options: str) -> tuple[str, Callable[[int, int], None]]:
        """A queue whose cost has a rate, with a worker; and a function that waits until its deliveries have cost this."""
        queue = self.alone()
        self.client.queue(queue).configure({"cost_rate": "1000000/24h", "max_deliveries": 1})
        worker = Worker(*options, queues=queue, concurrency=1)
        self.addCleanup(worker.stop)

        def cost(reserved: int, spent: int) -> None:
            until(f"{reserved} are reserved, {spent} spent", lambda: self.info(queue).get("cost") == {"reserved": reserved, "spent": spent})

        return queue, cost

    def test_cost(self) -> None:
        """It is said before the task ends, so the worker knows it, in each kind of pool."""
        for pool in ("prefork", "threads", "solo"):
            with self.subTest(pool):
                queue, cost = self.costly("-P", pool)
                send = {"queue": queue, "headers": {"PQ-Cost": 50}}
                self.assertEqual(tasks.costs.apply_async((10, 30), **send).get(timeout=PATIENCE), 50)
                cost(50, 30)
                self.assertIsNone(tasks.costs.apply_async((3,), queue=queue).get(timeout=PATIENCE))
                cost(51, 33)
                tasks.costs.apply_async((), **send).get(timeout=PATIENCE)
                cost(101, 83)
                with self.assertRaisesRegex(ValueError, "no sum"):
                    tasks.costs.apply_async((0,), {"fails": True}, **send).get(timeout=PATIENCE)
                cost(151, 83)

    def test_cost_of_a_retry_and_of_a_process_that_dies(self) -> None:
        queue, cost = self.costly()
        send = {"queue": queue, "headers": {"PQ-Cost": 50}}
        self.assertEqual(tasks.costs_again.apply_async((5,), **send).get(timeout=PATIENCE), 50)
        cost(100, 11)
        tasks.costs_and_dies.apply_async((90,), **send)
        # An extension before the worker misses its process reserves more than the push has said.
        until("101 are spent", lambda: self.info(queue).get("cost", {}).get("spent") == 101)

    def test_cost_that_nobody_can_say(self) -> None:
        queue, _ = self.costly()
        with self.assertRaisesRegex(RuntimeError, "costs_too_late is acknowledged before it runs.*expected acks_late=True"):
            tasks.costs_too_late.apply_async((1,), queue=queue).get(timeout=PATIENCE)
        with self.assertRaisesRegex(RuntimeError, "no task runs here"):
            pqbridge.kombu.spent(1)
        with self.assertRaisesRegex(ValueError, "the cost is -1: expected an integer from 0 to 1000000"):
            tasks.costs.apply_async((-1,), queue=queue).get(timeout=PATIENCE)
        with self.assertRaisesRegex(ValueError, "cost is 0: expected an integer from 1 to 1000000"):
            tasks.costs.apply_async((), headers={"PQ-Cost": 0})
        self.assertIsNone(tasks.costs(30))
        self.assertIsNone(tasks.costs_too_late.apply((30,)).get())
