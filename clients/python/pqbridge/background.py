"""The thread whose loop runs the clients of synchronous programs: one for each process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")

_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a child of a fork has no thread


def loop() -> asyncio.AbstractEventLoop:
    with _starting:
        found = _loops.get(os.getpid())
        if found is None:
            found = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=found.run_forever, name="pqbridge", daemon=True).start()
        return found


def run(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine in the background, and waits for it. An interruption here cancels it."""
    background = loop()
    try:
        inside = asyncio.get_running_loop() is background
    except RuntimeError:
        inside = False
    if inside:
        work.close()
        raise RuntimeError("a synchronous call in the background loop would wait for itself: expected another thread")
    future = asyncio.run_coroutine_threadsafe(work, background)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
