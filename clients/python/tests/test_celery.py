"""Celery on the transport pq://, with workers as processes of their own."""

from __future__ import annotations

import datetime
import os
import select
import signal
import types
import unittest
from collections.abc import Callable
from typing import Any

import celery

from celery.exceptions import TaskRevokedError
from kombu import Connection, Exchange, Queue

from celery_world import PATIENCE, URL, Worker, until
import pqbridge.kombu
from pqbridge import EmptyError, kombu_celery, kombu_spent, sync
from pqbridge.kombu_channel import queue_name
from world import fresh

import celery_app as tasks

app = tasks.app


class Celery(unittest.TestCase):
    client: sync.Client
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = sync.connect(URL, timeout=PATIENCE)
        cls.addClassCleanup(cls.client.close)
        cls.worker = Worker("-E").ready()
        cls.addClassCleanup(cls.worker.stop)
        cls.addClassCleanup(app.close)

    def times(self, name: str) -> int:
        return tasks.starts().count(name)

    def info(self, queue: str) -> Any:
        return self.client.queue(queue).info()

    def alone(self) -> str:
        """A queue that no worker has."""
        queue = fresh("alone")
        app.amqp.queues.add(queue)
        self.addCleanup(app.amqp.queues.pop, queue, None)
        return queue

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
        until("it has run for three leases", lambda: self.info("tasks")["oldest_lease"] > 3 * tasks.LEASE)
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
        with self.assertRaisesRegex(RuntimeError, "costs_too_late is acknowledged before it runs.*expected acks_late=True"):
            tasks.costs_too_late.delay(1).get(timeout=PATIENCE)
        with self.assertRaisesRegex(RuntimeError, "no task runs here"):
            pqbridge.kombu.spent(1)
        with self.assertRaisesRegex(ValueError, "the cost is -1: expected an integer from 0 to 1000000"):
            tasks.costs.delay(-1).get(timeout=PATIENCE)
        with self.assertRaisesRegex(ValueError, "cost is 0: expected an integer from 1 to 1000000"):
            tasks.costs.apply_async((), headers={"PQ-Cost": 0})
        self.assertIsNone(tasks.costs(30))
        self.assertIsNone(tasks.costs_too_late.apply((30,)).get())

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


class Kombu(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sync.connect(URL, timeout=PATIENCE)
        self.addCleanup(self.client.close)
        self.connection = Connection(app.conf.broker_url, transport_options={"lease": 60})
        self.addCleanup(self.connection.release)

    def test_messages(self) -> None:
        simple = self.connection.SimpleQueue(fresh("a.b@c"))
        self.addCleanup(simple.close)
        for body in ({"a": ["ü", None]}, "text", 7):
            simple.put(body)
            message = simple.get(timeout=PATIENCE)
            self.assertEqual(message.payload, body)
            message.ack()
        simple.put(b"\x00\xff", serializer="raw")
        self.assertEqual(simple.get(timeout=PATIENCE).payload, b"\x00\xff")
        with self.assertRaises(simple.Empty):
            simple.get(timeout=0.01)

    def test_exchanges(self) -> None:
        channel = self.connection.channel()
        topic, fan = Exchange(fresh("t.x"), "topic"), Exchange(fresh("f"), "fanout")
        keep = Queue(fresh("keep"), topic, "a.#")(channel)
        end = Queue(fresh("end"), topic, "*.b", auto_delete=True)(channel)
        all = Queue(fresh("all"), fan, auto_delete=True)(channel)
        for queue in (keep, end, all):
            queue.declare()
        producer = self.connection.Producer(channel)
        for key in ("a.b", "a.b.c", "c.b", "c"):
            producer.publish(key, exchange=topic, routing_key=key)
        producer.publish("fan", exchange=fan)
        self.assertEqual(self.client.queue(queue_name(keep.name)).info()["ready"], 2)
        got: dict[str, list[str]] = {}

        def receive(body: str, message: Any) -> None:
            got.setdefault(message.delivery_info["exchange"], []).append(body)
            message.ack()

        with self.connection.Consumer([end, all], callbacks=[receive], channel=channel):
            while sum(map(len, got.values())) < 3:
                self.connection.drain_events(timeout=PATIENCE)
        self.assertEqual(got, {topic.name: ["a.b", "c.b"], fan.name: ["fan"]})

    def test_what_is_no_message_becomes_a_dead_letter(self) -> None:
        name = fresh()
        self.client.queue(name).push("x")
        with self.connection.Consumer([Queue(name)], callbacks=[lambda body, message: None]):
            self.connection.drain_events(timeout=PATIENCE)
            self.assertEqual(self.client.queue(name + "-dead").pop(wait=PATIENCE).text, "x")

    def test_several_queues_and_a_limit(self) -> None:
        names = [fresh(), fresh()]
        for name in names * 2:
            self.connection.SimpleQueue(name).put(name)
        got: list[Any] = []
        channel = self.connection.channel()
        with self.connection.Consumer([Queue(name) for name in names], channel=channel, on_message=got.append, prefetch_count=1):
            for n in range(4):
                self.connection.drain_events(timeout=PATIENCE)
                self.assertEqual(sum(self.client.queue(name).info()["leased"] for name in names), 1)
                got[-1].ack()
        self.assertEqual(sorted(message.payload for message in got), sorted(names * 2))

    def test_what_is_held_is_given_back(self) -> None:
        name = fresh()
        self.connection.SimpleQueue(name).put("x")
        got: list[Any] = []
        with self.connection.Consumer([Queue(name)], on_message=got.append):
            self.connection.drain_events(timeout=PATIENCE)
        self.connection.release()
        self.assertEqual((len(got), self.client.queue(name).info()["ready"]), (1, 1))

    def test_sixteen_closed_workers(self) -> None:
        """A message that nobody began with lives, and one that is rejected 16 times dies."""
        name = fresh()
        self.connection.SimpleQueue(name).put("x")
        url, options = app.conf.broker_url, {"lease": 60}
        for n in range(17):
            got: list[Any] = []
            with Connection(url, transport_options=options) as connection:
                with connection.Consumer([Queue(name)], on_message=got.append, prefetch_count=4) as consumer:
                    connection.drain_events(timeout=PATIENCE)
                    if n % 2:
                        consumer.recover(requeue=True)
        self.assertEqual(self.client.queue(name).info().ready, 1)
        counts = self.client.queue(name).pop(lease=60)
        self.assertEqual((counts.failures, counts.interruptions), (0, 0))
        counts.give_back()
        rejected: list[Any] = []

        def reject(message: Any) -> None:
            rejected.append(message)
            message.reject(requeue=True)

        with self.connection.Consumer([Queue(name)], on_message=reject):
            while len(rejected) < 16:
                self.connection.drain_events(timeout=PATIENCE)
        dead = self.client.queue(name + "-dead").pop(wait=PATIENCE)
        self.assertEqual(dead.dead and dead.dead.reason, "max_deliveries")

    def test_connections_to_one_address_share_a_client(self) -> None:
        """So that what threads send at the same time goes together. The last one closes it."""
        name, other = fresh(), Connection(app.conf.broker_url, transport_options={"prefix": "pq"})
        first: Any = Connection(app.conf.broker_url, transport_options={"prefix": "pq"})
        client: Any = first.connect().pq
        self.assertIs(other.connect().pq, client)
        with Connection(app.conf.broker_url, transport_options={"prefix": "pq", "nats": {"name": "x"}}) as named:
            self.assertIsNot(named.connect().pq, client)
        first.release()
        other.SimpleQueue(name).put("x")
        self.assertEqual(self.client.queue(name).info()["ready"], 1)
        other.release()
        self.assertTrue(client.mailbox.closed)
        self.assertIsNot(first.connect().pq, client)
        first.release()

    def test_what_comes_for_nobody_is_no_event(self) -> None:
        transport: Any = self.connection.connect()
        for deliver in (False, True, False):
            transport.arrive(lambda deliver=deliver: deliver)
        self.connection.drain_events(timeout=PATIENCE)
        with self.assertRaises(TimeoutError):
            self.connection.drain_events(timeout=0)

    def test_what_arrives_while_the_loop_looks(self) -> None:
        transport: Any = self.connection.connect()
        got: list[str] = []
        socket = transport._told

        class Meanwhile:
            def recv(self, size: int) -> bytes:
                transport.arrive(lambda: got.append("second"))
                return bytes(socket.recv(size))

        transport.arrive(lambda: got.append("first"))
        transport._told = Meanwhile()
        transport._on_told()
        transport._told = socket
        transport.arrive(lambda: got.append("third"))
        if select.select([socket], [], [], PATIENCE)[0]:
            transport._on_told()
        self.assertEqual(got, ["first", "second", "third"])

    def test_addresses(self) -> None:
        for url, what in (("pq://127.0.0.1:1", "no connection to NATS at nats://127.0.0.1:1: .*Connect call failed"), (app.conf.broker_url.replace("//", "//all:wrong@"), "Authorization Violation"), (app.conf.broker_url + "/x", "expected none, and the prefix in")):
            with self.assertRaisesRegex((OSError, ValueError, *self.connection.connection_errors), what):
                Connection(url, connect_timeout=0.5).connect()
        other = Connection(app.conf.broker_url, transport_options={"prefix": "nobody", "nats": {"name": "x"}})
        self.addCleanup(other.release)
        self.assertEqual(other.connect().pq.grammar.subject("q", "push"), "nobody.q.push")

    def test_a_child_of_a_fork_sends(self) -> None:
        """On a connection of its own, and at once."""
        name = fresh()
        queue = self.connection.SimpleQueue(name)
        queue.put("parent")
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))
            self.connection.ensure(self.connection, lambda: None, max_retries=3)
            with self.connection.Producer() as producer:
                producer.publish("child", routing_key=name, retry=True, retry_policy={"max_retries": 3})
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        queue.put("again")
        self.assertEqual(self.client.queue(name).info()["ready"], 3)

    def test_who_may_not_look(self) -> None:
        """A sender and a worker need no right to ask how long a queue is."""
        name = fresh()
        url = app.conf.broker_url.replace("//", "//worker:worker@")
        with Connection(url, transport_options={"nats": {"inbox_prefix": "_INBOX.worker"}}) as connection:
            connection.SimpleQueue(name).put("x")
            self.assertEqual(connection.channel().queue_declare(name, passive=True).message_count, 0)
            message = connection.SimpleQueue(name).get(timeout=PATIENCE)
            message.ack()

    def test_another_process_says_the_cost(self) -> None:
        """It is known when the item is settled, also if nothing has read it before; and with the next extension, if the worker listens."""
        queue = self.client.queue(fresh())
        queue.configure({"cost_rate": "1000/24h"})
        connection = Connection(app.conf.broker_url, transport_options={"lease": 6})
        self.addCleanup(connection.release)
        simple = connection.SimpleQueue(queue.name)
        for _ in range(2):
            simple.put("x", headers={"PQ-Cost": 50})
        message = simple.get(timeout=PATIENCE)
        kombu_spent.begin()
        self.addCleanup(setattr, kombu_spent, "_pipe", None)
        pipe = kombu_spent._pipe
        assert pipe is not None
        pipe.say(message.delivery_tag, 20)
        pipe.say(message.delivery_tag, 10)
        message.ack()
        until("it has cost 10", lambda: queue.info().get("cost") == {"reserved": 50, "spent": 10})
        message = simple.get(timeout=PATIENCE)
        kombu_spent.listen(simple.channel._intake)
        pipe.say(message.delivery_tag, 90)
        until("more is reserved", lambda: (queue.info().get("cost_tokens") or 1000) < 910)
        message.ack()
        until("it has cost 90", lambda: queue.info().get("cost") == {"reserved": 140, "spent": 100})

    def test_other_brokers_keep_their_defaults(self) -> None:
        for url, own, expected in (("redis://", None, 4), (app.conf.broker_url, None, 1), (app.conf.broker_url, 7, 7)):
            other = celery.Celery(fresh(), broker=url, set_as_current=False)
            if own:
                other.conf.worker_prefetch_multiplier = own
            worker = types.SimpleNamespace(app=other, prefetch_multiplier=other.conf.worker_prefetch_multiplier)
            kombu_celery._begin(worker)
            self.assertEqual(worker.prefetch_multiplier, expected)

    def test_names(self) -> None:
        self.assertEqual(queue_name("celery_1"), "celery_1")
        made = {queue_name(name) for name in ("a.b", "a@b", "a-b", "_a", "a" * 60, "a" * 61, "")}
        self.assertEqual(len(made), 7)
        for name in made:
            with self.assertRaises(EmptyError):
                self.client.queue(name).pop()
