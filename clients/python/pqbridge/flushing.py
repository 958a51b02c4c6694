"""Waits until the NATS server has what was sent.

A pong for a flush of nats-py that was cancelled, or whose time is over, ends the task that reads from the server: the
connection stays, and hears nothing any more. So nobody may cancel one while its pong may come, and the time is long."""

from __future__ import annotations

import asyncio

import nats.errors
from nats.aio.client import Client as Connection

_LOOK_EVERY = 0.05
_LONG = 86400

_running: set[asyncio.Task[None]] = set()


async def flush(nc: Connection) -> None:
    """It fails if the connection is lost: then the pong is, too. Who is cancelled here waits no longer."""
    task = asyncio.get_running_loop().create_task(_flushed(nc))
    _running.add(task)
    task.add_done_callback(_over)
    await asyncio.shield(task)


def _over(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # told to who still waits


async def _flushed(nc: Connection) -> None:
    reconnects = nc.stats["reconnects"]
    if not nc.is_connected:
        raise nats.errors.ConnectionClosedError
    pong = asyncio.get_running_loop().create_task(nc.flush(_LONG))
    while not pong.done():
        await asyncio.wait({pong}, timeout=_LOOK_EVERY)
        if nc.is_closed or nc.is_draining or reconnects != nc.stats["reconnects"]:
            pong.cancel()  # it will not come
            raise nats.errors.ConnectionClosedError
    pong.result()
