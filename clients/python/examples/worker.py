"""A worker for a container: it works on the items of one queue, four at a time, and stops in order at SIGTERM.

    QUEUE=jobs NATS_URL=nats://127.0.0.1:4222 python worker.py

GET /healthz on port 8080 (HEALTH_PORT) answers 200 while there is a connection to NATS, and 503 otherwise. Let the
container's grace, 30 s in Kubernetes, be longer than the 20 s here."""

from __future__ import annotations

import asyncio
import logging
import os

import pqbridge


async def work(item: pqbridge.Item) -> None:
    if not item.text:
        raise pqbridge.GiveUp("it is empty")  # a dead letter: trying again would not help
    await asyncio.sleep(0.01)
    logging.info("%s: done, attempt %d", item.text, item.deliveries)


async def main() -> None:
    async with pqbridge.connect(connect_timeout="30s") as client:  # to NATS_URL

        async def health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            status = "200 OK" if client.connection.is_connected else "503 Service Unavailable"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(health, port=int(os.environ.get("HEALTH_PORT", "8080")))
        jobs = client.queue(os.environ.get("QUEUE", "jobs"))
        logging.info("working on %s", jobs.name)
        await jobs.consume(work, concurrency=4).run(grace="20s")
        server.close()
    logging.info("stopped")


logging.basicConfig(level=logging.INFO)
asyncio.run(main())
