"""The client of one NATS connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncGenerator, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import nats.errors
from nats.aio.client import Client as Connection

from .bundle import MOST_ITEMS
from .call import Patience
from .cluster import Cluster, cluster
from .config import History, Replaced, SteppedDown, System
from .core import Core
from .duration import Duration, seconds, shown
from .errors import FORBIDDEN, UNAVAILABLE, error_of, unreadable
from .events import EVENT_TYPES, Events, EventType
from .inflight import InFlight
from .item import Item
from .lane import Lanes
from .mailbox import Mailbox
from .options import NatsOptions, check_options
from .queue import Queue
from .subjects import AckSubjects, Grammar, check_queue
from .values import count, word

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PAGE = 200

_HERE = "nats://127.0.0.1:4222"

# After what time a task that was cancelled and goes on is cancelled again.
_CANCEL_AGAIN = 0.1


class Client(Core):
    """Speaks to the bridges behind a NATS connection. One is enough for a connection.

    A bridge refuses a request, and does nothing, if it is busy, restarts, or its store cannot commit. The
    client repeats such a request. It repeats an unanswered request only if doing it twice is like doing it
    once: every push has an id for that, a pop has one with repeatable or pop_id, and reads need none. While
    there is no connection requests wait.

    prefix: of the bridge's subjects. bridge_prefix: the bridge's own, if the account imports its subjects
    under another one. timeout: of a request that has none; a waiting pop has that on top of its wait.
    retry_for: how long to repeat a request that was refused, or that no bridge has received; until the
    timeout if it is 0, which bridges restarts. ask_again_after: after which time to repeat a request without
    an answer, at first. max_in_flight: how many pushes may wait for their answers; further pushes wait.
    inbox_prefix: of reply subjects; that of the connection if not given."""

    def __init__(
        self,
        connection: Connection,
        *,
        prefix: str = "pq",
        bridge_prefix: str | None = None,
        timeout: Duration = 10.0,
        retry_for: Duration = 0,
        ask_again_after: Duration = 0.4,
        max_in_flight: int = 4096,
        max_bundle: int = MOST_ITEMS,
        mix_priorities: bool = False,
        inbox_prefix: str | None = None,
    ) -> None:
        if not isinstance(connection, Connection):
            raise TypeError(f"the connection is {shown(connection)}: expected one of nats.connect")
        self.connection = connection
        self.grammar = Grammar(prefix)
        self.acks = AckSubjects(self.grammar, Grammar(prefix if bridge_prefix is None else bridge_prefix))
        self.patience = Patience(
            timeout=seconds(timeout, "timeout"),
            retry_for=seconds(retry_for, "retry_for", zero=True),
            attempt=seconds(ask_again_after, "ask_again_after"),
        )
        self._in_flight = InFlight(count(max_in_flight, "max_in_flight"))
        self.mailbox = Mailbox(connection, inbox_prefix, self.acks)
        self.lanes = Lanes(count(max_bundle, "max_bundle", MOST_ITEMS), mix_priorities, lambda: connection.max_payload, lambda: connection.stats["reconnects"])
        self.no_steps = set()

    def queue(self, name: str) -> Queue:
        """The queue with this name, which need not exist: the first push makes it."""
        return Queue(self, name)

    def attach(self, ack_subject: str) -> Item:
        """An item that can only be settled, from the ack_subject of its lease."""
        lease = self.acks.read(ack_subject) if isinstance(ack_subject, str) else None
        if lease is None:
            raise ValueError(f"subject {shown(ack_subject)}: expected one that settles a lease")
        return Item(self.queue(lease[0]), lease[1])

    def events(self, queue: str | None = None, type: EventType | Literal["*"] = "*") -> Events:
        """Events of a queue, or of all queues, of a type, or of all types. Use them for
        dashboards and alarms, not for work: who does not listen misses them."""
        if queue is not None:
            check_queue(queue)
        word(type, "type", "*", *EVENT_TYPES)
        return Events(self, self.grammar.subject(queue or "*", f"event.{type}"))

    async def flush(self, *, timeout: Duration | None = None) -> None:
        """Waits until all pushes that were sent are answered, whatever the answers."""
        if not await self._in_flight.flush(self.deadline(timeout)):
            raise TimeoutError("pushes are still without an answer")

    async def queues(self, *, prefix: str | None = None, timeout: Duration | None = None) -> AsyncGenerator[str, None]:
        """The names of all queues, or of those that begin with the prefix, in order."""
        after = ""
        while True:
            fields: dict[str, Any] = {"limit": _PAGE, "after": after}
            if prefix:
                fields["prefix"] = prefix
            page = await self.ask("queues", "", self.grammar.system("list"), fields, timeout)
            names = page.get("queues")
            if not isinstance(names, list):
                raise unreadable("queues", "", str(page).encode(), ValueError("it has no queues"))
            for name in names:
                yield name
            after = page.get("next") or ""
            if not after:
                return

    async def system(self, *, timeout: Duration | None = None) -> System:
        """What one of the bridges reports about itself."""
        system: System = await self.ask("system", "", self.grammar.system("info"), None, timeout)
        return system

    async def cluster(self, *, timeout: Duration | None = None) -> Cluster:
        """The pqd that keep a replicated store together, the active one first; BadRequestError if the store is
        no such."""
        return await cluster(self, timeout)

    async def step_down(self, node: str | None = None, *, timeout: Duration | None = None) -> SteppedDown:
        """The active pqd hands over to the node with this name, or to one that follows."""
        fields = None if node is None else {"node": node}
        done: SteppedDown = await self.ask("step_down", "", self.grammar.system("cluster.step-down"), fields, timeout)
        return done

    async def replace_node(self, old: str, new: str, *, timeout: Duration | None = None) -> Replaced:
        """A node that runs takes the place of one that is lost for good, by their names."""
        fields = {"old": old, "new": new}
        done: Replaced = await self.ask("replace", "", self.grammar.system("cluster.replace"), fields, timeout)
        return done

    async def history(self, *, timeout: Duration | None = None) -> History:
        """What went through the answering bridge in the last hour, all queues together, and what went wrong."""
        history: History = (await self.ask("system", "", self.grammar.system("info"), {"history": True}, timeout))["history"]
        return history

    async def close(self) -> None:
        """Closes the connection. Close it yourself if it is not one of pqbridge.connect and others use it.

        Items that arrive for a pop that was cancelled go back to their queues at once."""
        if not self.mailbox.ours:
            return
        await self.mailbox.end()
        await self.connection.close()


async def _log(err: Exception) -> None:
    """What becomes of what nats-py says of a connection, unless a program says otherwise."""
    logging.getLogger("pqbridge").warning("NATS: %s", str(err) or type(err).__name__)


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancels a task until it ends. Before Python 3.12 asyncio.wait_for may make a timeout of a cancellation, and
    behind a timeout nats-py tries to connect again."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_AGAIN)
    if not task.cancelled():
        task.exception()  # which is told already


def _addresses(servers: str | list[str]) -> str:
    """Without logins, which end at the last @ of an address."""
    return ", ".join(re.sub(r"(?s)^(\w+://)?.*@", r"\1", server) for server in ([servers] if isinstance(servers, str) else servers))


def _servers_of(given: str | list[str] | None) -> str | list[str]:
    """The servers to connect to; None: those of NATS_URL, separated by commas, as pq and pqd read it."""
    if given is not None:
        return given
    listed = os.environ.get("NATS_URL") or _HERE
    servers = [server.strip() for server in listed.split(",") if server.strip()]
    if not servers:
        raise ValueError(f"NATS_URL is {shown(listed)}: expected addresses such as {_HERE}")
    return servers if len(servers) > 1 else servers[0]


class connect:
    """Connects to NATS: client = await connect(…), or async with connect(…) as client, which closes it. The
    arguments are those of Client, and the others those of nats.connect.

    servers: an address or several; if not given those of the variable NATS_URL, separated by commas, and otherwise the
    server on this machine.

    connect_timeout: how long to try to connect for the first time; None: for ever. It fails with an
    UnavailableError, or at once with a ForbiddenError if the server refuses the user. A connection that is lost
    later nats-py tries to make again for ever, unless max_reconnect_attempts says otherwise."""

    def __init__(
        self,
        servers: str | list[str] | None = None,
        *,
        prefix: str = "pq",
        bridge_prefix: str | None = None,
        timeout: Duration = 10.0,
        retry_for: Duration = 0,
        ask_again_after: Duration = 0.4,
        max_in_flight: int = 4096,
        max_bundle: int = MOST_ITEMS,
        mix_priorities: bool = False,
        connect_timeout: Duration | None = 10.0,
        **options: Unpack[NatsOptions],
    ) -> None:
        given: dict[str, Any] = {**options}
        check_options(given)
        self._servers = _servers_of(servers)
        self._options = {"max_reconnect_attempts": -1, "error_cb": _log, **given}
        self._within = None if connect_timeout is None else seconds(connect_timeout, "connect_timeout")
        self._ours: dict[str, Any] = {
            "prefix": prefix,
            "bridge_prefix": bridge_prefix,
            "timeout": timeout,
            "retry_for": retry_for,
            "ask_again_after": ask_again_after,
            "max_in_flight": max_in_flight,
            "max_bundle": max_bundle,
            "mix_priorities": mix_priorities,
        }
        self._client: Client | None = None

    async def _connect(self) -> Client:
        nc = Connection()
        try:
            await self._first(nc)
            return Client(nc, **self._ours)
        except BaseException:
            with contextlib.suppress(Exception):  # it may be one that has never begun
                await nc.close()
            raise

    async def _first(self, nc: Connection) -> None:
        """The first connection. nats-py tells its troubles to a function, and goes on."""
        why: list[BaseException] = []
        refused = asyncio.Event()
        told = self._options["error_cb"]

        async def tell(err: Exception) -> None:
            if nc.is_connected or connecting.done():
                await told(err)
                return
            if refused.is_set():
                return
            why.append(err)
            if "authorization violation" in str(err).lower():
                refused.set()

        connecting = asyncio.ensure_future(nc.connect(self._servers, **{**self._options, "error_cb": tell}))
        refusing = asyncio.ensure_future(refused.wait())
        try:
            await asyncio.wait({connecting, refusing}, timeout=self._within, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and not refused.is_set():
                connecting.result()
                return
        except (OSError, nats.errors.Error, asyncio.TimeoutError) as err:
            why[:] = why or [err]
        finally:
            await _end(connecting)
            await _end(refusing)
        cause = why[-1] if why else TimeoutError("no answer")
        text = f"no connection to NATS at {_addresses(self._servers)}: {str(cause) or type(cause).__name__}"
        raise error_of("connect", "", FORBIDDEN if refused.is_set() else UNAVAILABLE, text, cause=cause)

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        if self._client is not None:
            await self._client.close()
