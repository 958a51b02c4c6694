"""A transport for kombu, and so for Celery: pq://127.0.0.1:4222, and pqs:// for TLS.

kombu knows the addresses as soon as this module is imported. transport_options:

- prefix: of the bridge's subjects ("pq")
- lease: for how long a worker that has died keeps its tasks (30 s). While a worker lives, its leases are extended
- fanout_prefix: of the subjects of remote control and events ("kombu.<prefix>")
- nats: further arguments of nats.connect, such as user_credentials"""

from __future__ import annotations

import atexit
import os
import queue
import socket
import ssl
import weakref
from collections.abc import Callable
from importlib import metadata
from typing import Any

import nats.errors
from kombu.exceptions import ConnectionError as KombuConnectionError
from kombu.transport import TRANSPORT_ALIASES, base, virtual
from kombu.utils.url import parse_url

from . import background, kombu_celery
from .client import Client, connect
from .deadline import Deadline
from .duration import seconds
from .errors import BusyError, PQError, UnavailableError, UnknownResultError
from .kombu_celery import spent
from .kombu_channel import Channel
from .kombu_fanout import Fanout
from .kombu_shared import joined, share
from .supply import DEFAULT_LEASE
from .taking import LONGEST_LEASE

__all__ = ["Transport", "spent"]

_OPTIONS = frozenset({"prefix", "lease", "fanout_prefix", "nats"})

_open: weakref.WeakSet[Transport] = weakref.WeakSet()


class Transport(virtual.Transport):
    Channel = Channel
    default_port = 4222
    driver_type = "pq"
    driver_name = "pqbridge"
    connection_errors = (KombuConnectionError, OSError, UnavailableError, UnknownResultError, BusyError, nats.errors.Error)
    channel_errors = (*virtual.Transport.channel_errors, PQError)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = base.Transport.implements.extend(asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"}), heartbeats=False)

    pq: Client | None = None

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        options = client.transport_options
        self.lease = seconds(options.get("lease", DEFAULT_LEASE), "lease", most=LONGEST_LEASE)
        self.declared: set[str] = set()
        self.replies: set[str] = set()  # declared, too: for the program's results
        self.transient: set[str] = set()
        self._process = os.getpid()
        self._arrived: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._telling = False  # the program's loop knows, and has not looked yet

    def ours(self) -> bool:
        """Whether this process made the connection: a child of a fork has a copy, which must not speak."""
        return self._process == os.getpid()

    def driver_version(self) -> str:
        return metadata.version("nats-py")

    # The connection.

    def establish_connection(self) -> Transport:
        options, client = self.client.transport_options, self.client
        prefix = options.get("prefix", "pq")
        if client.virtual_host not in (None, "", "/"):
            raise ValueError(f"the address has a path, {client.virtual_host!r}: expected none, and the prefix in the transport option prefix")
        servers = [self._server(client.transport_cls, client.hostname, client.port)]
        for url in client.alt:
            parts = parse_url(url)
            server = self._server(parts["transport"], parts["hostname"], parts["port"])
            if server not in servers:
                servers.append(server)
        given = dict(options.get("nats") or {})
        key = repr((servers, prefix, given, client.userid, client.password, client.ssl))
        if client.userid and "user" not in given:
            password = client.password() if callable(client.password) else client.password
            given.update({"user": client.userid, "password": password} if password else {"token": client.userid})
        if client.ssl:
            given.setdefault("tls", _context(client.ssl))
        timeout = float(client.connect_timeout or 5)
        self._shared = share(key, lambda: background.run(self._connect(servers, prefix, given, timeout)))
        self.pq, self.settings = self._shared.client, self._shared.settings
        self._told, self._tell = socket.socketpair()
        self._told.setblocking(False)
        self._tell.setblocking(False)
        self.fanout = Fanout(self.pq.connection, options.get("fanout_prefix", f"kombu.{prefix}"))
        _open.add(self)
        established: Transport = super().establish_connection()
        return established

    @staticmethod
    def _server(scheme: object, host: str | None, port: int | None) -> str:
        return f"{'tls' if scheme == 'pqs' else 'nats'}://{host or '127.0.0.1'}:{port or 4222}"

    async def _connect(self, servers: list[str], prefix: str, given: dict[str, Any], timeout: float) -> Client:
        try:
            return await connect(servers, prefix=prefix, **{"connect_timeout": timeout, **given})
        except PQError as err:
            raise KombuConnectionError(err.text) from err

    def verify_connection(self, connection: object) -> bool:
        return self.pq is not None and self.ours() and not self.pq.mailbox.closed

    @property
    def connected(self) -> bool:
        return self.verify_connection(self)

    def close_connection(self, connection: object) -> None:
        pq, self.pq = self.pq, None
        if pq is None or not self.ours():
            return
        _open.discard(self)
        super().close_connection(connection)
        if self._shared.leave():
            background.run(pq.close())  # a pop that still waits gets what the channels have given back, and returns it
        self._told.close()
        self._tell.close()

    # What arrives.

    def arrive(self, deliver: Callable[[], bool]) -> None:
        """The program's thread is to deliver something. The function says whether anybody was there to get it."""
        self._arrived.put(deliver)
        if self._telling:
            return
        self._telling = True
        try:
            self._tell.send(b"x")
        except OSError:
            pass  # it is closed

    def drain_events(self, connection: object, timeout: float | None = None) -> None:
        """Delivers one message. What comes for a consumer that has ended is none: who asks for one reply would take it
        for that."""
        if self.pq is None or self.pq.mailbox.closed:
            raise KombuConnectionError("the connection to NATS is closed")
        deadline = None if timeout is None else Deadline(timeout)
        try:
            while not self._arrived.get(timeout=None if deadline is None else deadline.left)():
                pass
        except queue.Empty:
            raise socket.timeout("nothing arrived in time") from None

    def register_with_event_loop(self, connection: object, loop: Any) -> None:
        loop.add_reader(self._told.fileno(), self._on_told)

    def unregister_from_event_loop(self, connection: object, loop: Any) -> None:
        if self.pq is not None:
            loop.remove_reader(self._told.fileno())

    def _on_told(self) -> None:
        try:
            self._told.recv(64)
        except OSError:
            pass
        self._telling = False  # between the two: what arrives from here on tells again, and is not missed
        while True:
            try:
                deliver = self._arrived.get_nowait()
            except queue.Empty:
                return
            deliver()


def _context(settings: Any) -> ssl.SSLContext:
    """Celery's broker_use_ssl: True, or the ssl_ settings that Redis has, too."""
    if isinstance(settings, ssl.SSLContext):
        return settings
    given = {name.removeprefix("ssl_"): value for name, value in (settings.items() if isinstance(settings, dict) else ())}
    context = ssl.create_default_context(cafile=given.get("ca_certs") or given.get("ca_file"))
    if given.get("certfile"):
        context.load_cert_chain(given["certfile"], given.get("keyfile"))
    if given.get("check_hostname") is False or given.get("cert_reqs") == ssl.CERT_NONE:
        context.check_hostname = False
    if given.get("cert_reqs") == ssl.CERT_NONE:
        context.verify_mode = ssl.CERT_NONE
    return context


@atexit.register
def _close_all() -> None:
    """What a program holds when it ends, others get at once. Then its results have nobody who reads them."""
    shared = joined()
    for transport in list(_open):
        if transport.ours():
            try:
                transport.close_connection(transport)
            except Exception:  # there is no connection
                pass
    for one in shared:
        try:
            background.run(one.settings.end())
            if one.leave():
                background.run(one.client.close())
        except Exception:
            pass


for _scheme in ("pq", "pqs"):
    TRANSPORT_ALIASES[_scheme] = f"{__name__}:Transport"
kombu_celery.prepare()
