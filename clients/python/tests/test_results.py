"""Results: what became of an item, asked for and waited for."""

from __future__ import annotations

import asyncio
import pickle
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import nats.errors

from pqbridge import (
    BadRequestError,
    BusyError,
    ConflictError,
    ForbiddenError,
    Import,
    Item,
    NewItem,
    NoResultYetError,
    NotFoundError,
    PQError,
    Result,
    SettledError,
    TooLargeError,
    UnavailableError,
    UnknownResultError,
    sync,
)
from test_repeat import Proxy
from test_together import Together
from world import PATIENCE, SLOW, URL, Answer, TestCase, failure, fresh, quiet


def waits(m: Any) -> str:
    """How long a request is to wait."""
    return str(m.headers["PQ-Wait"])


AT = "2030-01-02T03:04:05.000006Z"
PUSHED = Answer(body='{"seq": 1, "id": "i", "priority": 0}')
DONE = Answer({"PQ-Outcome": "done", "PQ-Finished-At": AT, "PQ-Deliveries": "1"}, "12 boards")


class Results(TestCase):
    async def test_results_that_are_asked_for(self) -> None:
        q, other = self.queue(), self.queue()
        first = await q.push("x", result_ttl=90)
        [second, third] = await q.push_many([NewItem("y", result_ttl="25h"), "z"])
        for done, kept in (first, 600.0), (second, 168 * 3600.0), (third, 0.0):
            item = await q.get(done.id)
            self.assertEqual(item.result_ttl, kept)
            await other.import_item(Import.of(item))
            self.assertEqual((await other.get(done.id)).result_ttl, kept)
        for queue in q, other:
            self.assertEqual([i.result_ttl async for i in queue.list()], [600.0, 168 * 3600.0, 0.0])
        await q.configure({"result_bytes": 300})
        none = (await self.connect(retry_for=0.001)).queue(q.name)
        await self.fails(none.push("x", result_ttl=timedelta(hours=1)), BusyError, 429, "results")
        err = await self.fails(none.push_many(["x", NewItem("y", result_ttl="1h")]), BusyError, 429, "results")
        self.assertEqual(err.item, 1)
        await none.push("x")

    async def test_a_caller_waits_for_its_worker(self) -> None:
        q = self.queue()

        async def work(item: Item) -> None:
            self.assertEqual(item.text, "a fence")
            await item.ack(result=b"12 \xff\n boards")

        async with q.consume(work):
            found = await q.push_and_wait("a fence", wait=PATIENCE, priority=3)
        self.assertEqual((found.outcome, found.body, found.dropped, found.deliveries, found.next), ("done", b"12 \xff\n boards", False, 1, ""))
        self.assertLess(abs(found.finished_at - datetime.now(timezone.utc)), timedelta(seconds=PATIENCE))

    async def test_what_becomes_of_an_item(self) -> None:
        q, two = self.queue(), self.queue()
        await q.configure({"hand_over": two.name})
        pushed = await q.push("x", result_ttl="1h")
        err = await self.fails(q.result(pushed.id), NoResultYetError, 404, "pending")
        self.assertEqual((err.op, err.queue, err.id, err.__cause__), ("result", q.name, pushed.id, None))
        err = await self.fails(q.result(pushed.id, wait=0.01), NoResultYetError, 408)
        self.assertEqual((err.id, str(err)), (pushed.id, f"result {q.name}: job {pushed.id} goes on: ask again with result (408)"))
        self.assertEqual(err.progress, "")
        item = await q.pop(lease="1m")
        await item.report("3 of 9, zu spät")
        err = await self.fails(q.result(pushed.id), NoResultYetError, 404, "pending")
        self.assertEqual(err.progress, "3 of 9, zu spät")
        await item.ack(result='{"boards": 12}')
        await self.fails(item.ack(result="again"), SettledError)
        self.assertEqual((await q.result(pushed.id)).json(), {"boards": 12})
        self.assertEqual((await q.result(pushed.id, wait="1h")).text, '{"boards": 12}')

        pushed = await q.push("x", result_ttl="1h")
        await (await q.pop(lease="1m")).term("no wood")
        dead = await self.client.queue(q.name + "-dead").peek()
        found = await q.result(pushed.id)
        self.assertEqual((found.outcome, found.body, found.reason, found.dead_letter, found.next_id), ("dead", b"", "no wood", dead.queue, dead.id))
        self.assertEqual(found.cause, "no wood")

        await q.configure({"max_deliveries": 1})
        pushed = await q.push("x", result_ttl="1h")
        await (await q.pop(lease="1m")).nak(reason="no nails")
        found = await q.result(pushed.id)
        self.assertEqual((found.outcome, found.reason, found.cause), ("dead", "max_deliveries", "no nails"))

        pushed = await q.push("x", result_ttl="1h")
        after = await (await q.pop(lease="1m")).hand_over(two, "y")
        found = await q.result(pushed.id)
        self.assertEqual((found.outcome, found.next, found.next_id), ("handed_over", two.name, after.id))

        plain = await q.push("x")
        await self.fails(q.result(plain.id), ConflictError, 409, "unkept")
        await (await q.pop(lease="1m")).ack(result="for nobody")
        await self.fails(q.result(plain.id, wait=PATIENCE), NotFoundError, 404, "unknown")

    async def test_no_room(self) -> None:
        q = self.queue()
        pushed = await q.push("x", result_ttl="1h")
        await q.configure({"result_bytes": 325})
        await (await q.pop(lease="1m")).ack(result="123456")
        found = await q.result(pushed.id)
        self.assertEqual((found.outcome, found.body, found.dropped), ("done", b"", True))

    async def test_another_call_with_the_id_waits_on(self) -> None:
        q = self.queue()
        err = await self.fails(q.push_and_wait("x", wait=0.01, msg_id="m"), NoResultYetError, 408)
        await (await q.pop(lease="1m")).ack(result="done")
        self.assertEqual((await q.result(err.id)).text, "done")
        self.assertEqual((await q.push_and_wait("x", wait=PATIENCE, msg_id="m")).text, "done")

    async def test_wrong_arguments(self) -> None:
        f = await self.fake(lambda verb, n, m: None)
        q = f.client.queue("jobs")
        item: Any = f.client.attach(f"{f.prefix}.jobs.ack.c.t")
        for wrong in (q.result("a.b"), q.result("i", wait="soon"), q.push_and_wait("x", wait=0), q.push_and_wait("x", wait=1, result_ttl="200h")):
            await self.fails(wrong, ValueError)
        err = await self.fails(item.ack(result=12), TypeError)
        self.assertEqual(str(err), "the result is 12: expected bytes or a text")
        self.assertEqual((f.requests, item.settled), ([], False))

    async def test_errors_do_nothing_to_a_terminal(self) -> None:
        """Whoever answers in the place of pqd may send any text."""
        text = "\x1b]0;title\x07 \u202e zu spät"
        f = await self.fake(lambda verb, n, m: failure(404, "unknown", text))
        err = await self.fails(f.client.queue("jobs").result("i"), NotFoundError, 404, "unknown")
        self.assertEqual((err.text, str(err)), (text, r"result jobs: \x1b]0;title\x07 \u202e zu spät (404)"))

    async def test_what_it_asks_for(self) -> None:
        f = await self.fake(lambda verb, n, m: PUSHED if verb.startswith("jobs.push") else DONE)
        q = f.client.queue("jobs")
        found = await q.push_and_wait(json=[1], wait=5, key="k")
        self.assertEqual(found, Result("done", b"12 boards", False, datetime(2030, 1, 2, 3, 4, 5, 6, timezone.utc), 1, "", "", "", ""))
        push, asked = (m for _, m in f.requests)
        assert push.headers and asked.headers
        self.assertEqual((push.data, push.headers["PQ-Key"], push.headers["PQ-Result-TTL"]), (b"[1]", "k", "600000ms"))
        self.assertEqual((f.verbs[1], asked.data, list(asked.headers)), ("jobs.result.i", b"", ["PQ-Wait"]))
        await q.result("i")
        self.assertFalse(f.requests[2][1].headers)

    async def test_answers_that_cannot_be_read(self) -> None:
        assert DONE.headers
        for name, value in {"PQ-Finished-At": "soon", "PQ-Deliveries": "many", "PQ-Outcome": None}.items():
            headers = {**DONE.headers, name: value}
            f = await self.fake(lambda verb, n, m: Answer({name: value for name, value in headers.items() if value}, "x"), timeout=SLOW)
            with self.assertRaisesRegex(Exception, "cannot be read"):
                await f.client.queue("jobs").result("i")


class Waits(TestCase):
    async def test_they_go_on_after_what_ends_a_request(self) -> None:
        """After 408 of a bridge that does not see the client, an answer that is lost, and a bridge that restarts."""
        answers = {1: failure(408), 3: failure(503), 4: failure(409), 5: DONE}
        f = await self.fake(lambda verb, n, m: answers.get(n), ask_again_after=0.1 * SLOW)
        wait = asyncio.create_task(f.client.queue("jobs").result("i", wait=0.5 * SLOW))
        self.assertEqual((await wait).text, "12 boards")
        self.assertTrue(all(waits(m) for _, m in f.requests))
        self.assertEqual(len({m.reply for _, m in f.requests}), 5)

    async def test_a_long_one_takes_several_requests(self) -> None:
        f = await self.fake(lambda verb, n, m: failure(408) if n == 1 else DONE)
        await f.client.queue("jobs").result("i", wait="10h")
        self.assertEqual([waits(m) for _, m in f.requests], ["10000ms"] * 2)

    async def test_pauses_between_early_ends_grow(self) -> None:
        """A bridge that has no room for waits ends them at once, and is not asked all the time."""
        f = await self.fake(lambda verb, n, m: failure(408) if n < 9 else DONE)
        with mock.patch("pqbridge.retry.backoff", return_value=0.0) as paused:
            await f.client.queue("jobs").result("i", wait="10h")
        self.assertEqual([n for (n, _, _), _ in paused.call_args_list], [1, 2, 3, 4, 5, 6, 7, 8])

    async def test_they_end(self) -> None:
        f = await self.fake(lambda verb, n, m: failure(408))
        err = await self.fails(f.client.queue("jobs").result("i", wait=0.1), NoResultYetError, 408)
        self.assertEqual((err.op, err.id), ("result", "i"))

    async def test_a_lost_connection(self) -> None:
        proxy = await Proxy.start(self)
        c = await self.connect(proxy.url)
        q = self.queue()
        pushed = await q.push("x", result_ttl="1h")
        asked = asyncio.create_task(c.queue(q.name).result(pushed.id, wait=PATIENCE))
        await self.until("it was sent", lambda: b".result." in proxy.sent)
        proxy.cut()
        await self.until("there is a new connection", lambda: c.connection.stats["reconnects"])
        await (await q.pop(lease="1m")).ack(result="done")
        self.assertEqual((await asked).text, "done")

    async def test_nobody_listens_for_one_that_was_cancelled(self) -> None:
        f = await self.fake(lambda verb, n, m: None)
        asked = asyncio.create_task(f.client.queue("jobs").result("i", wait="1h"))
        await self.until("it was sent", lambda: f.requests)
        asked.cancel()
        await asyncio.wait({asked})
        await f.client.connection.flush()
        await self.fails(f.bridge.request(f.requests[0][1].reply, timeout=PATIENCE), nats.errors.NoRespondersError)


class BehindAPush(TestCase):
    """What push_and_wait says when its push has taken effect, and the answer is missing."""

    async def error(self, answer: Answer | None, kind: type[BaseException], **options: Any) -> Any:
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else answer, **options)
        return await self.fails(f.client.queue("jobs").push_and_wait("x", wait=0.01), kind)

    async def test_the_job_goes_on(self) -> None:
        for code, reason, cause in ((503, "", UnavailableError), (409, "", BusyError), (429, "busy", BusyError), (504, "", UnknownResultError)):
            with self.subTest(code):
                err = await self.error(failure(code, reason), NoResultYetError, retry_for=0.001)
                self.assertEqual((err.id, err.queue, err.code, err.reason, type(err.__cause__)), ("i", "jobs", code, reason, cause))
                self.assertEqual(str(err), f"result jobs: job i goes on: ask again with result ({code})")
        err = await self.error(None, NoResultYetError, timeout=SLOW)
        self.assertEqual((err.id, err.code, type(err.__cause__)), ("i", 504, UnknownResultError))

    async def test_other_errors_are_their_own(self) -> None:
        await self.error(failure(403), ForbiddenError)
        await self.error(failure(404, "unknown"), NotFoundError)
        await self.error(failure(409, "unkept"), ConflictError)

    async def test_a_connection_that_ends(self) -> None:
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else None)
        asked = asyncio.create_task(f.client.queue("jobs").push_and_wait("x", wait="1h"))
        await self.until("it waits", lambda: len(f.requests) == 2)
        await f.client.connection.close()
        err = await self.fails(asked, NoResultYetError, 504)
        self.assertEqual((err.id, type(err.__cause__)), ("i", UnknownResultError))

    async def test_a_push_that_fails(self) -> None:
        for answer, kind, code in ((failure(503), UnavailableError, 503), (failure(429, "full"), BusyError, 429), (None, UnknownResultError, 504)):
            f = await self.fake(lambda verb, n, m: answer, retry_for=0.001, timeout=SLOW)
            err = await self.fails(f.client.queue("jobs").push_and_wait("x", wait=1), kind, code, "full" if code == 429 else "")
            self.assertEqual((err.op, [verb for verb in f.verbs if "result" in verb]), ("push", []))

    async def test_a_cancellation(self) -> None:
        f = await self.fake(lambda verb, n, m: PUSHED if "push" in verb else None)
        asked = asyncio.create_task(f.client.queue("jobs").push_and_wait("x", wait="1h"))
        await self.until("it waits", lambda: len(f.requests) == 2)
        asked.cancel()
        await self.fails(asked, asyncio.CancelledError)

    async def test_who_only_asks_hears_why(self) -> None:
        for answer, kind, code in ((failure(503), UnavailableError, 503), (None, UnknownResultError, 504)):
            f = await self.fake(lambda verb, n, m: answer, retry_for=0.001, timeout=SLOW)
            await self.fails(f.client.queue("jobs").result("i", wait=0.01), kind, code)

    async def test_other_processes_get_it(self) -> None:
        err = pickle.loads(pickle.dumps(NoResultYetError("jobs", 404, "i", "pending", "1/2")))
        self.assertEqual((err.id, err.queue, err.code, err.reason, err.progress, isinstance(err, PQError)), ("i", "jobs", 404, "pending", "1/2", True))


class Settlements(Together):
    async def test_a_lost_answer(self) -> None:
        c, lost = await self.lossy()
        q = self.queue()
        pushed = await q.push("x", result_ttl="1h")
        await c.attach((await q.pop(lease="1m")).ack_subject).ack(result="done")
        self.assertEqual(lost, ["ack"])
        self.assertEqual((await q.result(pushed.id)).text, "done")

    async def test_a_result_has_a_message_of_its_own(self) -> None:
        c, seen = await self.through(lambda verb, n, m: None)
        q = self.queue()
        await q.push_many([str(n) for n in range(6)])
        items = await q.pop_many(6, lease="1m")
        await asyncio.gather(*(c.attach(item.ack_subject).ack(result=item.data if item.text == "3" else None) for item in items))
        self.assertEqual([m.data for m in seen if b" 3" in m.data or m.data == b"+ACK 3"], [b"+ACK 3"])
        self.assertLess(len(seen), 6)
        self.assertEqual((await q.info())["leased"], 0)

    async def test_a_result_that_is_too_large(self) -> None:
        q = self.queue()
        await q.push("x")
        item = await q.pop(lease="1m")
        await self.fails(item.ack(result=b"x" * (self.client.connection.max_payload - 100)), TooLargeError, 413)
        await item.extend()
        await item.ack(result="short")

    async def test_a_refused_result(self) -> None:
        """It is an error, and the acknowledgement is not sent without it."""
        for kind, code, text in ((BadRequestError, 400, "a settlement is followed by"), (TooLargeError, 413, "a settlement has 9000 bytes: allowed are 8192")):
            f = await self.fake(lambda verb, n, m: failure(code, text=text) if b" " in m.data else Answer())
            for _ in range(2):
                item = f.client.attach(f"{f.prefix}.jobs.ack.c.t")
                self.assertEqual((await self.fails(item.ack(result="x"), kind, code)).text, text)
                self.assertFalse(item.settled)
            self.assertEqual([m.data for _, m in f.requests], [b"+ACK x"] * 2)


class Synchronous(unittest.TestCase):
    def test_calls(self) -> None:
        with sync.connect(URL, timeout=PATIENCE, error_cb=quiet) as client:
            q = client.queue(fresh())
            pushed = q.push("a", result_ttl="1h")
            with q.consume(lambda item: item.ack(result=item.text + " is done")):
                self.assertEqual(q.result(pushed.id, wait=PATIENCE).text, "a is done")
                self.assertEqual(q.push_and_wait("b", wait=PATIENCE).text, "b is done")
            with self.assertRaises(NoResultYetError) as found:
                q.push_and_wait("c", wait=0.01)
            q.pop(lease="1m").ack(result="c is done")
            self.assertEqual(q.result(found.exception.id).text, "c is done")
