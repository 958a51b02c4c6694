"""What programs may give to connect, beside the addresses."""

from __future__ import annotations

import difflib
import inspect
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from nats.aio.client import Client as Connection

from .duration import Duration


class NatsOptions(TypedDict, total=False):
    """Options of nats.connect. It has its own documentation of them."""

    error_cb: Callable[[Exception], Awaitable[None]]
    disconnected_cb: Callable[[], Awaitable[None]]
    closed_cb: Callable[[], Awaitable[None]]
    discovered_server_cb: Callable[[], Awaitable[None]]
    reconnected_cb: Callable[[], Awaitable[None]]
    lame_duck_mode_cb: Callable[[], Awaitable[None]]
    reconnect_to_server_handler: Callable[..., Any]
    name: str
    pedantic: bool
    verbose: bool
    allow_reconnect: bool
    reconnect_time_wait: float
    max_reconnect_attempts: int
    ping_interval: float
    max_outstanding_pings: int
    dont_randomize: bool
    flusher_queue_size: int
    no_echo: bool
    tls: ssl.SSLContext
    tls_hostname: str
    tls_handshake_first: bool
    user: str | Callable[[], str]
    password: str | Callable[[], str]
    token: str | Callable[[], str]
    drain_timeout: float
    signature_cb: Callable[[str], bytes]
    user_jwt_cb: Callable[[], bytearray | bytes]
    user_credentials: Any
    nkeys_seed: str
    nkeys_seed_str: str
    inbox_prefix: str | bytes
    pending_size: int
    flush_timeout: float
    ws_connection_headers: dict[str, list[str]]
    skip_subject_validation: bool


class ConnectOptions(NatsOptions, total=False):
    """What pqbridge.connect takes."""

    prefix: str
    bridge_prefix: str | None
    timeout: Duration
    retry_for: Duration
    ask_again_after: Duration
    max_in_flight: int
    max_bundle: int
    mix_priorities: bool
    connect_timeout: Duration | None


def check_options(options: dict[str, Any]) -> None:
    """nats-py says nothing of the client's own options."""
    known = {*inspect.signature(Connection.connect).parameters, *ConnectOptions.__annotations__} - {"self", "servers"}
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"{name} is no option of connect: expected {close[0] if close else 'one of its own or of nats.connect'}")
    if not inspect.iscoroutinefunction(options.get("error_cb", _no_error)):
        raise TypeError("error_cb: expected an asynchronous function of an exception")


async def _no_error(err: Exception) -> None:
    """Stands for none."""
