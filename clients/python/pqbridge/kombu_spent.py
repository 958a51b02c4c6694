"""What tasks of Celery have really cost: from the process that runs a task to the one that holds its item."""

from __future__ import annotations

import os
import weakref
from typing import Any

from . import background
from .intake import Intake
from .values import MOST_COST, count

_intakes: weakref.WeakSet[Intake] = weakref.WeakSet()


class _Pipe:
    """From the processes of a pool to the worker's own, which makes it before it forks them."""

    def __init__(self) -> None:
        self._from, self._to = os.pipe()
        os.set_blocking(self._from, False)
        self._process = os.getpid()
        self._read = b""  # the beginning of a line
        self._listening = False

    @property
    def ours(self) -> bool:
        return self._process == os.getpid()

    def listen(self) -> None:
        """In the background. What a task says as it goes is known at the next extension, also if its process dies."""
        if not self._listening:
            self._listening = True
            background.loop().add_reader(self._from, self.drain)

    def say(self, tag: str, cost: int) -> None:
        """A line is short enough to be written as a whole."""
        os.write(self._to, f"{tag} {cost}\n".encode())

    def drain(self) -> None:
        while True:
            try:
                self._read += os.read(self._from, 1 << 16)
            except BlockingIOError:
                break
        *lines, self._read = self._read.split(b"\n")
        for line in lines:
            tag, cost = line.decode().split(" ")
            _note(tag, int(cost))


_pipe: _Pipe | None = None


def begin() -> None:
    """In a worker, before it has a pool."""
    global _pipe
    if hasattr(os, "fork"):
        _pipe = _Pipe()


def listen(intake: Intake) -> None:
    """Its items are those of tasks."""
    _intakes.add(intake)
    if _pipe is not None and _pipe.ours:
        background.loop().call_soon_threadsafe(_pipe.listen)


def hear() -> None:
    """Before an item is settled: what its task has said may still be under way."""
    if _pipe is not None and _pipe.ours:
        _pipe.drain()


def _note(tag: str, cost: int) -> None:
    for intake in _intakes:
        intake.spent(tag, cost)


def tell(task: Any, cost: int, ours: bool) -> None:
    """ours: whether the task's broker is pqd."""
    count(cost, "the cost", MOST_COST, 0)
    if not task:
        raise RuntimeError("no task runs here: expected a call in a task")
    request = task.request
    if request.called_directly or request.is_eager or not ours:
        return  # nobody holds an item
    if not task.acks_late:
        raise RuntimeError(f"the task {task.name} is acknowledged before it runs, and cannot say what it has cost: expected acks_late=True")
    tag = request.properties["delivery_tag"]
    if _pipe is None or _pipe.ours:
        background.loop().call_soon_threadsafe(_note, tag, cost)
    else:
        _pipe.say(tag, cost)
