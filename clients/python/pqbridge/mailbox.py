"""The mailbox receives the answers to all requests of a client. The requests of nats-py do not
suffice: they end with the first message of a batch, and drop late answers, leased items included.

An answer that is under way when the connection breaks never arrives. So the mailbox tells all open
requests when the connection is a new one, and requests are sent only while there is one. nats-py
tells such things to the functions that its connect was given, and to nobody who comes later. So
the mailbox looks, while a request is open.

The last token of a reply subject is random: bridges answer to the inbox that a request names, so a
client that could guess another client's inbox could send it answers.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from .bundle import unbundled
from .deadline import Deadline
from .errors import FORBIDDEN, TOO_LARGE, UNAVAILABLE, PQError, error_of
from .message import Message
from .subjects import AckSubjects

_LOOK_EVERY = 0.05
_LOOK_FOR_CONNECTION_EVERY = 0.01

_DENIED = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)

# The first line of a header block, and the empty one behind it.
_HEADERS_FRAME = len(b"NATS/1.0\r\n\r\n")


def random_token() -> str:
    """128 random bits as a token of a subject."""
    return secrets.token_hex(16)


class Request(NamedTuple):
    """What is sent, and for what."""

    op: str
    queue: str
    subject: str
    headers: dict[str, str] | None
    body: bytes


class Addressee(Protocol):
    """A request that waits for answers."""

    subject: str

    def deliver(self, m: Message) -> None: ...

    def reconnect(self) -> None:
        """An answer to what was sent before may be lost."""

    def fail(self, cause: BaseException) -> None:
        """No answer will come."""

    def deny(self, cause: BaseException, certain: bool) -> None:
        """The server does not let it pass; certain: this one, and no other with its subject."""


class HeaderList(dict[str, str]):
    """Headers that may repeat a name. nats-py writes what items says."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


def headers_size(headers: dict[str, str] | None) -> int:
    """The bytes of headers as nats-py writes them."""
    if not headers:
        return 0
    return _HEADERS_FRAME + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())


class Mailbox:
    def __init__(self, nc: Connection, inbox_prefix: str | None, acks: AckSubjects) -> None:
        self.nc = nc
        self.acks = acks
        inbox = nc.new_inbox() if inbox_prefix is None else f"{inbox_prefix}.{random_token()}"
        self._prefix = inbox + "."
        self._open: dict[str, Addressee] = {}
        self._late: dict[str, Callable[[Message], None]] = {}
        self._subscribing = asyncio.Lock()
        self._subscribed = False
        self._subscription: Subscription | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._reconnects = 0
        self._last_error: BaseException | None = None

    @property
    def connected(self) -> bool:
        return self.nc.is_connected

    @property
    def closed(self) -> bool:
        """Whether there will be no connection any more."""
        return self.nc.is_closed or self.nc.is_draining

    async def subscribe(self) -> None:
        """Has to be called before receive. It does not wait for the server, so requests keep their order."""
        if self._subscribed:
            return
        async with self._subscribing:
            if not self._subscribed:
                self._subscription = await self.nc.subscribe(self._prefix + "*", cb=self._deliver, pending_bytes_limit=0)
                self._subscribed = True

    async def end(self) -> None:
        """Gives back what has arrived for nobody. What arrives later the bridge takes back, because nobody listens."""
        if self._subscription is None or not self.connected:
            return
        try:
            await self._subscription.drain()  # type: ignore[no-untyped-call]
            await self.nc.flush()
        except (nats.errors.Error, OSError):
            pass  # the connection is lost, or slow; leases run out

    def receive(self, addressee: Addressee) -> str:
        """A new reply subject. Messages on it go to the addressee until stop is called."""
        if self._watcher is None or self._watcher.done():
            self._reconnects, self._last_error = self.nc.stats["reconnects"], self.nc.last_error
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
        token = random_token()
        self._open[token] = addressee
        return self._prefix + token

    def stop(self, reply: str) -> None:
        self._open.pop(reply[len(self._prefix) :], None)

    def late(self, reply: str, deliver: Callable[[Message], None], seconds: float) -> None:
        """What arrives on a reply subject goes to a function for some time longer."""
        token = reply[len(self._prefix) :]
        self._open.pop(token, None)
        self._late[token] = deliver
        asyncio.get_running_loop().call_later(seconds, self._late.pop, token, None)

    async def _deliver(self, m: Msg) -> None:
        token = m.subject[len(self._prefix) :]
        addressee = self._open.get(token)
        if addressee is not None:
            addressee.deliver(Message.of(m))
            return
        deliver = self._late.get(token, self.give_back)
        for one in unbundled(Message.of(m)):
            deliver(one)

    def give_back(self, m: Message) -> None:
        """Returns the item of a late answer to its queue, so that others need not wait for its lease to
        run out. If that fails, the lease does run out."""
        if m.is_item:
            self.drop(self.acks.of(None, m))

    def drop(self, ack: str) -> None:
        """Gives a lease back without waiting for an answer."""
        if ack and self.connected:
            background(self.nc.publish(ack, b"-NAK 0s"))  # nobody worked on it: no backoff

    async def _watch(self) -> None:
        while self._open:
            await asyncio.sleep(_LOOK_EVERY)
            if self.nc.is_closed:
                for addressee in list(self._open.values()):
                    addressee.fail(nats.errors.ConnectionClosedError())
                return
            error = self.nc.last_error
            if error is not None and error is not self._last_error:
                self._deny(error)
            self._last_error = error
            reconnects = self.nc.stats["reconnects"]
            if reconnects != self._reconnects and self.connected:
                self._reconnects = reconnects
                for addressee in list(self._open.values()):
                    addressee.reconnect()

    def _deny(self, cause: BaseException) -> None:
        """The server says which subject a client may not publish to, and not which message that was."""
        denied = _DENIED.search(str(cause))
        if denied:
            found = [one for one in self._open.values() if one.subject == denied[1]]
            for one in found:
                one.deny(cause, len(found) == 1)

    async def up(self, deadline: Deadline) -> None:
        """Waits until there is a connection, or will be none, or the deadline is over."""
        while not self.connected and not self.closed and not deadline.over:
            await asyncio.sleep(min(_LOOK_FOR_CONNECTION_EVERY, deadline.left))

    async def publish(self, request: Request, reply: str) -> None:
        """Sends a request. A failure says that it was not sent."""
        size = len(request.body) + headers_size(request.headers)
        if size > self.nc.max_payload:
            raise error_of(request.op, request.queue, TOO_LARGE, f"{size} bytes: the NATS server takes {self.nc.max_payload}")
        try:
            await self.nc.publish(request.subject, request.body, reply, request.headers)
        except nats.errors.Error as cause:
            raise no_connection(request, cause) from cause


_running: set[asyncio.Task[None]] = set()


def background(work: Any) -> None:
    """Runs a coroutine whose failure means nothing."""

    async def run() -> None:
        try:
            await work
        except Exception:  # the connection is closed
            pass

    task = asyncio.get_running_loop().create_task(run())
    _running.add(task)
    task.add_done_callback(_running.discard)


def denial(request: Request, cause: BaseException) -> PQError:
    """The error of a request that the server does not let pass."""
    text = f"the NATS server does not permit this user to publish to {request.subject}"
    return error_of(request.op, request.queue, FORBIDDEN, text, cause=cause)


def no_connection(request: Request, cause: BaseException | None) -> PQError:
    text = f"the connection to NATS is closed: {cause}" if cause else "there was no connection to NATS, or no room for the push"
    return error_of(request.op, request.queue, UNAVAILABLE, text, cause=cause or TimeoutError("the time is up"))
