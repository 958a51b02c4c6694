"""The queues in which programs of Celery get their results, and their ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unittest
import uuid
from pathlib import Path
from typing import Any
from unittest import mock

from kombu import Connection, Exchange
from kombu import Queue as KombuQueue

from celery_world import PATIENCE, URL, Worker
from pqbridge import BadRequestError, Queue, background, kombu_settings, sync
from pqbridge.kombu_settings import settings
from world import fresh

import celery_app as tasks

HOUR = "1h0m0s"


def ends(config: Any) -> tuple[str, str]:
    return config["ttl"], config["expire_empty"]


class Programs(unittest.TestCase):
    client: sync.Client
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = sync.connect(URL, timeout=PATIENCE)
        cls.addClassCleanup(cls.client.close)
        cls.worker = Worker().ready()
        cls.addClassCleanup(cls.worker.stop)

    def info(self, queue: str) -> Any:
        return self.client.queue(queue).info()

    def program(self, reads: str, name: str) -> str:
        """Runs one, and returns the queue of its results."""
        program = Path(__file__).parent / "celery_ends.py"
        return subprocess.run([sys.executable, program, reads, name], check=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()

    def test_a_program_ends_before_its_last_result(self) -> None:
        """Its queue stays for what comes, and ends by itself. What comes lasts as long as the queue says, and not the worker, who
        has looked before."""
        for reads in ("reads", "sends"):
            name = fresh()
            queue = self.program(reads, name)
            self.assertEqual((ends(self.info(queue)["config"]), self.info(queue)["ready"]), (("1s", HOUR), 0))
            self.client.queue(queue).configure({"ttl": "5m"})  # so that the result can be seen
            tasks.tell(name)
            self.assertAlmostEqual(self.lasts(queue, name), 300, delta=60)
            self.assertEqual(ends(self.info(queue)["config"]), ("5m0s", HOUR))

    def lasts(self, queue: str, name: str) -> float:
        """For how long a result does that a queue gets."""
        item = self.client.queue(queue).peek(wait=PATIENCE)
        self.assertIn(name, item.text)
        shown = self.client.queue(queue).get(item.id)
        assert shown.expires and shown.pushed
        return (shown.expires - shown.pushed).total_seconds()

    def test_a_cron_job(self) -> None:
        """Each run has a queue of its own, all of them end."""
        queues = set()
        for _ in range(3):
            name = fresh()
            queues.add(self.program("sends", name))
            tasks.tell(name)
        self.assertEqual([ends(self.info(queue)["config"]) for queue in queues], [("1s", HOUR)] * 3)

    def test_a_result_makes_a_queue(self) -> None:
        """Which has ended, or which nobody has made."""
        for result in (tasks.note, tasks.fail):
            gone, name = str(uuid.uuid4()), fresh()
            result.apply_async((name,), reply_to=gone)
            self.assertAlmostEqual(self.lasts(gone, name), 3600, delta=60)
            self.assertEqual(ends(self.info(gone)["config"]), (HOUR, HOUR))

    def test_a_queue_that_says_how_long_results_last(self) -> None:
        """Its program knows better than a worker."""
        queue, name = str(uuid.uuid4()), fresh()
        self.client.queue(queue).configure({"ttl": "5m"})
        tasks.note.apply_async((name,), reply_to=queue)
        self.assertAlmostEqual(self.lasts(queue, name), 300, delta=60)
        self.assertEqual(ends(self.info(queue)["config"]), ("5m0s", HOUR))


class Declarations(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sync.connect(URL, timeout=PATIENCE)
        self.addCleanup(self.client.close)
        self.connection, self.channel = self.connect()
        self.queue = str(uuid.uuid4())

    def connect(self, url: str = tasks.app.conf.broker_url, **nats: str) -> tuple[Any, Any]:
        """A connection of its own."""
        connection: Any = Connection(url, transport_options={"nats": {"name": fresh(), **nats}})
        self.addCleanup(connection.release)
        return connection, connection.channel()

    def config(self, queue: str = "") -> tuple[str, str] | None:
        """None: there is no such queue."""
        name = queue or self.queue
        return ends(self.client.queue(name).config()) if name in self.client.queues() else None

    def declare(self, lasts: int | None = 3_600_000) -> None:
        self.channel.queue_declare(self.queue, auto_delete=True, arguments={"x-expires": lasts} if lasts else {})

    def result(self, channel: Any = None) -> float | None:
        """Sends one, and returns for how long it lasts."""
        with self.connection.Producer(channel or self.channel) as producer:
            producer.publish("done", routing_key=self.queue, correlation_id="task")
        shown = self.client.queue(self.queue).get(self.client.queue(self.queue).pop(lease=60).id)
        return round((shown.expires - shown.pushed).total_seconds()) if shown.expires and shown.pushed else None

    def later(self, seconds: float) -> Any:
        """A clock that is so much ahead."""
        return mock.patch("pqbridge.kombu_settings.monotonic", lambda: time.monotonic() + seconds)

    def test_what_arguments_become(self) -> None:
        minute, most = "60000ms", "2592000000ms"
        looks = {"max_deliveries": 0}
        for arguments, replies, expected in (
            ({}, False, {}),
            ({"x-expires": 0}, False, {"expire_empty": "0s"}),
            ({"x-expires": 1}, False, {"expire_empty": minute}),
            ({"x-expires": 90_000}, False, {"expire_empty": "90000ms"}),
            ({"x-expires": 10**12}, False, {"expire_empty": most}),
            ({"x-message-ttl": 5000}, False, {"ttl": "5000ms"}),
            ({"x-message-ttl": 5000, "x-expires": 90_000}, False, {"ttl": "5000ms", "expire_empty": "90000ms"}),
            ({"x-expires": 90_000}, True, {"ttl": "90000ms", "expire_empty": "90000ms", **looks}),
            ({"x-expires": 86_400_000}, True, {"ttl": "86400000ms", "expire_empty": "3600000ms", **looks}),
            ({"x-expires": 1000}, True, {"ttl": "1000ms", "expire_empty": minute, **looks}),
            ({"x-expires": 90_000, "x-message-ttl": 5000}, True, {"ttl": "5000ms", "expire_empty": "90000ms", **looks}),
            ({"x-expires": 0}, True, {"expire_empty": "3600000ms", **looks}),
            ({}, True, {"expire_empty": "3600000ms", **looks}),
        ):
            with self.subTest(arguments=arguments, replies=replies):
                self.assertEqual(settings(arguments, replies), expected)

    def test_looks_are_no_failures(self) -> None:
        """Celery looks at a progress by a requeue, as often as its program asks. A queue of tasks counts each (test_kombu)."""
        self.declare()
        with self.connection.Producer(self.channel) as producer:
            producer.publish("half way", routing_key=self.queue, correlation_id="task")
        looks = 0

        def look(message: Any) -> None:
            nonlocal looks
            looks += 1
            message.reject(requeue=True)

        with self.connection.Consumer([KombuQueue(self.queue)], channel=self.channel, on_message=look):
            while looks < 20:
                self.connection.drain_events(timeout=PATIENCE)
        found = self.client.queue(self.queue).pop(lease=60, wait=PATIENCE)
        self.assertEqual((found.failures, found.interruptions), (0, 0))
        self.assertNotIn(self.queue + "-dead", self.client.queues())

    def test_each_declaration_counts(self) -> None:
        """The queue may have ended since the last one. Before it can have, a declaration costs nothing."""
        self.declare()
        self.assertEqual(self.config(), (HOUR, HOUR))
        self.client.queue(self.queue).delete()
        self.declare()
        self.assertIsNone(self.config())
        with self.later(1900):
            self.declare()
        self.assertEqual(self.config(), (HOUR, HOUR))

    def test_a_queue_with_tasks(self) -> None:
        name = fresh()
        for ahead in (0, 40):
            with self.later(ahead):
                self.channel.queue_declare(name, arguments={"x-expires": 60_000})
            self.assertEqual(self.config(name), ("0s", "1m0s"))
            self.client.queue(name).delete()
        self.channel.queue_declare(name, arguments={"x-expires": 60_000})
        self.channel.queue_delete(name)
        self.channel.queue_declare(name, arguments={"x-expires": 60_000})
        self.assertEqual(self.config(name), ("0s", "1m0s"))

    def test_who_reads_no_more(self) -> None:
        """A program that goes on, with another connection perhaps, keeps its results."""
        self.declare()
        self.channel.basic_consume(self.queue, True, lambda message: None, "tag")
        self.channel.basic_cancel("tag")
        self.connection.release()
        self.assertEqual(self.config(), (HOUR, HOUR))

    def test_a_name_that_looks_like_that_of_results(self) -> None:
        """What comes over an exchange comes over NATS, as for other queues that end with their consumer."""
        exchange, got = Exchange(fresh("t"), "topic"), []
        queue = KombuQueue(self.queue, exchange, "a", auto_delete=True)(self.channel)
        queue.declare()
        with self.connection.Consumer([queue], on_message=lambda message: got.append(message.payload), channel=self.channel, no_ack=True):
            with self.connection.Producer() as producer:
                producer.publish("x", exchange=exchange, routing_key="a")
            self.connection.drain_events(timeout=PATIENCE)
        self.assertEqual((got, self.client.queue(self.queue).info()["rates"]["push"]), (["x"], 0))
        self.client.queue(self.queue).delete()
        self.end()
        self.assertIsNone(self.config())

    def test_results(self) -> None:
        """A worker looks once whether the queue ends, and again when it may have ended. Meanwhile the program may end."""
        self.assertEqual((self.result(), self.config()), (3600, (HOUR, HOUR)))
        with mock.patch.object(Queue, "config", side_effect=AssertionError("a second look")):
            self.client.queue(self.queue).configure({"ttl": "5m"})
            self.assertEqual(self.result(), 300)
        self.client.queue(self.queue).delete()
        with self.later(1900):
            self.assertEqual((self.result(), self.config()), (3600, (HOUR, HOUR)))

    def test_results_that_stay(self) -> None:
        """A program that has no end for its results gets those of workers that have one with that."""
        self.declare(None)
        self.assertEqual((self.result(self.connect()[1]), self.config()), (3600, ("0s", HOUR)))

    def test_who_may_not_configure(self) -> None:
        """Tries once."""
        _, channel = self.connect(tasks.app.conf.broker_url.replace("//", "//worker:worker@"), inbox_prefix="_INBOX.worker")
        self.assertEqual((self.result(channel), self.config()), (3600, ("0s", "0s")))
        self.queue = str(uuid.uuid4())
        with mock.patch.object(Queue, "config", side_effect=AssertionError("a second look")):
            self.assertEqual(self.result(channel), 3600)

    def test_a_pqd_before_expire_empty(self) -> None:
        """It refuses the setting once for a connection, and a program deletes its queue when it ends."""
        refused: list[Any] = []
        configure = Queue.configure

        async def before(queue: Queue, change: Any, **more: Any) -> Any:
            if "expire_empty" in change:
                refused.append(change)
                raise BadRequestError("configure", queue.name, 400, 'configuration: unknown field "expire_empty": expected some of priority')
            return await configure(queue, change, **more)

        with mock.patch.object(Queue, "configure", before):
            self.declare()
            self.channel.queue_declare(name := fresh(), arguments={"x-expires": 60_000})
            self.assertEqual((self.config(), self.config(name), len(refused)), ((HOUR, "0s"), None, 1))
            other, self.queue = self.queue, str(uuid.uuid4())
            self.assertEqual((self.result(), self.config(), len(refused)), (3600, ("0s", "0s"), 1))
            self.end()
        self.assertIsNone(self.config(other))

    def end(self) -> None:
        """What the program does when it ends."""
        background.run(self.channel.connection.settings.end())

    def test_the_child_of_a_fork_ends(self) -> None:
        """Its parent goes on to read its results."""
        self.declare()
        with mock.patch.object(kombu_settings, "_process", os.getppid()):
            self.end()
        self.assertEqual(self.config(), (HOUR, HOUR))
        self.end()
        self.assertEqual(self.config(), ("1s", HOUR))
