"""The thread whose loop runs the clients of synchronous programs: one for each process."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

R = TypeVar("R")

_starting = threading.RLock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a child of a fork has no thread


def _patched() -> str | None:
    """What has made threads of this program into something else."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return None


def loop() -> asyncio.AbstractEventLoop:
    running = _loops.get(os.getpid())
    if running is not None:
        return running  # without the lock: a signal handler may come here while its thread has it
    with _starting:
        found = _loops.get(os.getpid())
        if found is None:
            by = _patched()
            if by is not None:
                raise RuntimeError(f"{by} has patched the threads of this program, and the client needs one: expected a program without that, such as gunicorn's worker class gthread")
            found = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=found.run_forever, name="pqbridge", daemon=True).start()
        return found


# How long the background has to end what was interrupted.
_LAST_WORK = 5.0


def run(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine in the background, and waits for it. An interruption here cancels it, and comes when it has
    ended. If it has a result all the same, which may be an item that is in no queue any more, the result is
    returned, and Ctrl-C comes a moment later."""
    try:
        background = loop()
    except RuntimeError:
        work.close()
        raise
    try:
        inside = asyncio.get_running_loop() is background
    except RuntimeError:
        inside = False
    if inside:
        work.close()
        raise RuntimeError("a synchronous call in the background loop would wait for itself: expected another thread")
    outcome: _Outcome[R] = _Outcome()
    tasks: list[asyncio.Task[R]] = []

    def start() -> None:
        tasks.append(background.create_task(work))
        tasks[0].add_done_callback(outcome.tell)

    background.call_soon_threadsafe(start)
    try:
        outcome.wait()
    except BaseException as interruption:
        background.call_soon_threadsafe(lambda: tasks[0].cancel())
        outcome.wait(_LAST_WORK)
        if not isinstance(interruption, KeyboardInterrupt) or not outcome.succeeded:
            raise
        background.call_soon_threadsafe(background.call_later, 0.01, _interrupt)
    return outcome.result()


class _Outcome(Generic[R]):
    """Of a task of the background, for one thread that waits for it. A Future of concurrent.futures costs several times
    as much."""

    def __init__(self) -> None:
        self._task: asyncio.Task[R] | None = None
        self._open = threading.Lock()
        self._open.acquire()

    def tell(self, task: asyncio.Task[R]) -> None:
        if not task.cancelled():
            task.exception()  # told, even if nobody waits any more
        self._task = task
        self._open.release()

    def wait(self, timeout: float = -1) -> None:
        if self._task is None:  # an interruption may come behind the acquisition
            self._open.acquire(timeout=timeout)

    @property
    def succeeded(self) -> bool:
        return self._task is not None and not self._task.cancelled() and self._task.exception() is None

    def result(self) -> R:
        assert self._task is not None
        return self._task.result()


def _interrupt() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
