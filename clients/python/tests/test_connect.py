"""The first connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import urlparse

import pqbridge
from pqbridge import ForbiddenError, PQError, UnavailableError, sync
from pqbridge.client import _end
from pqbridge.mailbox import Mailbox
from test_repeat import Proxy
from world import PATIENCE, RISING, URL, TestCase, fresh, quiet


def closed_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def named(password: str) -> str:
    return URL.replace("//", f"//all:{password}@")


class First(TestCase):
    async def failure(self, servers: str | list[str], kind: type[PQError], **options: object) -> str:
        return str(await self.fails(pqbridge.connect(servers, **options)._connect(), kind))  # type: ignore[arg-type]

    async def test_a_closed_port(self) -> None:
        closed = closed_port()
        for options in ({}, {"allow_reconnect": False}, {"max_reconnect_attempts": 1, "reconnect_time_wait": 0.01}):
            with self.subTest(options):
                for within in RISING:
                    said = await self.failure(f"nats://ann:secret@{closed}", UnavailableError, connect_timeout=within, **options)
                    if "no answer" not in said:
                        break
                self.assertRegex(said, f"^connect: no connection to NATS at nats://{closed}: .*(refused|Connect call failed).*503")
        self.assertIn("invalid hostname", await self.failure("", UnavailableError))
        self.assertRegex(await self.failure([closed, closed_port()], UnavailableError, connect_timeout=0.1), f"at {closed}, 127.0.0.1:.*503")

    async def test_an_error_has_no_login(self) -> None:
        closed = closed_port()
        for login in ("u:SECRET", "SECRET", "u:SEC/RET", "u:SEC#RET", "u:SEC?RET", "u:SEC RET", "u:SEC,RET", "u:SEC@RET", "u:SEC%RET", "u:SEC[RET", "u:1/SECRET"):
            for servers in (f"nats://{login}@{closed}", f"{login}@{closed}", [f"nats://{closed}", f"nats://{login}@{closed}"]):
                with self.subTest(servers):
                    said = await self.failure(servers, UnavailableError, connect_timeout=0.1, allow_reconnect=False)
                    self.assertNotRegex(said, "SEC|RET")
                    self.assertIn(closed, said)

    async def test_a_token_is_no_user(self) -> None:
        for url, such in (("nats://ann:SECRET@h", 'such as "_INBOX.ann"'), ("nats://SECRET@h", "one that its permissions have"), ("nats://h", "one that its permissions have")):
            mailbox: Any = SimpleNamespace(nc=SimpleNamespace(connected_url=urlparse(url), options={}), _prefix="_INBOX.x.", _refused=None)
            said = str(Mailbox._refused_at(mailbox, "*"))
            self.assertIn(such, said)
            self.assertNotIn("SECRET", said)

    async def test_a_wrong_password(self) -> None:
        said = await self.failure(named("wrong"), ForbiddenError)  # at once, or the test does not end
        self.assertRegex(said, f"at {URL}: .*Authorization Violation.*403")

    async def test_a_silent_port(self) -> None:
        silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        self.addCleanup(silent.close)
        await self.failure("nats://127.0.0.1:%d" % silent.sockets[0].getsockname()[1], UnavailableError, connect_timeout=0.2)

    async def test_for_ever(self) -> None:
        proxy = await Proxy.start(self)
        proxy.refuse = True
        connecting = asyncio.ensure_future(self.connect(proxy.url, connect_timeout=None))
        await self.until("it has tried", lambda: proxy.refused > 1)
        proxy.refuse = False
        await (await asyncio.wait_for(connecting, PATIENCE)).queue(fresh()).push("x")

    async def test_a_cancellation_that_is_lost(self) -> None:
        async def stubborn() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        await asyncio.wait_for(_end(task), PATIENCE)
        self.assertTrue(task.cancelled())

    async def test_options(self) -> None:
        for wrong, what in (({"timeoutt": 3}, "expected timeout"), ({"zzz": 1}, "one of its own"), ({"error_cb": print}, "asynchronous")):
            with self.assertRaisesRegex(TypeError, what):
                pqbridge.connect(URL, **wrong)
        with self.assertRaises(ValueError):
            pqbridge.connect(URL, connect_timeout=0)


def variable(value: str | None) -> Any:
    """NATS_URL with this value, or without one."""
    others = {name: text for name, text in os.environ.items() if name != "NATS_URL"}
    return mock.patch.dict(os.environ, others if value is None else {**others, "NATS_URL": value}, clear=True)


class Variable(TestCase):
    """NATS_URL is for programs that give no address, as for pq and pqd."""

    async def test_what_it_says(self) -> None:
        here = "nats://127.0.0.1:4222"
        for value, servers in ((None, here), ("", here), ("h", "h"), (" tls://h:1 ", "tls://h:1"), ("a, nats://u:p@b:2,,c", ["a", "nats://u:p@b:2", "c"])):
            with self.subTest(value), variable(value):
                self.assertEqual(pqbridge.connect()._servers, servers)
                self.assertEqual(pqbridge.connect("nats://given")._servers, "nats://given")
        with variable(", ,"), self.assertRaisesRegex(ValueError, "^NATS_URL is ', ,': expected addresses such as nats://"):
            pqbridge.connect()

    async def test_a_program_finds_its_server(self) -> None:
        for value in (URL, f"nats://{closed_port()},{URL}"):
            with variable(value):
                async with pqbridge.connect(timeout=PATIENCE, connect_timeout=PATIENCE, error_cb=quiet) as client:
                    await client.queue(fresh()).push("x")

    async def test_an_error_has_no_login(self) -> None:
        closed = closed_port()
        with variable(f"nats://u:SECRET@{closed},nats://SECRET@{closed}"):
            err = await self.fails(pqbridge.connect(connect_timeout=0.1, error_cb=quiet)._connect(), UnavailableError)
        self.assertIn(f"at nats://{closed}, nats://{closed}: ", str(err))
        self.assertNotIn("SECRET", str(err))


class Synchronous(unittest.TestCase):
    def test_the_variable(self) -> None:
        with variable(URL), sync.connect(timeout=PATIENCE) as client:
            client.queue(fresh()).push("x")

    def test_it_fails(self) -> None:
        with self.assertRaisesRegex(UnavailableError, "no connection to NATS at"):
            sync.connect(closed_port(), connect_timeout=0.1)
        with self.assertRaises(ForbiddenError):
            sync.connect(named("wrong"), timeout=PATIENCE)
