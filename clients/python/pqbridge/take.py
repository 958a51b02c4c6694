"""Pops and peeks."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import Literal

from .absence import Absence
from .confirm import confirmed
from .core import Place
from .duration import seconds
from .errors import NOT_FOUND, EmptyError
from .item import Item
from .mailbox import Listening
from .taking import End, Selection, Taking

# For how long an item that was waited for is kept until it is acknowledged.
CONFIRM = 30.0


async def take(queue: Place, op: Literal["pop", "peek"], end: End, selection: Selection, listening: Listening | None = None, absence: Absence | None = None) -> list[Item]:
    """At least one item, or an error. listening: where the answers to its waits come, if it is one of several. absence: what says
    for how long nothing answers."""
    if end not in ("min", "max"):
        raise ValueError(f"end is {end!r}: expected 'min' or 'max'")
    subject = queue.subject(f"{op}.{end}")
    taking = Taking(queue, Item.read, op, subject, selection, listening)
    taking.absence = absence
    if op == "pop" and selection.lease is None and selection.pop_id is None and taking.wait > 0 and queue.name not in queue.client.no_steps:
        return await _take_in_steps(queue, subject, selection, taking.wait)
    return await taking.run()


async def _take_in_steps(queue: Place, subject: str, s: Selection, wait: float) -> list[Item]:
    """A pop for good that may wait. The bridge knows who has left when it takes an item, and not who leaves
    before the answer arrives. So what was waited for is leased, and acknowledged before it is handed out."""
    began = monotonic()
    limit = None if s.timeout is None else min(seconds(s.timeout, "timeout"), queue.client.patience.timeout)
    try:
        return await Taking(queue, Item.read, "pop", subject, replace(s, wait=0, timeout=limit)).run()
    except EmptyError as err:
        if err.code != NOT_FOUND:
            raise
    while True:
        left = max(wait - (monotonic() - began), 0.001)
        until = None if s.timeout is None else max(seconds(s.timeout, "timeout") - (monotonic() - began), 0.001)
        taking = Taking(queue, Item.read, "pop", subject, replace(s, wait=left, timeout=until))
        if queue.name not in queue.client.no_steps:
            taking.confirm(CONFIRM)
        items = await confirmed(queue, await taking.run())
        if items:
            return items
