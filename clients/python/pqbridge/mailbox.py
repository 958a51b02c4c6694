"""The mailbox receives the answers to all requests of a client. The requests of nats-py do not
suffice: they end with the first message of a batch, and drop late answers, leased items included.

An answer that is under way when the connection breaks never arrives. So the mailbox tells all open
requests when the connection is a new one, and requests are sent only while there is one. nats-py
tells such things to the functions that its connect was given, and to nobody who comes later. So
the mailbox looks, while a request is open.

Nothing is sent before the server has the subscription of this connection: a user who may not subscribe to
the mailbox would pop an item and never get it. The server refuses a subscription without saying when it
accepts one, but it answers in order, so a flush tells.

A request that waits has a reply subject with a subscription of its own, which ends with the wait: a bridge
asks the server whether anybody still listens before it gives an item to a pop that has waited.

The last token of a reply subject is random: bridges answer to the inbox that a request names, so a
client that could guess another client's inbox could send it answers.
"""

from __future__ import annotations

import asyncio
import os
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
from .flushing import flush
from .message import Message
from .refusals import DENIED, listen
from .subjects import AckSubjects

_LOOK_EVERY = 0.05
_LOOK_FOR_CONNECTION_EVERY = 0.01

# How long an unsubscribed wait may still bring what was on its way.
_LAST_ANSWERS = 5.0

# How long the end of a client waits until the server has its last words.
_LAST_FLUSH = 10.0

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
    """Where it was sent."""

    def deliver(self, m: Message) -> None: ...

    def reconnect(self) -> None:
        """An answer to what was sent before may be lost."""

    def fail(self, cause: BaseException) -> None:
        """No answer will come."""

    def refuse(self, cause: BaseException) -> bool:
        """The server did not let a message with its subject pass. It says whether that was one of its own: on this
        connection, and neither answered nor refused yet."""

    def deny(self, cause: BaseException) -> None:
        """The server does not let its answers arrive."""


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


class InboxRefused(Exception):
    """The server does not let the user subscribe where answers arrive."""


class Mailbox:
    def __init__(self, nc: Connection, inbox_prefix: str | None, acks: AckSubjects) -> None:
        self.nc = nc
        self.acks = acks
        inbox = nc.new_inbox() if inbox_prefix is None else f"{inbox_prefix}.{random_token()}"
        self._prefix = inbox + "."
        self._open: dict[str, Addressee] = {}
        self._late: dict[str, Callable[[Message], None]] = {}
        self._waits: dict[str, Subscription] = {}  # by token
        self._leaving: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None
        self._process = os.getpid()
        self._ready = -1  # with how many reconnects the server was known to have the subscription
        self._opening: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._reconnects = 0
        self._heard: BaseException | None = None  # the last refusal of a subscription of its own: others may follow at once
        self._refused: BaseException | None = None  # the last refusal that the mailbox has heeded

    @property
    def connected(self) -> bool:
        return self.nc.is_connected

    @property
    def closed(self) -> bool:
        """Whether there will be no connection any more."""
        return self.nc.is_closed or self.nc.is_draining

    @property
    def ours(self) -> bool:
        """Whether this process made the connection: a child of a fork has a copy, which must not speak."""
        return self._process == os.getpid()

    async def up(self, request: Request, deadline: Deadline) -> None:
        """Waits until answers can arrive, or there will be no connection, or the deadline is over. It fails if
        the user may not subscribe to them. Requests keep their order."""
        if not self.ours:
            raise error_of(request.op, request.queue, UNAVAILABLE, "the client was made in another process, before a fork: expected one of this process", cause=RuntimeError())
        while not self._is_ready and not self.closed and not deadline.over:
            if not self.connected:
                await asyncio.sleep(min(_LOOK_FOR_CONNECTION_EVERY, deadline.left))
                continue
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open_up())
            await asyncio.wait({self._opening}, timeout=deadline.left)
            if self._opening.done() and not self._opening.cancelled():  # by the end of the client
                refused = self._opening.exception()
                if refused is not None:
                    raise denial(request, refused)

    @property
    def _is_ready(self) -> bool:
        return self.connected and self._ready == self.nc.stats["reconnects"]

    async def _open_up(self) -> None:
        """Subscribes on a new connection, and waits until the server has said whether it lets that be. A lost
        connection ends it, too."""
        reconnects = self.nc.stats["reconnects"]
        listen(self.nc, self)
        try:
            if self._subscription is None:  # otherwise nats-py has subscribed again
                self._subscription = await self.nc.subscribe(self._prefix + "*", cb=self._deliver, pending_bytes_limit=0)
            await flush(self.nc)
        except (nats.errors.Error, OSError):
            return
        if self._refusal() is not None:
            await self._close_up()
            raise self._refused_at("*")
        self._ready = reconnects

    def _refusal(self) -> str | None:
        """Where the server does not let answers arrive, if it has said so since it was asked last."""
        for error in (self._heard, self.nc.last_error):
            token = None if error is None or error is self._refused else self._token_in(error)
            if token is not None:
                self._refused = error
                return token
        return None

    def _token_in(self, refusal: BaseException) -> str | None:
        denied = DENIED.search(str(refusal))
        if denied is None or denied[1].lower() != "subscription" or not denied[2].lower().startswith(self._prefix.lower()):
            return None
        return denied[2][len(self._prefix) :]

    def _refused_at(self, token: str) -> InboxRefused:
        url = self.nc.connected_url
        user = self.nc.options.get("user") or (url.username if url and url.password else None)
        such = f'such as "_INBOX.{user}"' if isinstance(user, str) else "one that its permissions have"
        refused = InboxRefused(
            f"the NATS server does not permit this user to subscribe to {self._prefix}{token}, where answers arrive: expected another inbox_prefix, {such}"
        )
        refused.__cause__ = self._refused
        return refused

    async def _close_up(self) -> None:
        """The server has no such subscription any more."""
        self._ready = -1
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await unsubscribe(subscription)

    async def end(self) -> None:
        """Gives back what has arrived for nobody. What arrives later the bridge takes back, because nobody listens."""
        if self._opening is not None:
            self._opening.cancel()
        if self._subscription is None or not self.connected:
            return
        for token in list(self._waits):
            for one in self._waiting_at(token):
                one.fail(nats.errors.ConnectionClosedError())
            await self.leave(self._prefix + token, self.give_back)
        try:
            await self._subscription.drain()  # type: ignore[no-untyped-call]
            await self.left()
            await asyncio.wait_for(flush(self.nc), _LAST_FLUSH)
        except (nats.errors.Error, OSError, asyncio.TimeoutError):
            pass  # the connection is lost, or slow; leases run out

    async def left(self) -> None:
        """Waits until what had been sent to waits that were left is handed back."""
        while self._leaving:
            await asyncio.wait(self._leaving)

    def receive(self, addressee: Addressee) -> str:
        """A new reply subject. Messages on it go to the addressee until stop is called."""
        return self._expect(addressee, random_token())

    def _expect(self, addressee: Addressee, token: str) -> str:
        if self._watcher is None or self._watcher.done():
            self._reconnects = self.nc.stats["reconnects"]
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
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

    async def receive_waiting(self, addressee: Addressee) -> str:
        """A reply subject with a subscription of its own, until stop_waiting or leave is called."""
        token = f"w.{random_token()}"
        await self.listen(token)
        return self._expect(addressee, token)

    async def listen(self, token: str) -> None:
        self._waits[token] = await self.nc.subscribe(self._prefix + token, cb=self._deliver, pending_bytes_limit=0)

    def _waiting_at(self, token: str) -> list[Addressee]:
        """Those whose answers come by a subscription of waits."""
        if token.endswith(".*"):
            return [one for at, one in self._open.items() if at.startswith(token[:-1])]
        return [self._open[token]] if token in self._open else []

    async def stop_waiting(self, reply: str) -> None:
        """The answer has arrived, and nothing more is to come."""
        self.stop(reply)
        subscription = self._waits.pop(reply[len(self._prefix) :], None)
        if subscription is not None:
            await unsubscribe(subscription)

    async def leave(self, reply: str, deliver: Callable[[Message], None]) -> None:
        """Nobody waits any more, and the server knows before it gets whatever this connection sends next. What it had
        sent already goes to a function."""
        token = reply[len(self._prefix) :]
        subscription = self._waits.pop(token, None)
        if subscription is None:
            return
        self._open.pop(token, None)
        self._late[token] = deliver
        try:
            if self.connected:
                await self.nc._send_unsubscribe(subscription._id, 0)  # unsubscribe would drop what is on its way
        finally:
            task = asyncio.get_running_loop().create_task(self._left(token, subscription))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _left(self, token: str, subscription: Subscription) -> None:
        try:
            await asyncio.wait_for(flush(self.nc), _LAST_ANSWERS)
            while subscription.pending_msgs:
                await asyncio.sleep(0)  # while they are handed over
        except (nats.errors.Error, OSError, asyncio.TimeoutError):
            pass  # the answers are lost with their connection
        finally:
            await unsubscribe(subscription)
            self._late.pop(token, None)

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
            background(self.nc.publish(ack, b"+BACK"))  # nobody has begun with it

    async def _watch(self) -> None:
        while self._open:
            await asyncio.sleep(_LOOK_EVERY)
            if self.nc.is_closed:
                for addressee in list(self._open.values()):
                    addressee.fail(nats.errors.ConnectionClosedError())
                return
            self._look()

    def _look(self) -> None:
        """Whether the connection is a new one."""
        reconnects = self.nc.stats["reconnects"]
        if reconnects != self._reconnects and self.connected:
            self._reconnects = reconnects
            for addressee in list(self._open.values()):
                addressee.reconnect()

    async def refused(self, cause: BaseException) -> bool:
        """The server says which subject a client may not publish to, and not which message that was. It says so for
        each message, in their order."""
        self._look()
        if self._token_in(cause) is not None:
            self._heard = cause
        denied = DENIED.search(str(cause))
        if denied and denied[1].lower() == "publish":
            subject = denied[2].lower()
            for one in self._open.values():
                if one.subject.lower() == subject and one.refuse(cause):
                    break
        if not self._is_ready:
            return False  # the next request looks
        token = self._refusal()
        if token is not None and token in self._waits:
            for one in self._waiting_at(token):
                one.deny(self._refused_at(token))
        elif token is not None:  # the permissions have changed
            await self._close_up()
            for one in list(self._open.values()):
                one.deny(self._refused_at("*"))
        return False

    async def publish(self, request: Request, reply: str) -> None:
        """Sends a request. A failure says that it was not sent."""
        size = len(request.body) + headers_size(request.headers)
        if size > self.nc.max_payload:
            raise error_of(request.op, request.queue, TOO_LARGE, f"{size} bytes: the NATS server takes {self.nc.max_payload}")
        try:
            await self.nc.publish(request.subject, request.body, reply, request.headers)
        except nats.errors.Error as cause:
            raise no_connection(request, cause) from cause


class Listening:
    """Where the waits of one consumer are answered: a subscription for all of them, from the first one until leave is
    called. On a new connection it is another one: what waited on the former one has ended."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._token: str | None = None
        self._reconnects = 0
        self._n = 0

    async def receive(self, addressee: Addressee) -> str:
        """A reply subject, until the mailbox's stop is called for it."""
        mailbox = self._mailbox
        reconnects = mailbox.nc.stats["reconnects"]
        if self._token is not None and self._reconnects != reconnects:
            await self.leave()
        if self._token is None:
            self._token, self._reconnects = f"w.{random_token()}", reconnects
            await mailbox.listen(self._token + ".*")
        self._n += 1
        return mailbox._expect(addressee, f"{self._token}.{self._n}")

    async def leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            await self._mailbox.leave(f"{self._mailbox._prefix}{token}.*", self._mailbox.give_back)


async def unsubscribe(subscription: Subscription) -> None:
    try:
        await subscription.unsubscribe()
    except nats.errors.Error:
        pass  # there is no connection


_running: set[asyncio.Task[None]] = set()


def background(work: Any) -> asyncio.Task[None]:
    """Runs a coroutine whose failure means nothing."""

    async def run() -> None:
        try:
            await work
        except Exception:  # the connection is closed
            pass

    task = asyncio.get_running_loop().create_task(run())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def denial(request: Request, cause: BaseException) -> PQError:
    """The error of a request that the server does not let pass."""
    text = str(cause) if isinstance(cause, InboxRefused) else f"the NATS server does not permit this user to publish to {request.subject}"
    return error_of(request.op, request.queue, FORBIDDEN, text, cause=cause)


def no_connection(request: Request, cause: BaseException | None) -> PQError:
    text = f"the connection to NATS is closed: {cause}" if cause else "it was not sent: there was no connection to NATS, or earlier requests have no answer"
    return error_of(request.op, request.queue, UNAVAILABLE, text, cause=cause or TimeoutError("the time is up"))
