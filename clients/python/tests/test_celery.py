"""Celery on the transport pq://, with workers as processes of their own."""

from __future__ import annotations

import datetime
import unittest
from typing import Any

from celery.exceptions import TaskRevokedError
from kombu import Connection, Queue

from celery_world import PATIENCE, AtPqd, Worker, until
from world import fresh

import celery_app as tasks

app = tasks.app


class Celery(AtPqd):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.worker = Worker("-E").ready()
        cls.addClassCleanup(cls.worker.stop)
        cls.addClassCleanup(app.close)

    def times(self, name: str) -> int:
        return tasks.starts().count(name)

    def test_results(self) -> None:
        self.assertEqual(tasks.add.delay(1, 2).get(timeout=PATIENCE), 3)
        with self.assertRaisesRegex(ValueError, "^why$"):
            tasks.fail.delay("why").get(timeout=PATIENCE)
        several = [tasks.add.delay(n, n) for n in range(20)]
        self.assertEqual([one.get(timeout=PATIENCE) for one in several], [2 * n for n in range(20)])
        self.assertEqual((tasks.add.s(1, 2) | tasks.add.s(3)).apply_async().get(timeout=PATIENCE), 6)

    def test_a_delayed_task_waits_in_the_queue(self) -> None:
        name, began = fresh(), datetime.datetime.now(datetime.timezone.utc)
        eta = began + datetime.timedelta(seconds=1)
        result = tasks.note.apply_async((name,), eta=eta)
        far = tasks.note.apply_async((fresh(),), countdown=7 * 86400)
        self.assertGreaterEqual(self.info("tasks")["delayed"], 1)
        self.assertEqual(result.get(timeout=PATIENCE), name)
        self.assertGreaterEqual(datetime.datetime.now(datetime.timezone.utc), eta)
        self.assertEqual(self.times(name), 1)
        self.assertEqual(app.control.inspect([self.worker.name], timeout=PATIENCE).scheduled(), {self.worker.name: []})
        self.assertIsNone(tasks.seen.apply_async(countdown=0.1).get(timeout=PATIENCE)[0])
        far.revoke()

    def test_a_task_that_is_sent_again(self) -> None:
        task, first, second = fresh(), fresh(), fresh()
        for name in (first, first, second):
            tasks.note.apply_async((name,), task_id=task)
            until("it has run", lambda: self.times(name) == 1)
        tasks.note.delay(fresh()).get(timeout=PATIENCE)
        self.assertEqual((self.times(first), self.times(second)), (1, 1))

    def test_a_long_task_runs_once(self) -> None:
        name = fresh()
        result = tasks.late.delay(name)
        until("it has run for longer than a lease", lambda: self.info("tasks")["oldest_lease"] > 1.4 * tasks.LEASE)
        tasks.tell(name)
        self.assertEqual(result.get(timeout=PATIENCE), name)
        until("it is acknowledged", lambda: self.info("tasks")["leased"] == 0)
        self.assertEqual(self.times(name), 1)

    def test_a_task_is_acknowledged_before_it_runs(self) -> None:
        name = fresh()
        result = tasks.early.delay(name)
        until("it runs", lambda: self.times(name))
        until("it is acknowledged", lambda: self.info("tasks")["leased"] == 0)
        tasks.tell(name)
        self.assertEqual(result.get(timeout=PATIENCE), name)

    def test_a_worker_dies(self) -> None:
        queue, early, late = self.alone(), fresh("early"), fresh("late")
        first = Worker(queues=queue)
        tasks.early.apply_async((early,), queue=queue)
        result = tasks.late.apply_async((late,), queue=queue)
        until("both run", lambda: self.times(early) and self.times(late))
        until("one is acknowledged", lambda: self.info(queue)["leased"] == 1)
        first.kill()
        second = Worker(queues=queue)
        self.addCleanup(second.stop)
        until("one runs again", lambda: self.times(late) == 2)
        tasks.tell(late)
        self.assertEqual(result.get(timeout=PATIENCE), late)
        until("nothing is left", lambda: self.info(queue)["leased"] == 0)
        self.assertEqual((self.times(early), self.times(late), self.info(queue)["ready"]), (1, 2, 0))

    def test_killed_child(self) -> None:
        """A task whose process is killed each time is a failure each time, and dies."""
        queue = self.alone()
        self.client.queue(queue).configure({"max_deliveries": 2})
        app.control.add_consumer(queue, destination=[self.worker.name])
        self.addCleanup(app.control.cancel_consumer, queue, destination=[self.worker.name])
        name = fresh()
        tasks.killed.apply_async((name,), queue=queue)
        dead = self.client.queue(queue + "-dead").pop(wait=PATIENCE)
        self.assertEqual((self.times(name), dead.dead and dead.dead.reason), (2, "max_deliveries"))

    def test_a_worker_that_stops_gives_back(self) -> None:
        queue, name = self.alone(), fresh()
        worker = Worker("--prefetch-multiplier", "4", queues=queue, concurrency=1)
        first = tasks.early.apply_async((name,), queue=queue)
        until("it runs", lambda: self.times(name))
        others = [fresh() for _ in range(3)]
        for other in others:
            tasks.note.apply_async((other,), queue=queue)
        until("the worker has them", lambda: self.info(queue)["leased"] == 3)
        worker.terminate()
        tasks.tell(name)
        self.assertEqual(first.get(timeout=PATIENCE), name)
        worker.wait()
        ran = sum(map(self.times, others))
        until("all are given back", lambda: (self.info(queue)["ready"], self.info(queue)["leased"]) == (3 - ran, 0))
        self.assertLess(ran, 3)

    def test_priorities(self) -> None:
        queue = self.alone()
        names = {priority: f"{fresh()}-p{priority}" for priority in (0, 3, 9)}
        for priority in (3, 0, 9):
            tasks.note.apply_async((names[priority],), queue=queue, priority=priority)
        last = fresh()
        tasks.note.apply_async((last,), queue=queue)
        worker = Worker(queues=queue, concurrency=1)
        self.addCleanup(worker.stop)
        until("all have run", lambda: self.times(last))
        order = [name for name in tasks.starts() if name in (*names.values(), last)]
        self.assertEqual(order, [names[9], names[3], names[0], last])

    def test_one_task_a_process(self) -> None:
        stats = app.control.inspect([self.worker.name], timeout=PATIENCE).stats()
        self.assertEqual(stats[self.worker.name]["prefetch_count"], 2)

    def test_retry_and_reject(self) -> None:
        name = fresh()
        self.assertEqual(tasks.again.delay(name).get(timeout=PATIENCE), 2)
        self.assertEqual(self.times(name), 3)
        name = fresh()
        self.assertTrue(tasks.reject.delay(name, True).get(timeout=PATIENCE))
        self.assertEqual(self.times(name), 2)
        name = fresh()
        tasks.reject.delay(name, False)
        dead = self.client.queue("tasks-dead").pop(wait=PATIENCE)
        self.assertIn(name, dead.text)
        self.assertEqual((self.times(name), dead.dead and dead.dead.reason), (1, "rejected"))

    def test_expires(self) -> None:
        queue = self.alone()
        result = tasks.note.apply_async((name := fresh(),), queue=queue, expires=0.2)
        tasks.note.apply_async((fresh(),), queue=queue, expires=0.3, ignore_result=True)
        self.assertEqual(self.info(queue)["ready"], 2)
        until("the one that nobody waits for is gone", lambda: self.info(queue)["ready"] == 1)
        app.control.add_consumer(queue, destination=[self.worker.name])
        self.addCleanup(app.control.cancel_consumer, queue, destination=[self.worker.name])
        with self.assertRaises(TaskRevokedError):
            result.get(timeout=PATIENCE)
        self.assertEqual(self.times(name), 0)
        with self.assertRaises(TaskRevokedError):
            tasks.note.apply_async((fresh(),), expires=datetime.datetime(2020, 1, 1)).get(timeout=PATIENCE)

    def test_a_task_is_pushed_once(self) -> None:
        queue = self.alone()
        for _ in range(2):
            tasks.note.apply_async((fresh(),), queue=queue, task_id="the same")
        self.assertEqual(self.info(queue)["ready"], 1)

    def test_revoke(self) -> None:
        queue, name = self.alone(), fresh()
        waits = tasks.note.apply_async((name,), queue=queue)
        later = tasks.note.apply_async((name,), queue=queue, countdown=3600)
        stays = tasks.note.apply_async((name,), queue=queue)
        app.control.revoke([waits.id, later.id, "unknown"])
        self.assertEqual([self.info(queue)[state] for state in ("ready", "delayed")], [1, 0])
        for one in (waits, later):
            with self.assertRaises(TaskRevokedError):
                one.get(timeout=PATIENCE)
        self.assertIn(stays.id, self.client.queue(queue).pop().text)
        revoked = app.control.inspect([self.worker.name], timeout=PATIENCE).revoked()[self.worker.name]
        self.assertIn(waits.id, revoked)

    def test_lengths_and_purge(self) -> None:
        queue = self.alone()
        for n in range(3):
            tasks.note.apply_async((fresh(),), queue=queue, countdown=n * 3600)
        with app.connection_for_write() as connection, connection.channel() as channel:
            self.assertEqual(channel.queue_declare(queue, passive=True).message_count, 1)
            with self.assertRaises(connection.channel_errors):
                channel.queue_declare(fresh(), passive=True)
            self.assertEqual(channel.queue_purge(queue), 3)
            self.assertEqual(channel.queue_purge(fresh()), 0)
        self.assertEqual(self.info(queue)["delayed"], 0)

    def test_remote_control(self) -> None:
        inspect = app.control.inspect([self.worker.name], timeout=PATIENCE)
        self.assertEqual(inspect.ping(), {self.worker.name: {"ok": "pong"}})

        def consumed() -> list[str]:
            return [queue["name"] for queue in inspect.active_queues()[self.worker.name]]

        until("the queues of other tests are gone", lambda: consumed() == ["tasks"])
        queue = self.alone()
        app.control.add_consumer(queue, destination=[self.worker.name], reply=True, timeout=PATIENCE)
        self.assertEqual(tasks.add.apply_async((1, 1), queue=queue).get(timeout=PATIENCE), 2)
        self.assertEqual(tasks.add.delay(1, 1).get(timeout=PATIENCE), 2)
        app.control.cancel_consumer(queue, destination=[self.worker.name], reply=True, timeout=PATIENCE)
        until("it has left the queue", lambda: consumed() == ["tasks"])  # Celery answers before
        tasks.note.apply_async((name := fresh(),), queue=queue)
        until("it is ready", lambda: self.info(queue)["ready"] == 1)  # the last pop may have got it, and gives it back
        self.assertEqual(self.times(name), 0)

    def test_events(self) -> None:
        found: list[tuple[str, str | None]] = []
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": lambda event: found.append((event["type"], event.get("uuid")))})
            consumed = receiver.itercapture(limit=None, timeout=PATIENCE, wakeup=True)
            next(consumed)
            result = tasks.add.delay(1, 1)
            while ("task-succeeded", result.id) not in found:
                next(consumed)
        self.assertIn(("task-started", result.id), found)
        self.assertEqual([name for name in self.client.queues() if "celeryev" in name or "pidbox" in name], [])

    def test_nothing_is_left(self) -> None:
        """A queue that ends with its consumer ends so."""
        names = set(self.client.queues())
        with Connection(app.conf.broker_url) as connection, connection.channel() as channel:
            queue = Queue(fresh("results"), auto_delete=True, durable=False, expires=60)(channel)
            queue.declare()
            self.assertEqual(self.info(queue.name)["config"]["expire_empty"], "1m0s")
            with connection.Consumer([queue], callbacks=[lambda body, message: None], no_ack=True):
                pass
        self.assertEqual(set(self.client.queues()), names)
