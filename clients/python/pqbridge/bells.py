"""Bells: the bridge rings after somebody has cancelled or removed an item, revoked its lease, or purged its queue.

A bell proves nothing. It has the client extend the lease now, and not only when the time has come, and the answer to that
tells whether the lease is lost. So a bell that is forged, late, doubled or lost changes when the client learns something,
and not what."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import NamedTuple, Protocol

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from .core import Place
from .errors import ItemCancelledError, LeaseLostError
from .flushing import flush
from .mailbox import background, unsubscribe
from .refusals import DENIED, listen

_log = logging.getLogger("pqbridge")

_LOOK_FOR_CONNECTION_EVERY = 0.01

# How many bells are remembered, for items that have not arrived yet.
_MOST_RUNG = 64

# How much of a reason is believed to be one.
_LONGEST_REASON = 1024


class Lost(NamedTuple):
    """What a bell has told."""

    cause: str
    """cancelled, removed or revoked, or a word of a later version."""
    reason: str


class Held(Protocol):
    """A lease that is kept."""

    lease: tuple[str, int]
    """The id of its item, and its fence."""

    def ring(self, lost: Lost | None) -> None:
        """Somebody else may have ended it. None: with all others of its queue."""


class Bells:
    """Hears the bells of the leases that a holder has at a queue. A user who may not subscribe to them hears none, and
    everything else works."""

    def __init__(self, queue: Place, holder: object) -> None:
        name = str(holder).encode(errors="replace")  # what is wrong with it a pop says
        self._nc = queue.client.connection
        self._hearers = {
            queue.subject(f"event.lost-{hashlib.sha256(name).hexdigest()[:16]}"): self.one,
            queue.subject("event.purged"): self.all,
        }
        self._own = {subject.lower() for subject in self._hearers}  # as refusals have them
        self._refused: set[str] = set()
        self._subscriptions: dict[str, Subscription] = {}
        self._holds: dict[tuple[str, int], Held] = {}
        self._rung: dict[tuple[str, int], Lost] = {}  # the last ones
        self._stopped = False
        self._listening: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Subscribes as soon as there is a connection. What the caller does next follows that: a pop that is sent before might
        bring an item whose bell has rung already."""
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        await asyncio.sleep(0)  # a consumer that ends at once leaves nothing behind
        while not self._nc.is_connected and not self._stopped:
            if self._nc.is_closed:
                return
            await asyncio.sleep(_LOOK_FOR_CONNECTION_EVERY)
        listen(self._nc, self)
        for subject, hear in self._hearers.items():
            if self._stopped:
                return
            try:
                self._subscriptions[subject.lower()] = await self._nc.subscribe(subject, cb=hear)
            except (nats.errors.Error, OSError):
                return  # the connection ends
            if subject.lower() in self._refused:
                await self._drop(subject.lower())

    async def _drop(self, subject: str) -> None:
        """It is not sent again on a new connection."""
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None:
            await unsubscribe(subscription)

    async def stop(self) -> None:
        self._stopped = True
        if self._listening is not None:
            await asyncio.wait({self._listening})
        for subject in list(self._subscriptions):
            await self._drop(subject)
        background(self._forget())

    async def _forget(self) -> None:
        """The server may refuse until it has all that was sent."""
        try:
            await flush(self._nc)
        finally:
            self._own = set()

    async def refused(self, cause: BaseException) -> bool:
        """The program has not asked for these subscriptions, so it does not hear that they are refused."""
        denied = DENIED.search(str(cause))
        if denied is None or denied[1].lower() != "subscription" or (subject := denied[2].lower()) not in self._own:
            return False
        if subject not in self._refused:
            self._refused.add(subject)
            _log.debug("a worker hears only from its next extension that somebody else has ended its lease: its user may not subscribe to %s", subject)
        await self._drop(subject)
        return True

    async def one(self, m: Msg) -> None:
        """Hears of one lease."""
        try:
            told = json.loads(m.data)
            id, fence, lost = told["id"], told["fence"], Lost(told["cause"], told.get("reason", "")[:_LONGEST_REASON])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return  # forged
        if not isinstance(id, str) or not isinstance(fence, int) or not isinstance(lost.cause, str):
            return
        self._rung.pop((id, fence), None)
        self._rung[id, fence] = lost
        if len(self._rung) > _MOST_RUNG:
            del self._rung[next(iter(self._rung))]
        hold = self._holds.get((id, fence))
        if hold is not None:
            hold.ring(lost)

    async def all(self, m: Msg) -> None:
        """Hears that the items of the queue are gone."""
        for hold in list(self._holds.values()):
            hold.ring(None)

    def enter(self, hold: Held) -> None:
        """From here on a lease hears its bells, until leave is called. It may have rung before."""
        self._holds[hold.lease] = hold
        before = self._rung.get(hold.lease)
        if before is not None:
            hold.ring(before)

    def leave(self, hold: Held) -> None:
        if self._holds.get(hold.lease) is hold:
            del self._holds[hold.lease]


def why_lost(err: LeaseLostError, rung: Lost | None) -> LeaseLostError:
    """The error of a lease that is lost, with what the bridge has told of it, by a bell or in its answer. A bell tells nothing
    about a lease that is not lost."""
    cause, reason = err.reason, ""
    if rung is not None:
        cause, reason = rung
    elif isinstance(err, ItemCancelledError):
        reason = err.why
    else:
        return err
    text = f"{cause}: {reason}" if reason else cause
    if cause == "cancelled":
        return ItemCancelledError(err.op, err.queue, err.code, text, cause)
    return LeaseLostError(err.op, err.queue, err.code, f"lease lost: {text}", err.reason)
