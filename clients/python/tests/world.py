"""What the tests share: connections to the pqd that runs beside them, and stand-ins for bridges."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import unittest
from collections.abc import Awaitable, Callable
from typing import Any

import nats
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

import pqbridge
from pqbridge.deadline import Deadline
from pqbridge.mailbox import Request

URL = os.environ["NATS_URL"]  # the address of a pqd

# Long, because test machines can be very busy.
SLOW = float(os.environ.get("PQ_TEST_SLOW", "1"))  # how much longer things take than on a machine that runs the tests alone
PATIENCE = 60 * SLOW
# How long a port may take to refuse, in tests that wait for all of it: a busy machine gets more if it needs that.
RISING = (0.5, 5.0, PATIENCE)

_names = itertools.count()


def fresh(what: str = "q") -> str:
    """A name that no other test has."""
    return f"{what}-{os.getpid()}-{next(_names)}"


class Answer:
    """A message for a bridge's stand-in to answer with."""

    def __init__(self, headers: dict[str, str] | None = None, body: str = "", reply: str = "") -> None:
        self.headers, self.body, self.reply = headers, body, reply


def failure(code: int, reason: str = "", text: str = "no") -> Answer:
    headers = {"Status": str(code), "Nats-Service-Error": text, "Nats-Service-Error-Code": str(code)}
    return Answer({**headers, "PQ-Reason": reason} if reason else headers)


def pushed(**fields: Any) -> Answer:
    return Answer(body=json.dumps({"type": "io.pq.v1.push_response", "stream": "q", "seq": 1, "id": "i", "priority": 0, **fields}))


class Fake:
    """A client whose requests a stand-in answers."""

    client: pqbridge.Client
    bridge: Connection
    prefix: str

    def __init__(self) -> None:
        self.requests: list[tuple[str, Msg]] = []

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.requests]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(m.data) if m.data else {} for _, m in self.requests]


class TestCase(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = await self.connect()

    async def connect(self, url: str = URL, **options: Any) -> pqbridge.Client:
        # A request that a busy machine answers late is not repeated: what is refused then is in doubt.
        client = await pqbridge.connect(url, **{"timeout": PATIENCE, "connect_timeout": PATIENCE, "ask_again_after": PATIENCE, "reconnect_time_wait": 0.02, "error_cb": quiet, **options})
        self.addAsyncCleanup(client.close)
        return client

    def queue(self, client: pqbridge.Client | None = None) -> pqbridge.Queue:
        """A queue of its own for a test."""
        return (client or self.client).queue(fresh())

    async def until(self, what: str, true: Callable[[], Any]) -> None:
        """Waits until something is true."""
        late = asyncio.get_running_loop().time() + PATIENCE
        while True:
            found = true()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return
            self.assertLess(asyncio.get_running_loop().time(), late, f"it was not true in time that {what}")
            await asyncio.sleep(0.005)

    async def fails(self, work: Awaitable[Any], kind: type[BaseException], code: int | None = None, reason: str = "") -> Any:
        """The error of some work, of a class, with a code and a reason."""
        with self.assertRaises(kind) as found:
            await work
        err = found.exception
        self.assertIs(type(err), kind)
        if isinstance(err, pqbridge.PQError) and code is not None:
            self.assertEqual((err.code, err.reason), (code, reason), str(err))
        return err

    async def fake(self, respond: Callable[[str, int, Msg], Answer | list[Answer] | None], **options: Any) -> Fake:
        """A stand-in answers with what the function returns for a request and its number, from 1. Without an
        answer there is none."""
        fake = Fake()
        fake.prefix = fresh("fake")
        fake.bridge = await nats.connect(URL, error_cb=quiet)
        self.addAsyncCleanup(fake.bridge.close)

        async def serve(m: Msg) -> None:
            verb = m.subject[len(fake.prefix) + 1 :]
            fake.requests.append((verb, m))
            found = respond(verb, len(fake.requests), m)
            for one in found if isinstance(found, list) else [found] if found else []:
                await fake.bridge.publish(m.reply, one.body.encode(), one.reply, one.headers)

        await fake.bridge.subscribe(f"{fake.prefix}.>", cb=serve)
        await fake.bridge.flush()
        fake.client = await self.connect(prefix=fake.prefix, **{"ask_again_after": 0.5 * SLOW, **options})
        return fake

    async def lossy(self, **options: Any) -> tuple[pqbridge.Client, list[str]]:
        """A client whose requests go through a stand-in that loses the answer to the first request of each
        verb, after pqd has done it."""
        prefix = fresh("lossy")
        between = await nats.connect(URL, error_cb=quiet)
        self.addAsyncCleanup(between.close)
        lost: list[str] = []

        async def serve(m: Msg) -> None:
            subject = "pq." + m.subject[len(prefix) + 1 :]
            verb = subject.split(".")[2]
            if verb in lost:
                await between.publish(subject, m.data, m.reply, m.headers)
                return
            lost.append(verb)
            await between.request(subject, m.data, timeout=PATIENCE, headers=m.headers)

        await between.subscribe(f"{prefix}.>", cb=serve)
        await between.flush()
        client = await self.connect(prefix=prefix, bridge_prefix="pq", **{"ask_again_after": 0.5 * SLOW, **options})
        await client.mailbox.up(Request("", "", "", None, b""), Deadline(PATIENCE))  # no part of the first request's timeout
        return client, lost


async def quiet(err: Exception) -> None:
    """Connections that break are what some tests are about."""
