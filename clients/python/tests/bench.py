"""Figures of the client beside nats-py's own request and echo: bench.py [<seconds>]. NATS_URL is a pqd."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from time import monotonic

import nats
from nats.aio.msg import Msg

import pqbridge

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
PAYLOAD = b"x" * 100


async def rate(what: str, workers: int, each: int, act: Callable[[], Awaitable[object]]) -> float:
    """How many items a second, with so many workers, when each act is about that many."""
    end = monotonic() + SECONDS
    done = 0

    async def work() -> None:
        nonlocal done
        while monotonic() < end:
            await act()
            done += each

    started = monotonic()
    await asyncio.gather(*(work() for _ in range(workers)))
    found = done / (monotonic() - started)
    print(f"{what:32} {workers:4} at a time {found:10.0f} /s", flush=True)
    return found


async def main() -> None:
    echo = await nats.connect(os.environ["NATS_URL"])

    async def answer(m: Msg) -> None:
        await echo.publish(m.reply, m.data)

    await echo.subscribe("echo", cb=answer)
    await echo.flush()
    async with pqbridge.connect(os.environ["NATS_URL"]) as client:
        nc, q = client.connection, client.queue(f"bench-{os.getpid()}")

        for workers in (1, 64):
            base = await rate("nats-py request and echo", workers, 1, lambda: nc.request("echo", PAYLOAD, timeout=60))
            found = [
                await rate("push", workers, 1, lambda: q.push(PAYLOAD)),
                await rate("pop", workers, 1, lambda: q.pop(wait="1m")),
            ]
            await q.purge()
            found.append(await rate("push_many of 100", workers, 100, lambda: q.push_many([PAYLOAD] * 100)))
            found.append(await rate("pop_many of 100", workers, 100, lambda: q.pop_many(100, wait="1m")))
            await q.purge()
            print("of the echo:", " ".join(f"{one / base:.2f}" for one in found))
        await q.delete()
    await echo.close()


asyncio.run(main())
