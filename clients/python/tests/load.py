"""One of several programs that use a queue while pqd is killed: load.py <role> <queue> [<count>]. It prints
that it is ready, and a line for each item. On SIGTERM it finishes what it has begun, and ends."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys

import pqbridge
from pqbridge import EmptyError, Item, Pushed, Queue, sync


def say(what: str, item: str) -> None:
    sys.stdout.write(f"{what} {item}\n")  # in one piece, also from several threads
    sys.stdout.flush()


async def push(queue: Queue, stop: asyncio.Event) -> None:
    """Pushes single items and bundles, many at a time."""

    async def ten(first: int) -> None:
        items = [str(first + n) for n in range(10)]
        if first // 10 % 2:
            done: list[Pushed] = await queue.push_many(items)
        else:
            done = await asyncio.gather(*map(queue.push, items))
        for item, pushed in zip(items, done):
            say("duplicate" if pushed.duplicate or not pushed.id else "pushed", item)

    tasks: list[asyncio.Task[None]] = []
    for first in range(0, int(sys.argv[3]), 10):
        tasks.append(asyncio.create_task(ten(first)))
        if len(tasks) % 8 == 0:
            await tasks[-8]  # some are under way at any time
    await asyncio.gather(*tasks)


async def consume(queue: Queue, stop: asyncio.Event) -> None:
    """Leases items. The lease is long: an item that a lost answer carried does not come back in time."""

    async def work(item: Item) -> None:
        say("done", item.text)

    async with queue.consume(work, concurrency=4, lease="1h", repeatable=True):
        await stop.wait()


async def returns(queue: Queue, stop: asyncio.Event) -> None:
    """Returns results, each after a line that says so."""

    async def work(item: Item) -> str:
        text = f"{item.text} {item.fence} {secrets.token_hex(8)}"
        say(item.text, text)
        return text

    async with queue.consume(work, concurrency=4, lease="2s"):
        await stop.wait()


async def next(queue: Queue, stop: asyncio.Event) -> None:
    """Leases bundles, and acknowledges with the next item."""

    async def take() -> None:
        while True:
            for item in await queue.pop_many(5, lease="1h", wait="10m", timeout="20m", repeatable=True):
                busy.clear()
                one: Item | None = item
                while one:
                    say("done", one.text)
                    if stop.is_set():
                        await one.ack()
                        break
                    one = await one.ack_next()
            busy.set()

    busy = asyncio.Event()
    busy.set()
    taking = asyncio.create_task(take())
    await asyncio.wait({taking, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
    await busy.wait()
    taking.cancel()


async def pop(queue: Queue, stop: asyncio.Event) -> None:
    """Takes items without a lease, each exactly once."""
    while not stop.is_set():
        # It ends between two pops: one that is abandoned may take an item along.
        try:
            say("done", (await queue.pop(wait=0.2, timeout="5m", repeatable=True)).text)
        except EmptyError:
            pass


async def run() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    roles = {"push": push, "consume": consume, "returns": returns, "next": next, "pop": pop}
    async with pqbridge.connect(os.environ["NATS_URL"].split(","), timeout="5m", max_in_flight=64, reconnect_time_wait=0.05) as client:
        print("ready", flush=True)
        await roles[sys.argv[1]](client.queue(sys.argv[2]), stop)


def threads() -> None:
    """Leases items for handlers in threads."""
    # A handler that sets an Event waits for ever when it interrupts the wait for it. All threads inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with sync.connect(os.environ["NATS_URL"].split(","), timeout="5m", reconnect_time_wait=0.05) as client:
        print("ready", flush=True)
        with client.queue(sys.argv[2]).consume(lambda item: say("done", item.text), concurrency=3, lease="1h", repeatable=True):
            signal.sigwait({signal.SIGTERM})


if sys.argv[1] == "threads":
    threads()
else:
    asyncio.run(run())
