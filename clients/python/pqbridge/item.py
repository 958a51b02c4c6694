"""An item as a bridge answered it, and its lease."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar, Union

from .core import Place
from .duration import Duration, duration_text, nanoseconds, seconds, shown, time_of
from .errors import ItemCancelledError, LeaseLostError, NotLeasedError, PQError, SettledError, unreadable
from .hold import Hold
from .item_data import ItemData
from .lane import Landed
from .message import Message
from .outcome import outcome
from .push import NewItem, push
from .pushed import Pushed
from .settle_lane import Settling
from .taking import Selection, take_next
from .values import MOST_COST, count, cut, payload_of

T = TypeVar("T")

# Sends an acknowledgement in a message with others.
AckTogether = Callable[[Settling], Awaitable[Landed]]

def _held(op: str, reason: str) -> bool:
    """Whether the reason for which a repeated settlement was refused means that an earlier attempt took
    effect and its answer was lost."""
    if op in ("ack", "term"):
        return reason == "gone"
    return op in ("nak", "give back")  # the item is back in either case


class Item(ItemData):
    """Settle a leased item: with ack; nak or release, if the work has failed; term or reject, if it is hopeless;
    give_back, if nothing is wrong with it; ack_next or hand_over. Until then extend or hold keep
    the lease.

    As an asynchronous context manager an item keeps its lease while the block runs, and is settled by
    what the block does: see Queue.consume."""

    def __init__(self, queue: Place, ack_subject: str) -> None:
        super().__init__(queue.name, ack_subject)
        self._queue = queue
        self._block: Hold | None = None
        self._spent: int | None = None
        self.confirms = False
        """Whether it is leased only until it is acknowledged, and then popped for good."""
        self.keeper: asyncio.Task[None] | None = None
        """What keeps the lease of an item of Queue.items."""

    @classmethod
    def read(cls, queue: Place, m: Message, op: str, term: float = 0.0) -> Item:
        """Reads an answer that is an item."""
        item = cls(queue, queue.client.acks.of(queue.name, m))
        item.lease_term = term
        item.data = m.data
        item.confirms = "PQ-Confirm" in m.headers
        try:
            if not item.leased and (m.reply or "PQ-Ack" in m.headers):
                raise ValueError(f"PQ-Ack is {shown(m.get('PQ-Ack'))}, the reply subject {shown(m.reply)}: expected one that settles a lease of queue {queue.name}")
            for name, values in m.headers.items():
                item.read_header(name, values)
        except ValueError as cause:
            raise unreadable(op, queue.name, m.data, cause) from cause
        return item

    def belongs(self) -> None:
        """It was acknowledged for the caller, who sees it as popped for good: without a lease."""
        self._settled = self.confirms = False
        self.ack_subject, self.lease_expires, self.backoff = "", None, 0.0
        self.fence = self.key_fence = 0
        self.deliveries -= 1

    async def ack(self, *, result: Union[str, bytes, bytearray, memoryview, None] = None, timeout: Duration | None = None) -> None:
        """The item is done. Afterwards it is gone for good.

        result: what the work has brought, for whoever has pushed the item and asked for its result; as large as a payload.
        If nobody has, or the queue has no room for it, it is dropped: the item is done all the same."""
        said = None if result is None else payload_of(result, "the result")
        await self._once(lambda: self._send("ack", "+ACK", timeout, said))

    async def nak(self, delay: Duration | None = None, *, reason: str = "", timeout: Duration | None = None) -> None:
        """Gives the item back, to its former place; with a delay it is ready again only after that. Without
        one the backoff of the queue decides, and it is ready at once if there is none. reason: why, for the
        record of the attempt; up to 1 KiB of it are sent."""
        away = None if delay is None else seconds(delay, "delay", zero=True)
        if not isinstance(reason, str):
            raise TypeError(f"the reason is {shown(reason)}: expected a text")
        await self._once(lambda: self._nak(away, reason, timeout))

    async def _nak(self, away: float | None, reason: str, timeout: Duration | None) -> None:
        if reason:
            fields = {"delay": None if away is None else nanoseconds(away), "reason": cut(reason)}
            await self._send("nak", f"-NAK {json.dumps({name: value for name, value in fields.items() if value is not None})}", timeout)
            return
        await self._send("nak", "-NAK" if away is None else f"-NAK {duration_text(away)}", timeout)

    async def give_back(self, reason: str = "", *, timeout: Duration | None = None) -> None:
        """Gives the item back with nothing wrong with it: it is ready again at once, and the lease counts
        neither as a failure nor as an interruption. With a reason it is an attempt; without one nobody has
        begun with it. Up to 200 bytes of the reason are kept."""
        if not isinstance(reason, str):
            raise TypeError(f"the reason is {shown(reason)}: expected a text")
        await self._once(lambda: self._send("give back", f"+BACK {cut(reason)}".rstrip(), timeout))

    async def term(self, reason: str = "", *, timeout: Duration | None = None) -> None:
        """Makes the item a dead letter, because trying again would not help."""
        if not isinstance(reason, str):
            raise TypeError(f"the reason is {shown(reason)}: expected a text")
        await self._once(lambda: self._send("term", f"+TERM {cut(reason)}".rstrip(), timeout))

    async def release(self, delay: Duration | None = None, *, reason: str = "", timeout: Duration | None = None) -> None:
        """The same as nak: the work on it has failed, and it is to be tried again."""
        await self.nak(delay, reason=reason, timeout=timeout)

    async def reject(self, reason: str = "", *, timeout: Duration | None = None) -> None:
        """The same as term: it becomes a dead letter."""
        await self.term(reason, timeout=timeout)

    async def extend(self, *, timeout: Duration | None = None) -> None:
        """Work in progress: the lease starts afresh, for as long as it was given."""
        await self._extend("+WPI", timeout)

    async def report(self, text: str, *, timeout: Duration | None = None) -> bool:
        """Extends the lease as extend does, and says how far the work is: up to 4 KiB of text in one line, such as JSON. The item
        keeps the text in place of the one before, until it ends. Whoever looks at it sees the text, and the next holder gets it
        as progress, so a job that is interrupted goes on where it was. It returns False if there is no room for the text."""
        if not isinstance(text, str):
            raise TypeError(f"the progress is {shown(text)}: expected a text")
        return await self._extend(f"+WPI {text}".rstrip(), timeout)

    async def _extend(self, word: str, timeout: Duration | None) -> bool:
        if self._settled:
            raise SettledError
        until, _, dropped = (await self._send("extend", word, timeout)).partition(" ")
        if until:
            self.lease_expires = time_of(until)
        return not dropped

    def spent(self, cost: int) -> None:
        """Says what this delivery has really cost so far, 0 to 1,000,000, where the cost of the push was a guess. It sends
        nothing: what ends the lease says so to the queue, which corrects what it has reserved, to either side. An extension
        before that, such as those of consume, reserves more if it has to, so that the truth is not lost with the worker.
        A give_back without a reason and a hand_over do not say it."""
        found = count(cost, "the cost", MOST_COST, 0)
        if not self.leased:
            raise NotLeasedError
        if self._settled:
            raise SettledError
        self._spent = found

    def hold(self) -> Hold:
        """An asynchronous context manager that extends the lease. If the lease is lost all the same, it
        cancels the block, and raises LeaseLostError."""
        if not self.leased:
            raise NotLeasedError
        return Hold(self)

    async def ack_next(
        self,
        *,
        wait: Duration = 0,
        lease: Duration | None = None,
        holder: str | None = None,
        min: int | None = None,
        max: int | None = None,
        timeout: Duration | None = None,
    ) -> Item | None:
        """Acknowledges, and pops the next item in the same transaction; None if there is none. It is leased
        for as long as this one and by the same holder, and comes from the same end and band, unless the
        arguments say otherwise."""
        s = Selection(min=min, max=max, wait=wait, lease=lease, holder=holder, repeatable=True, timeout=timeout)
        return await self._once(lambda: take_next(self._queue, Item.read, self.ack_subject, self.lease_term, s, self._spent))

    async def hand_over(self, to: Place, item: NewItem | str | bytes, *, timeout: Duration | None = None) -> Pushed:
        """Pushes an item to a queue and acknowledges this one, in one transaction. The hand_over of this
        item's queue has to name the other queue. After UnknownResultError call it again with the same
        msg_id."""
        if not self.leased:
            raise NotLeasedError
        lease = self._queue.client.acks.written(self.ack_subject)
        return await self._once(lambda: push(to, item, timeout, lease))

    async def __aenter__(self) -> Item:
        if self.keeper is not None:
            self.keeper.cancel()
        self._block = self.hold()
        await self._block.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> bool:
        assert self._block is not None
        lost = await self._block.end(err)
        if lost is not None and err is not None:  # another holder may have it
            if isinstance(err, asyncio.CancelledError):
                raise lost
            return False
        return await self.end(err)

    async def end(self, err: BaseException | None) -> bool:
        """Settles the item by the error of the work on it, and says whether that is all that the error was to
        say."""
        settle, suppress = outcome(self, err)
        if not self._settled:
            try:
                await settle()
            except (PQError, SettledError):
                if err is None or suppress:
                    raise
        return suppress and err is not None

    async def ack_with(self, together: AckTogether) -> None:
        """Acknowledges in a message with others."""

        async def settle() -> None:
            one = Settling(self._queue, "ack", self.ack_subject, "+ACK", cost=self._spent)
            self._settled_by(one, await together(one))

        await self._once(settle)

    async def _once(self, end: Callable[[], Awaitable[T]]) -> T:
        """Does what ends the lease, unless this object has ended it."""
        if not self.leased:
            raise NotLeasedError
        if self._settled:
            raise SettledError
        self._settled = True
        try:
            return await end()
        except LeaseLostError:
            raise
        except BaseException:
            self._settled = False  # the caller may try again
            raise

    async def _send(self, op: str, word: str, timeout: Duration | None, result: bytes | None = None) -> str:
        """Sends a settlement, by itself or with others, and returns until when the lease lasts then."""
        if not self.leased:
            raise NotLeasedError
        cost = None if word == "+BACK" else self._spent  # an item with which nobody has begun costs nothing
        one = Settling(self._queue, op, self.ack_subject, word, result, cost)
        landed = await one.go(self._queue.client.deadline(timeout))
        if isinstance(landed.error, ItemCancelledError):  # whatever the caller makes of it, nothing settles it any more
            self.loss = landed.error
        return self._settled_by(one, landed)

    @staticmethod
    def _settled_by(one: Settling, landed: Landed) -> str:
        """An attempt whose answer was lost may have taken effect: then the lease is over, and that is no error."""
        if landed.error is None:
            return str(landed.answer)
        if landed.open and isinstance(landed.error, LeaseLostError) and _held(one.op, landed.error.reason):
            return ""
        raise landed.error
