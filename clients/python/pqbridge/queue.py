"""A queue with a name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Union

from . import listing
from .ack_many import ack_many
from .bulk import BulkVerb, BulkWhere, bulk_fields, run_bulk
from .bulk_result import BulkResult
from .call import Call
from .cancel import Cancelled, cancel, or_hang_up
from .config import Config, ConfigChange, History, Info
from .consume import Consumer, Handler
from .core import Place
from .duration import Duration, duration_text, seconds, shown
from .errors import EmptyError, LeaseLostError, PQError, unreadable
from .hold import extend
from .imported import Import, import_item
from .item import Item
from .links import Link, LinkChange, changed_link, link_of
from .listing import KeyChange, KeyInfo, KeySettings, Listed
from .mailbox import Request
from .outcome import STOPPED
from .push import NewItem, PushOptions, push, push_many
from .pushed import Pushed, pushed
from .result import Result, result, result_of_push
from .schedules import Schedule, ScheduleChange, changed, run_of, schedule_of, times_of
from .sources import Source, SourceChange, changed_source, resumed, source_of
from .subjects import check_id, check_name, dead_letter
from .supply import DEFAULT_LEASE, OnError, Supply, log_error
from .take import take
from .taking import End, Selection
from .values import NO_JSON, count, header_text, holder_of, key_of, payload_or_json, priority_of, word
from .worker import ConsumeOptions, Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

_KEYS_PAGE = 100
_LIST_PAGE = 200
_NAMES_PAGE = 100
_MOST = 1000

# For how long the queue keeps the result that push_and_wait waits for.
_RESULT_TTL = 600.0


class Queue(Place):
    """It need not exist: the first push makes it."""

    async def push(
        self,
        payload: Union[str, bytes, bytearray, memoryview, None] = None,
        *,
        json: Any = NO_JSON,
        priority: int | None = None,
        headers: Mapping[str, str | Sequence[str]] | None = None,
        key: str | None = None,
        weight: int | None = None,
        unique: str | None = None,
        unique_until: Literal["leased"] | None = None,
        on_conflict: Literal["keep", "replace", "raise"] | None = None,
        msg_id: str | None = None,
        without_msg_id: bool = False,
        delay: Duration | None = None,
        not_before: datetime | None = None,
        ttl: Duration | None = None,
        result_ttl: Duration | None = None,
        cost: int | None = None,
        timeout: Duration | None = None,
    ) -> Pushed:
        """Adds an item, and returns when it is durable. NewItem says what the arguments mean. json: a value instead
        of a payload, written as JSON."""
        given = payload_or_json(payload, json)
        item = NewItem(given, priority, headers or {}, key, weight, unique, unique_until, on_conflict, msg_id, without_msg_id, delay, not_before, ttl, result_ttl, cost)
        return await push(self, item, timeout)

    async def push_many(self, items: Sequence[NewItem | str | bytes], *, timeout: Duration | None = None) -> list[Pushed]:
        """Adds up to 1000 items in one message and one transaction, in their order: all of them, or none.
        PQError.item says which one an error is about."""
        return await push_many(self, items, timeout)

    async def push_and_wait(
        self, payload: Union[str, bytes, bytearray, memoryview, None] = None, *, wait: Duration, cancel_on_hang_up: bool = False, **options: Unpack[PushOptions]
    ) -> Result:
        """Adds an item, and returns what became of it. wait: for how long to wait for that, at most; any time, in several
        requests. It fails with a NoResultYetError if the item has not ended by then, or the answer is lost: result waits on,
        by the error's id, and so does another call with the same msg_id, within the queue's dedup_window.

        cancel_on_hang_up: cancel the item when the wait ends before it has a result, by its time or because the task that waits
        is cancelled, since nobody else wants one. It fails with an ItemCancelledError then, or is cancelled when the cancel is
        answered; if the item has just ended, its result counts. A program that dies cancels nothing: a ttl helps.

        The other arguments are those of push. result_ttl is 10 minutes unless given: within that time of the end of the
        item a client that was away gets the result. timeout is of the push, and of the wait on top of its time."""
        lasts, timeout = seconds(wait, "wait"), options.get("timeout")
        options.setdefault("result_ttl", _RESULT_TTL)
        pushing = self.push(payload, **options)

        def waits(id: str) -> Awaitable[Result]:
            return result_of_push(self, id, lasts, None if timeout is None else seconds(timeout, "timeout") + lasts)

        return await (or_hang_up(self, pushing, waits) if cancel_on_hang_up else waits((await pushing).id))

    async def result(self, id: str, *, wait: Duration = 0, timeout: Duration | None = None) -> Result:
        """What became of an item, by its id. wait: how long to wait for its end; any time, in several requests. It fails with
        a NoResultYetError if the item has not ended, or not after the wait; with a NotFoundError if there is neither the
        item nor a result (reason "unknown"); and with a ConflictError if its push did not ask for a result ("unkept")."""
        return await result(self, id, wait, timeout)

    async def pop(
        self,
        *,
        end: End = "min",
        lease: Duration | None = None,
        min: int | None = None,
        max: int | None = None,
        wait: Duration = 0,
        holder: str | None = None,
        repeatable: bool = False,
        pop_id: str | None = None,
        timeout: Duration | None = None,
    ) -> Item:
        """Removes or leases the first item at an end. It fails with EmptyError if there is none.

        lease: the item returns unless it is settled within this time. Without it the queue's configuration
        decides; by default popped items are gone.

        min, max: only items with priorities from here on, up to here. wait: how long to wait for an item;
        any time, in several requests. holder: who leases the item, a text of 1 to 128 bytes. It tells one
        worker from another, and proves nothing.

        repeatable: give the pop a random id, so that the client can repeat it when its answer is lost. A pop
        without a lease then happens exactly once, unless the program ends. One with a lease fails with
        LeaseLostError if another consumer has had its item meanwhile.

        pop_id: give the pop an id: within the queue's dedup_window repeated pops with this id return the same
        items, in any program. After one that was repeated and found nothing, further ones find nothing either."""
        s = Selection(min=min, max=max, wait=wait, lease=lease, repeatable=repeatable, pop_id=pop_id, timeout=timeout, holder=holder)
        return (await take(self, "pop", end, s))[0]

    async def pop_nowait(
        self,
        *,
        end: End = "min",
        lease: Duration | None = None,
        min: int | None = None,
        max: int | None = None,
        holder: str | None = None,
        repeatable: bool = False,
        timeout: Duration | None = None,
    ) -> Item | None:
        """The first item at an end, None if there is none now."""
        try:
            return await self.pop(end=end, lease=lease, min=min, max=max, holder=holder, repeatable=repeatable, timeout=timeout)
        except EmptyError:
            return None

    async def pop_many(
        self,
        n: int,
        *,
        end: End = "min",
        lease: Duration | None = None,
        min: int | None = None,
        max: int | None = None,
        max_bytes: int | None = None,
        wait: Duration = 0,
        holder: str | None = None,
        repeatable: bool = False,
        pop_id: str | None = None,
        timeout: Duration | None = None,
    ) -> list[Item]:
        """The same for up to n items in one message; at least one, or an error. max_bytes bounds the bytes of
        payloads and headers; one item always fits."""
        s = Selection(count(n, "the number of items", _MOST), min, max, wait, lease, pop_id, repeatable, max_bytes, timeout, holder)
        return await take(self, "pop", end, s)

    async def peek(
        self, *, end: End = "min", min: int | None = None, max: int | None = None, wait: Duration = 0, timeout: Duration | None = None
    ) -> Item:
        """Shows the first item at an end and leaves it there."""
        return (await take(self, "peek", end, Selection(min=min, max=max, wait=wait, timeout=timeout)))[0]

    async def peek_many(
        self,
        n: int,
        *,
        end: End = "min",
        min: int | None = None,
        max: int | None = None,
        max_bytes: int | None = None,
        wait: Duration = 0,
        timeout: Duration | None = None,
    ) -> list[Item]:
        s = Selection(count(n, "the number of items", _MOST), min, max, wait, max_bytes=max_bytes, timeout=timeout)
        return await take(self, "peek", end, s)

    async def items(
        self,
        *,
        end: End = "min",
        lease: Duration = DEFAULT_LEASE,
        min: int | None = None,
        max: int | None = None,
        repeatable: bool = False,
        limit: int | None = None,
        stop_when_empty: bool = False,
        holder: str | None = None,
        on_error: OnError = log_error,
    ) -> AsyncGenerator[Item, None]:
        """Leases items one after another, and extends the lease of each until the next one is asked for. What
        was not settled until then is given back; at once at the end of the loop. The arguments are those of
        consume."""
        supply = Supply(self, end, Selection(min=min, max=max, lease=lease, repeatable=repeatable, holder=holder), limit, stop_when_empty, on_error)
        while item := await supply.next():
            item.keeper = asyncio.get_running_loop().create_task(extend(item, lambda err: None))
            over = True
            try:
                yield item
                over = False  # the loop goes on, and has passed it over
            finally:
                item.keeper.cancel()
                if not item.settled:
                    try:
                        await (item.give_back(STOPPED) if over else item.nak())
                    except PQError as err:
                        on_error(err, item)

    def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        end: End = "min",
        lease: Duration = DEFAULT_LEASE,
        min: int | None = None,
        max: int | None = None,
        repeatable: bool = False,
        limit: int | None = None,
        stop_when_empty: bool = False,
        holder: str | None = None,
        backoff: Callable[[int], Duration] | None = None,
        on_error: OnError = log_error,
    ) -> Consumer:
        """Leases items and calls the handler on each, concurrency of them at a time. When the handler is done,
        the item is acknowledged. When it raises, the item is given back and delivered again later; see
        RetryAfter and GiveUp. It may also settle the item itself.

        What the handler returns is the result of the item, if its push asked for one, it is not None, and the handler has
        not settled the item: bytes and texts as they are, other values as JSON. A value that cannot be written, or is too
        large, makes the item a dead letter, because its work is done; on_error hears of it.

        lease: how long an item stays with a program that has died. It is extended while the handler runs. If
        it is lost all the same, the handler is cancelled, and item.loss says why. If somebody has cancelled the item, and the
        user may subscribe to the events of the queue, that happens at once, and otherwise with the next extension. on_error
        gets an ItemCancelledError, and what the handler returns is not acknowledged. A handler that keeps the loop busy for longer than
        the lease keeps the client from extending it.

        repeatable: give pops ids. Then an item whose delivery was lost with a connection comes at once, and
        not when its lease has run out. The queue remembers each id for its dedup_window.

        limit: end after this many items. stop_when_empty: end when there is no ready item, instead of waiting.
        holder: what the leases show as their holder; <host>-<process id> if it is not given.
        backoff: the delay before the next delivery of a failed item, from how often it has failed; if it
        is not given, the backoff of the queue, and default_backoff if that has none.
        on_error: gets what handlers raise, and the errors of pops and settlements, with the item if there is
        one; they are logged if it is not given. If the queue does not exist at the beginning it gets a NotFoundError
        once, and the consumer waits for the first push. If nothing answers it hears of that after 5 seconds, and
        again only when something has answered."""
        supply = Supply(self, end, Selection(min=min, max=max, lease=lease, repeatable=repeatable, holder=holder), limit, stop_when_empty, on_error)
        return Consumer(supply, handler, concurrency, backoff)

    def worker(self, **options: Unpack[ConsumeOptions]) -> Callable[[Handler], Worker]:
        """Makes a worker of a function: @jobs.worker(concurrency=4), and await its run. The arguments are those of
        consume."""
        return lambda handler: Worker(lambda: self.consume(handler, **options), handler)

    async def ack_many(self, items: Sequence[Item], *, timeout: Duration | None = None) -> list[BaseException | None]:
        """Acknowledges items of this queue, up to 1000 in one message. For each the result has the error that
        its ack would raise, or None."""
        return await ack_many(self, items, timeout)

    async def info(self, *, timeout: Duration | None = None) -> Info:
        """Counts, rates and configuration."""
        return Info(await self._ask("info", "info", None, timeout))

    async def history(self, *, timeout: Duration | None = None) -> History:
        """What went through the answering bridge in the last hour, and how long the queue was."""
        history: History = (await self._ask("info", "info", {"history": True}, timeout))["history"]
        return history

    async def config(self, *, timeout: Duration | None = None) -> Config:
        config: Config = await self._ask("config", "admin.config", None, timeout)
        return config

    async def configure(self, change: ConfigChange, *, timeout: Duration | None = None) -> Config:
        """Changes the configuration, makes the queue if necessary, and returns the whole configuration."""
        if not isinstance(change, Mapping):
            raise TypeError(f"the change is {shown(change)}: expected a mapping such as {{'lease': '30s'}}")
        config: Config = await self._ask("config", "admin.config", dict(change), timeout, "configure")
        return config

    async def get(self, id: str, *, attempts: bool = False, explain: bool = False, timeout: Duration | None = None) -> Item:
        """An item by its id, whatever its state. attempts: with last_attempts. explain: with explain."""
        check_id(id)
        asked = {name: True for name, value in (("attempts", attempts), ("explain", explain)) if value}
        body = json.dumps(asked).encode() if asked else b""
        call = Call(Request("get", self.name, self.subject(f"get.{id}"), None, body))
        m = await call.send(self.client.mailbox, self.client.patience, self.client.deadline(timeout))
        if not m.is_item:
            raise unreadable("get", self.name, m.data, ValueError("it is no item"))
        return Item.read(self, m, "get")

    async def list(
        self,
        *,
        state: Literal["ready", "leased", "delayed"] = "ready",
        min: int | None = None,
        max: int | None = None,
        key: str | None = None,
        holder: str | None = None,
        after: str | None = None,
        bodies: bool = False,
        preview: int | None = None,
        attempts: bool = False,
        page: int = _LIST_PAGE,
        timeout: Duration | None = None,
    ) -> AsyncGenerator[Listed, None]:
        """The items in one state, in the order of pops from the end "min". after: behind the item with this
        id. key: only ready items of this key. holder: only items that this one has leased, with the state
        "leased". bodies: with payloads. preview: how many bytes of each payload, up to 1024; not with bodies.
        attempts: with last_attempts. page: how many items of one request."""
        if after is not None:
            check_id(after)
        fields: dict[str, Any] = {"state": word(state, "state", "ready", "leased", "delayed"), "limit": count(page, "page", _MOST)}
        given = {
            "min": None if min is None else priority_of(min, "min"),
            "max": None if max is None else priority_of(max, "max"),
            "key": None if key is None else key_of(key),
            "holder": None if holder is None else holder_of(holder),
            "bodies": bodies or None,
            "attempts": attempts or None,
            "preview": None if preview is None else count(preview, "preview", 1024),
        }
        fields.update((name, value) for name, value in given.items() if value is not None)
        async for item in self._pages("list", "list", "items", fields, after, timeout):
            yield listing.listed(self.name, item)

    async def keys(self, *, after: str | None = None, page: int = _KEYS_PAGE, timeout: Duration | None = None) -> AsyncGenerator[KeyInfo, None]:
        """The keys that have ready or leased items, or settings, in the order of their bytes. after: behind
        this key, which need not be there."""
        fields: dict[str, Any] = {"limit": count(page, "page", _KEYS_PAGE)}
        async for key in self._pages("keys", "keys", "keys", fields, after, timeout):
            yield listing.known(self.name, key)

    async def _pages(
        self, op: str, verb: str, what: str, fields: dict[str, Any], after: str | None, timeout: Duration | None
    ) -> AsyncGenerator[Any, None]:
        while True:
            answer = await self._ask(op, verb, {**fields, "after": after} if after else fields, timeout)
            rows = answer.get(what)
            if not isinstance(rows, list):
                raise unreadable(op, self.name, str(answer).encode(), ValueError(f"it has no {what}"))
            for row in rows:
                yield row
            after = answer.get("next")
            if not after:
                return

    async def key(self, key: str, *, timeout: Duration | None = None) -> KeyInfo:
        """One key; one that nobody has used has no items."""
        return listing.known(self.name, await self._ask("key", f"key.{_token(key)}", None, timeout))

    async def set_key(self, key: str, change: KeyChange, *, timeout: Duration | None = None) -> KeySettings:
        """Changes settings of a key, makes the queue if necessary, and returns all settings of the key."""
        settings: KeySettings = await self._ask("set_key", f"admin.key.{_token(key)}", dict(change), timeout)
        return settings

    async def remove(self, id: str, *, timeout: Duration | None = None) -> None:
        """Removes an item, whatever its state."""
        check_id(id)
        await self._ask("remove", f"remove.{id}", None, timeout)

    async def cancel(self, id: str, reason: str = "", spare_leased: bool = False, *, timeout: Duration | None = None) -> Cancelled:
        """Ends an item for good, whether it waits or is leased, so that nobody works on it any more. Its result, if its push
        asked for one, has the outcome "cancelled". A function of consume that works on it hears of that at once: an
        asynchronous one is cancelled, another one sees item.lost.

        An item that had ended before stays as it has ended, and the answer says how if its queue keeps that; otherwise it
        fails with a NotFoundError. It fails with a ConflictError if a link has the item.

        reason: why, for the result and for the holder; up to 1 KiB of it are sent. spare_leased: leave an item alone with
        which somebody has begun; it fails with a ConflictError then (reason "leased")."""
        return await cancel(self, id, reason, spare_leased, timeout)

    async def move(self, id: str, priority: int, *, timeout: Duration | None = None) -> None:
        """Gives an item another priority."""
        check_id(id)
        await self._ask("move", f"move.{id}.{priority_of(priority)}", None, timeout)

    async def requeue(self, id: str, *, origin: str | None = None, timeout: Duration | None = None) -> Pushed:
        """Takes a dead letter of this queue out of its dead-letter queue, or out of the one that is named, and
        pushes it here again, in one transaction. A queue without room for it fails with a BusyError, and it
        stays a dead letter."""
        check_id(id)
        dead = Queue(self.client, origin or dead_letter(self.name))
        answer = await dead._ask("requeue", f"requeue.{id}", {"to": self.name}, timeout)
        return pushed(self.name, answer, str(answer).encode())

    async def import_item(self, item: Import, *, timeout: Duration | None = None) -> Pushed:
        """Puts an item back at its place, with its id and its history. The result is a duplicate if the item is
        there already. The client repeats an import without an answer, so pause the queue before: an item that
        a consumer has popped in between would come back."""
        return await import_item(self, item, timeout)

    async def revoke(
        self, id: str, *, fence: int | None = None, delay: Duration | None = None, reason: str = "", timeout: Duration | None = None
    ) -> None:
        """Takes the lease of an item away: its holder has lost it for good. It fails with a ConflictError if the
        item has no lease, and with a LeaseLostError if the lease with the fence has ended.

        fence: of the lease, as get shows it. Without it that is whichever there is, and the client does not
        repeat the request, which might hit the next holder. delay: how long the item stays away; without it
        the backoff of the queue decides. reason: why, for the record of the attempt."""
        check_id(id)
        fields: dict[str, Any] = {} if fence is None else {"fence": count(fence, "fence")}
        if delay is not None:
            fields["delay"] = duration_text(seconds(delay, "delay", zero=True))
        if reason:
            fields["reason"] = reason
        call = Call(Request("revoke", self.name, self.subject(f"revoke.{id}"), None, json.dumps(fields).encode()), repeatable=fence is not None)
        try:
            await call.send(self.client.mailbox, self.client.patience, self.client.deadline(timeout))
        except LeaseLostError:
            if not call.open:  # otherwise an attempt without an answer may have ended it, and it has ended
                raise

    async def schedules(self, *, after: str | None = None, page: int = _NAMES_PAGE, timeout: Duration | None = None) -> AsyncGenerator[Schedule, None]:
        """The schedules, in the order of their names, without what they push. after: behind this name."""
        async for s in self._named("schedule", after, page, timeout):
            yield schedule_of(self.name, s)

    async def schedule(self, name: str, *, timeout: Duration | None = None) -> Schedule:
        """A schedule with its next times."""
        check_name("schedule", name)
        return schedule_of(self.name, await self._ask("schedule", f"schedule.{name}", None, timeout))

    async def schedule_times(self, name: str, change: ScheduleChange, *, timeout: Duration | None = None) -> Sequence[datetime]:
        """The next times that a schedule would have after a change. It need not exist."""
        check_name("schedule", name)
        return times_of(self.name, await self._ask("schedule_times", f"schedule.{name}", changed(change), timeout))

    async def set_schedule(self, name: str, change: ScheduleChange, *, timeout: Duration | None = None) -> Schedule:
        """Changes a schedule, makes it and the queue if necessary, and returns the whole."""
        return schedule_of(self.name, await self._about("schedule", "set_schedule", name, changed(change), timeout))

    async def pause_schedule(self, name: str, *, timeout: Duration | None = None) -> Schedule:
        """Stops a schedule. Times that pass until it is resumed are no misses."""
        return schedule_of(self.name, await self._about("schedule", "pause_schedule", name, None, timeout, ".pause"))

    async def resume_schedule(self, name: str, *, from_now: bool = False, timeout: Duration | None = None) -> Schedule:
        """Ends a pause. from_now: the schedule begins anew, also with times that have fired, as a clock that
        was ahead may have had it do."""
        return schedule_of(self.name, await self._about("schedule", "resume_schedule", name, {"from": "now"} if from_now else None, timeout, ".resume"))

    async def delete_schedule(self, name: str, *, timeout: Duration | None = None) -> None:
        """Removes a schedule. What it has pushed stays."""
        await self._about("schedule", "delete_schedule", name, None, timeout, ".delete")

    async def run_schedule(self, name: str, *, msg_id: str | None = None, timeout: Duration | None = None) -> Pushed:
        """Pushes the item of a schedule now. msg_id: of all runs with this id within the queue's dedup_window
        only the first one pushes. Without it the client does not repeat a run."""
        check_name("schedule", name)
        headers = None if msg_id is None else {"Nats-Msg-Id": header_text(msg_id, "msg_id", 1024)}
        call = Call(Request("run_schedule", self.name, self.subject(f"admin.schedule.{name}.run"), headers, b""), repeatable=msg_id is not None)
        m = await call.send(self.client.mailbox, self.client.patience, self.client.deadline(timeout))
        return run_of(self.name, m.data)

    async def sources(self, *, after: str | None = None, page: int = _NAMES_PAGE, timeout: Duration | None = None) -> AsyncGenerator[Source, None]:
        """The sources, in the order of their names. after: behind this name."""
        async for s in self._named("source", after, page, timeout):
            yield source_of(self.name, s)

    async def source(self, name: str, *, timeout: Duration | None = None) -> Source:
        """A source. It takes the right to change it, unlike sources."""
        return source_of(self.name, await self._about("source", "source", name, None, timeout))

    async def set_source(self, name: str, change: SourceChange, *, timeout: Duration | None = None) -> Source:
        """Changes a source, makes it and the queue if necessary, and returns the whole."""
        return source_of(self.name, await self._about("source", "set_source", name, changed_source(change), timeout))

    async def pause_source(self, name: str, *, timeout: Duration | None = None) -> Source:
        """Stops a source, which keeps its position."""
        return source_of(self.name, await self._about("source", "pause_source", name, None, timeout, ".pause"))

    async def resume_source(
        self, name: str, *, from_seq: int | None = None, from_time: datetime | None = None, skip: bool = False, accept: bool = False, timeout: Duration | None = None
    ) -> Source:
        """Ends a pause, and with one of these also a stop. from_seq, from_time: go on with that message; what was
        pushed already comes again. skip: pass over the poisoned message. accept: take the stream as it is now, or the giver's number.
        The client does not repeat it: it might go back twice."""
        return source_of(self.name, await self._about("source", "resume_source", name, resumed(from_seq, from_time, skip, accept), timeout, ".resume"))

    async def delete_source(self, name: str, *, timeout: Duration | None = None) -> None:
        """Removes a source. What it has pushed stays, and so does the consumer of one that takes."""
        await self._about("source", "delete_source", name, None, timeout, ".delete")

    async def links(self, *, after: str | None = None, page: int = _NAMES_PAGE, timeout: Duration | None = None) -> AsyncGenerator[Link, None]:
        """The links, in the order of their names. after: behind this name."""
        async for one in self._named("link", after, page, timeout):
            yield link_of(self.name, one)

    async def link(self, name: str, *, timeout: Duration | None = None) -> Link:
        """A link. It takes the right to change it, unlike links."""
        return link_of(self.name, await self._about("link", "link", name, None, timeout))

    async def set_link(self, name: str, change: LinkChange, *, timeout: Duration | None = None) -> Link:
        """Changes a link, makes it and the queue if necessary, and returns the whole."""
        return link_of(self.name, await self._about("link", "set_link", name, changed_link(change), timeout))

    async def pause_link(self, name: str, *, timeout: Duration | None = None) -> Link:
        """Has a link give no further batch."""
        return link_of(self.name, await self._about("link", "pause_link", name, None, timeout, ".pause"))

    async def resume_link(self, name: str, *, timeout: Duration | None = None) -> Link:
        return link_of(self.name, await self._about("link", "resume_link", name, None, timeout, ".resume"))

    async def delete_link(self, name: str, *, force: bool = False, timeout: Duration | None = None) -> int:
        """Removes a link, and returns how many items are back. force: also one that holds items, which return to
        their places, although the taker may have them."""
        answer = await self._about("link", "delete_link", name, {"force": True} if force else None, timeout, ".delete")
        return int(answer.get("returned", 0))

    async def _named(self, kind: str, after: str | None, page: int, timeout: Duration | None) -> AsyncGenerator[Any, None]:
        if after is not None:
            check_name(kind, after)
        fields: dict[str, Any] = {"limit": count(page, "page", _NAMES_PAGE)}
        async for one in self._pages(f"{kind}s", f"{kind}s", f"{kind}s", fields, after, timeout):
            yield one

    async def _about(self, kind: str, op: str, name: str, fields: dict[str, Any] | None, timeout: Duration | None, action: str = "") -> Any:
        check_name(kind, name)
        return await self._ask(op, f"admin.{kind}.{name}{action}", fields, timeout)

    async def bulk(
        self,
        verb: BulkVerb,
        where: BulkWhere | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        page: int | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        reason: str = "",
        to: str | None = None,
        spread: Duration | None = None,
        after: str = "",
        timeout: Duration | None = None,
    ) -> BulkResult:
        """Does something to all items that fit, page after page: "remove", "move" (to a priority), "revoke" or
        "requeue". Each page is one transaction, and one without an answer is repeated: it does nothing twice. The operation
        passes over what came after it began. An error that ends it early has the result so far as its bulk.

        where: which items; all=True instead: all of the state. dry_run: count what would be done, and change
        nothing. page: changes of one request, up to 500. delay and reason are of a revoke, to and spread of a
        requeue: the queue that the items go to, and the time over which they become ready. after: go on where
        another run ended, the next of its result."""
        fields = bulk_fields(verb, where, all, dry_run, priority, delay, reason, to, spread)
        return await run_bulk(self, verb, fields, page, after, timeout)

    async def purge(self, *, timeout: Duration | None = None) -> int:
        """Removes all items and returns how many."""
        return int((await self._ask("purge", "admin.purge", None, timeout)).get("purged", 0))

    async def pause(self, *, timeout: Duration | None = None) -> None:
        """Stops deliveries; pushes go on."""
        await self._ask("pause", "admin.pause", None, timeout)

    async def resume(self, *, timeout: Duration | None = None) -> None:
        await self._ask("resume", "admin.resume", None, timeout)

    async def delete(self, *, timeout: Duration | None = None) -> None:
        """Deletes the queue with its items and its configuration."""
        await self._ask("delete", "admin.delete", None, timeout)

    async def _ask(self, op: str, verb: str, fields: dict[str, Any] | None, timeout: Duration | None, does: str | None = None) -> Any:
        return await self.client.ask(op, self.name, self.subject(verb), fields, timeout, does)


def _token(key: str) -> str:
    """A key as a token of a subject."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in key_of(key).encode())
