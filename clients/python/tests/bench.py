"""Figures of the client beside nats-py's own request and echo, whose other end is a process of its own, as pqd
is: bench.py [<seconds of each>]. NATS_URL is a pqd."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from time import monotonic

import nats
from nats.aio.msg import Msg

import pqbridge

PAYLOAD = b"x" * 100


async def echo() -> None:
    nc = await nats.connect(os.environ["NATS_URL"])

    async def answer(m: Msg) -> None:
        await nc.publish(m.reply, m.data)

    await nc.subscribe("echo", cb=answer)
    await nc.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


async def rate(what: str, seconds: float, workers: int, each: int, act: Callable[[], Awaitable[object]]) -> float:
    """How many items a second, with so many workers, where each act is about that many. It ends early when
    there is nothing more to take."""
    end = monotonic() + seconds
    done = 0

    async def work() -> None:
        nonlocal done
        try:
            while monotonic() < end:
                await act()
                done += each
        except pqbridge.EmptyError:
            pass

    started = monotonic()
    await asyncio.gather(*(work() for _ in range(workers)))
    found = done / (monotonic() - started)
    print(f"{what:25} {workers:3} at a time {found:8.0f}/s", flush=True)
    return found


async def main(seconds: float) -> None:
    other = await asyncio.create_subprocess_exec(sys.executable, __file__, "echo", stdout=asyncio.subprocess.PIPE)
    assert other.stdout is not None
    await other.stdout.readline()
    async with pqbridge.connect(os.environ["NATS_URL"]) as client:
        nc, q = client.connection, client.queue(f"bench-{os.getpid()}")
        for workers in (1, 64):
            base = await rate("nats-py request and echo", seconds, workers, 1, lambda: nc.request("echo", PAYLOAD, timeout=60))
            ratios = []
            for what, each, act in (
                ("push", 1, lambda: q.push(PAYLOAD)),
                ("pop", 1, lambda: q.pop()),
                ("push_many of 100", 100, lambda: q.push_many([PAYLOAD] * 100)),
                ("pop_many of 100", 100, lambda: q.pop_many(100)),
            ):
                ratios.append(f"{what} {await rate(what, seconds, workers, each, act) / base:.2f}")
            print("beside the echo:", ", ".join(ratios), flush=True)
            await q.purge()
        await q.delete()
    other.terminate()
    await other.wait()


if sys.argv[1:] == ["echo"]:
    asyncio.run(echo())
else:
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0))
