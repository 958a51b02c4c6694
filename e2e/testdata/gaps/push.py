"""Pushes every 10 ms, and prints a line for each success: python push.py <servers> <queue>"""

import asyncio
import sys

import pqbridge


async def main(servers: str, queue: str) -> None:
    async with pqbridge.connect(
        servers.split(","), dont_randomize=True, reconnect_time_wait=0.1, ping_interval=0.4, max_outstanding_pings=2,
    ) as client:
        jobs = client.queue(queue)
        while True:
            try:
                await jobs.push(b"x")
                print("pushed", flush=True)
            except pqbridge.PQError as err:
                print(err, file=sys.stderr)
            await asyncio.sleep(0.01)


asyncio.run(main(*sys.argv[1:]))
