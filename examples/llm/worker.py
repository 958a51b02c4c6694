"""Workers between the queue prompts and the provider of a language model: they ask it, and say what the answer has cost.

    python examples/llm/worker.py

PROVIDER_URL is http://127.0.0.1:8701, NATS_URL nats://127.0.0.1:4222 and WORKERS 50, unless they are set."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pqbridge

PROVIDER = os.environ.get("PROVIDER_URL", "http://127.0.0.1:8701") + "/complete"


def ask(body: bytes, tenant: str) -> dict[str, object]:
    request = urllib.request.Request(PROVIDER, body, {"Content-Type": "application/json", "X-Tenant": tenant})
    with urllib.request.urlopen(request, timeout=25) as answer:
        found: dict[str, object] = json.load(answer)
    return found


async def work(item: pqbridge.Item) -> object:
    try:
        answer = await asyncio.to_thread(ask, item.data, item.key)
    except urllib.error.HTTPError as error:
        item.spent(0)  # a refusal costs nothing
        if error.code == 429:
            raise pqbridge.RetryAfter(error.headers.get("Retry-After", "1") + "s") from error
        raise
    item.spent(int(str(answer["tokens"])))
    return answer


async def main() -> None:
    workers = int(os.environ.get("WORKERS", "50"))
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(workers))
    async with pqbridge.connect(connect_timeout="30s") as client:  # to NATS_URL
        print("ready", flush=True)
        await client.queue("prompts").consume(work, concurrency=workers).run(grace="20s")


asyncio.run(main())
