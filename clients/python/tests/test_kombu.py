"""The transport pq:// of kombu, in this process."""

from __future__ import annotations

import os
import select
import signal
import types
import unittest
from typing import Any

import celery
from kombu import Connection, Exchange, Queue

from celery_world import PATIENCE, URL, until
from pqbridge import EmptyError, kombu_celery, kombu_spent, sync
from pqbridge.kombu_channel import queue_name
from world import RISING, fresh

import celery_app as tasks

app = tasks.app


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
            for within in RISING:
                with self.assertRaises((OSError, ValueError, *self.connection.connection_errors)) as found:
                    Connection(url, connect_timeout=within).connect()
                if "no answer" not in str(found.exception):
                    break
            self.assertRegex(str(found.exception), what)
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
