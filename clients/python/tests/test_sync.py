"""The same for synchronous programs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types
import unittest
from unittest.mock import patch

import pqbridge
from pqbridge import EmptyError, GiveUp, LeaseLostError, NotLeasedError, UnavailableError, background, sync
from world import PATIENCE, URL, fresh, quiet


class Synchronous(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sync.connect(URL, timeout=PATIENCE, error_cb=quiet)
        self.addCleanup(self.client.close)

    def until(self, what: str, true: threading.Event) -> None:
        self.assertTrue(true.wait(PATIENCE), f"it was not true in time that {what}")

    def test_calls(self) -> None:
        q = self.client.queue(fresh())
        q.push("a", priority=2, key="k")
        q.push_many(["b", pqbridge.NewItem("c", priority=1)])
        self.assertEqual([i.text for i in q.peek_many(9)], ["b", "c", "a"])
        self.assertEqual((q.peek(end="max").key, q.get(q.peek().id).state), ("k", "ready"))
        self.assertEqual([i.priority for i in q.list(page=1)], [0, 1, 2])
        self.assertEqual([k.key for k in q.keys()], ["k"])
        item = q.pop(lease="1m")
        item.extend()
        second = item.ack_next()
        assert second is not None
        self.assertEqual((second.text, second.leased, item.settled), ("c", True, True))
        q.configure({"hand_over": "*"})
        self.assertEqual(second.hand_over(q, "d").priority, 0)
        taken = q.pop_many(2, lease="1m")
        self.assertEqual(q.ack_many(taken), [None, None])
        with self.assertRaises(EmptyError) as found:
            q.pop()
        self.assertEqual(found.exception.reason, "empty")
        self.assertIn(q.name, list(self.client.queues(prefix=q.name)))
        for n, _ in enumerate(self.client.queues()):
            break
        self.assertEqual(self.client.system()["prefix"], "pq")
        q.delete()

    def test_settling(self) -> None:
        q = self.client.queue(fresh())
        q.push_many(["a", "b", "c"])
        for item in q.items(stop_when_empty=True, lease="1m"):
            with item:
                if item.text == "b":
                    raise GiveUp("b")
        self.assertEqual(q.info()["leased"], 0)
        self.assertEqual(self.client.queue(q.name + "-dead").pop().text, "b")
        q.push("d")
        with self.assertRaises(ZeroDivisionError), q.pop(lease="1m"):
            1 / 0
        self.assertEqual(q.info()["delayed"], 1)
        q.push("e")
        with self.assertRaises(LeaseLostError), q.pop(lease=0.3) as item:
            q.purge()
            self.until("the lease is lost", item.lost)
        q.push("f")
        with q.pop(lease="1m").hold() as item:
            self.client.attach(item.ack_subject).term("x")
        q.push("g")
        with self.assertRaises(NotLeasedError):
            q.pop().hold()

    def test_workers(self) -> None:
        q = self.client.queue(fresh())
        q.push_many([str(n) for n in range(6)])
        both = threading.Barrier(2)
        threads = set()

        def work(item: sync.Item) -> None:
            both.wait(PATIENCE)
            threads.add(threading.get_ident())

        q.consume(work, concurrency=2, limit=6).wait()
        self.assertEqual(len(threads), 2)
        self.assertNotIn(threading.get_ident(), threads)
        self.assertEqual(q.info()["leased"], 0)

    def test_a_busy_handler_keeps_its_lease(self) -> None:
        q = self.client.queue(fresh())
        q.push("a")
        began = threading.Event()

        def work(item: sync.Item) -> None:
            first = item.lease_expires
            began.set()
            late = time.monotonic() + PATIENCE
            while not (first and item.lease_expires and item.lease_expires > first):
                assert time.monotonic() < late

        with q.consume(work, lease=3):
            self.until("it works", began)
        self.assertEqual((q.info()["ready"], q.info()["leased"]), (0, 0))

    def test_stop_hands_back(self) -> None:
        q = self.client.queue(fresh())
        q.push("a")
        began = threading.Event()

        def work(item: sync.Item) -> None:
            began.set()
            item.lost.wait(PATIENCE)
            raise pqbridge.RetryAfter(0)

        consumer = q.consume(work, lease="1h")
        self.until("it works", began)
        consumer.stop(grace=0)
        self.assertEqual(q.pop().text, "a")

    def test_events(self) -> None:
        q = self.client.queue(fresh())
        with self.client.events(q.name, "dead") as events:
            q.push("a")
            q.pop(lease="1m").term("why")
            self.assertEqual(next(events).reason, "why")

    def test_a_child_of_a_fork(self) -> None:
        """It says at once that the client is not its own, and leaves the connection alone."""
        q = self.client.queue(fresh())
        q.push("a")
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))  # it would wait for a thread that the fork has not taken along
            try:
                q.push("b")
            except UnavailableError as err:
                self.client.close()
                with sync.connect(URL, timeout=PATIENCE) as own:
                    own.queue(q.name).push("c")
                os._exit(0 if "another process" in str(err) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual([item.text for item in q.pop_many(9)], ["a", "c"])

    def test_what_has_patched_threads(self) -> None:
        for name, says in (("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")):
            patcher = types.SimpleNamespace(**{says: lambda name: True})
            with patch.dict(sys.modules, {name: patcher}), patch.dict(background._loops, clear=True):
                with self.assertRaisesRegex(RuntimeError, f"^{name.split('.')[0]} has patched"):
                    sync.connect(URL)

    def test_handlers(self) -> None:
        q = self.client.queue(fresh())

        async def work(item: sync.Item) -> None:
            raise AssertionError

        class Works:
            async def __call__(self, item: sync.Item) -> None:
                raise AssertionError

        for handler in (work, Works()):
            with self.assertRaisesRegex(TypeError, "which is asynchronous"):
                q.consume(handler)
        with self.assertRaisesRegex(ValueError, "^concurrency is 0: expected"):
            q.consume(print, concurrency=0)
        with self.assertRaisesRegex(TypeError, "^the change is None: expected a mapping"):
            q.configure(None)  # type: ignore[arg-type]

    def test_an_item_shows_what_it_has(self) -> None:
        q = self.client.queue(fresh())
        q.push("a", priority=3, headers={"H": "1"})
        item = q.pop()
        for name, value in {"text": "a", "priority": 3, "headers": {"H": ["1"]}, "deliveries": 0, "queue": q.name, "failures": 0}.items():
            self.assertIn(name, dir(sync.Item))
            self.assertEqual(getattr(item, name), value)

    def test_a_consumer_that_has_stopped_keeps_nothing(self) -> None:
        q = self.client.queue(fresh())
        q.consume(lambda item: None, lease="1h").stop(grace=0)
        q.push("a")
        self.assertEqual(q.pop(wait=PATIENCE).text, "a")  # the abandoned pop may have had it
