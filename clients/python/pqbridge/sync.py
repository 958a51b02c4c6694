"""The client for synchronous programs: the calls of pqbridge without await, from any thread.

One background thread runs the loop of all clients of a process. Leases are extended there, also while a
program is busy."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from . import client as _client
from . import item as _item
from . import queue as _queue
from .background import loop, run
from .consume import Consumer as _Consumer
from .consume import Told
from .duration import Duration, shown
from .events import Event, EventType
from .item_data import ItemData
from .options import ConnectOptions
from .push import NewItem
from .pushed import Pushed
from .signals import on_stop
from .supply import DEFAULT_LEASE, OnError, log_error
from .taking import End
from .values import count
from .worker import ConsumeOptions

__all__ = ["Client", "Consumer", "Item", "Queue", "Worker", "connect"]

P = ParamSpec("P")
R = TypeVar("R")

def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(self._real, *args, **kwargs))

    return call


def _taking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, _item.Item]]) -> Callable[Concatenate[Any, P], Item]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Item:
        return Item(run(method(self._real, *args, **kwargs)))

    return call


def _taking_none(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, _item.Item | None]]) -> Callable[Concatenate[Any, P], Item | None]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Item | None:
        item = run(method(self._real, *args, **kwargs))
        return None if item is None else Item(item)

    return call


def _taking_many(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, list[_item.Item]]]) -> Callable[Concatenate[Any, P], list[Item]]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> list[Item]:
        return [Item(item) for item in run(method(self._real, *args, **kwargs))]

    return call


_END: Any = object()


def _iterated(items: AsyncGenerator[R, None]) -> Generator[R, None, None]:
    async def step() -> R:
        return await anext(items, _END)

    try:
        while (item := run(step())) is not _END:
            yield item
    finally:
        run(_closed(items))


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


def _iterating(method: Callable[Concatenate[Any, P], AsyncGenerator[R, None]]) -> Callable[Concatenate[Any, P], Iterator[R]]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return _iterated(method(self._real, *args, **kwargs))

    return call


if TYPE_CHECKING:
    from typing_extensions import Unpack

    _Data = ItemData
else:
    _Data = object


class _Keeping:
    """Keeps a lease while a block runs. Nothing interrupts a block whose lease is lost: its settlement fails."""

    def __init__(self, item: Item) -> None:
        self._item = item

    async def _begin(self) -> None:
        from .hold import extend

        self._extending = asyncio.get_running_loop().create_task(extend(self._item.real, lambda err: self._item.lost.set()))

    async def _end(self) -> None:
        self._extending.cancel()

    def __enter__(self) -> Item:
        run(self._begin())
        return self._item

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        run(self._end())


class Item(_Data):
    """As a context manager an item keeps its lease while the block runs, and is settled by what the block
    does: see Queue.consume."""

    def __init__(self, real: _item.Item) -> None:
        self._real = real
        self.lost = threading.Event()
        """Set when its lease is lost while it is kept, or when its consumer ends: then its work is in vain. Of a lease that is
        lost loss says why."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def __repr__(self) -> str:
            return repr(self._real)

    @property
    def real(self) -> _item.Item:
        """The item of the background loop."""
        return self._real

    ack = _blocking(_item.Item.ack)
    nak = _blocking(_item.Item.nak)
    give_back = _blocking(_item.Item.give_back)
    release = _blocking(_item.Item.release)
    reject = _blocking(_item.Item.reject)
    term = _blocking(_item.Item.term)
    extend = _blocking(_item.Item.extend)
    report = _blocking(_item.Item.report)

    def spent(self, cost: int) -> None:
        """Says what this delivery has really cost so far: see pqbridge.Item.spent."""
        self._real.spent(cost)

    def ack_next(
        self, *, wait: Duration = 0, lease: Duration | None = None, holder: str | None = None, min: int | None = None, max: int | None = None, timeout: Duration | None = None
    ) -> Item | None:
        """Acknowledges, and pops the next item in the same transaction; None if there is none."""
        item = run(self._real.ack_next(wait=wait, lease=lease, holder=holder, min=min, max=max, timeout=timeout))
        return None if item is None else Item(item)

    def hand_over(self, to: Queue, item: NewItem | str | bytes, *, timeout: Duration | None = None) -> Pushed:
        """Pushes an item to a queue and acknowledges this one, in one transaction."""
        return run(self._real.hand_over(to.real, item, timeout=timeout))

    def hold(self) -> _Keeping:
        """A context manager that extends the lease, and sets lost if the lease is lost all the same."""
        self._real.hold()  # fails without a lease
        return _Keeping(self)

    def __enter__(self) -> Item:
        self._kept = self.hold()
        return self._kept.__enter__()

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> bool:
        self._kept.__exit__(None, None, None)
        return run(self._real.end(err))


def _show(name: str) -> property:
    """What pqbridge.Item has under this name."""
    return property(lambda self: getattr(self._real, name))


if not TYPE_CHECKING:
    for _name in vars(ItemData("", "")):
        if not _name.startswith("_"):
            setattr(Item, _name, _show(_name))
    for _name in ("leased", "settled", "text"):
        setattr(Item, _name, _show(_name))


class Consumer:
    """The workers of one Queue.consume. Their handlers run in threads."""

    def __init__(self, real: _Consumer, pool: ThreadPoolExecutor) -> None:
        self._real = real
        self._pool = pool

    def drain(self) -> None:
        """Takes no more items. It does not wait, so a handler may call it."""
        loop().call_soon_threadsafe(self._real.drain)

    def stop(self, grace: Duration | None = None) -> None:
        """Takes no more items, waits for the handlers and settles their items. After grace it sets their lost,
        waits until they end, and hands back the items of those that fail."""
        try:
            run(self._real.stop(grace))
        finally:
            self._pool.shutdown(wait=False)

    def run(self, grace: Duration = 20.0) -> None:
        """Waits until all workers have ended, as wait does, and stops them at SIGTERM or Ctrl-C: they take nothing
        more, and after the grace the lost of what still runs is set. Another signal, a second later or more, ends the
        grace. It returns when all functions have."""
        told = Told()
        try:
            with on_stop(lambda: loop().call_soon_threadsafe(told.tell)):
                run(self._real.until(told, grace))
        finally:
            self._pool.shutdown(wait=False)

    def wait(self) -> None:
        """Waits until all workers have ended. It fails if they cannot go on. A program that is interrupted here
        stops them, without grace."""
        try:
            run(self._real.wait())
        except (KeyboardInterrupt, SystemExit):
            self.stop(grace=0)
            raise
        finally:
            self._pool.shutdown(wait=False)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self.stop(None if err is None else 0)


class Queue:
    """It need not exist: the first push makes it."""

    def __init__(self, real: _queue.Queue) -> None:
        self._real = real
        self.name = real.name

    @property
    def real(self) -> _queue.Queue:
        """The queue of the background loop."""
        return self._real

    def __repr__(self) -> str:
        return repr(self._real)

    push = _blocking(_queue.Queue.push)
    push_many = _blocking(_queue.Queue.push_many)
    push_and_wait = _blocking(_queue.Queue.push_and_wait)
    result = _blocking(_queue.Queue.result)
    pop = _taking(_queue.Queue.pop)
    pop_nowait = _taking_none(_queue.Queue.pop_nowait)
    pop_many = _taking_many(_queue.Queue.pop_many)
    peek = _taking(_queue.Queue.peek)
    peek_many = _taking_many(_queue.Queue.peek_many)
    get = _taking(_queue.Queue.get)
    history = _blocking(_queue.Queue.history)
    info = _blocking(_queue.Queue.info)
    config = _blocking(_queue.Queue.config)
    configure = _blocking(_queue.Queue.configure)
    key = _blocking(_queue.Queue.key)
    set_key = _blocking(_queue.Queue.set_key)
    cancel = _blocking(_queue.Queue.cancel)
    remove = _blocking(_queue.Queue.remove)
    move = _blocking(_queue.Queue.move)
    requeue = _blocking(_queue.Queue.requeue)
    revoke = _blocking(_queue.Queue.revoke)
    bulk = _blocking(_queue.Queue.bulk)
    schedule = _blocking(_queue.Queue.schedule)
    schedule_times = _blocking(_queue.Queue.schedule_times)
    set_schedule = _blocking(_queue.Queue.set_schedule)
    pause_schedule = _blocking(_queue.Queue.pause_schedule)
    resume_schedule = _blocking(_queue.Queue.resume_schedule)
    delete_schedule = _blocking(_queue.Queue.delete_schedule)
    run_schedule = _blocking(_queue.Queue.run_schedule)
    source = _blocking(_queue.Queue.source)
    set_source = _blocking(_queue.Queue.set_source)
    pause_source = _blocking(_queue.Queue.pause_source)
    resume_source = _blocking(_queue.Queue.resume_source)
    delete_source = _blocking(_queue.Queue.delete_source)
    link = _blocking(_queue.Queue.link)
    set_link = _blocking(_queue.Queue.set_link)
    pause_link = _blocking(_queue.Queue.pause_link)
    resume_link = _blocking(_queue.Queue.resume_link)
    delete_link = _blocking(_queue.Queue.delete_link)
    import_item = _blocking(_queue.Queue.import_item)
    purge = _blocking(_queue.Queue.purge)
    pause = _blocking(_queue.Queue.pause)
    resume = _blocking(_queue.Queue.resume)
    delete = _blocking(_queue.Queue.delete)
    list = _iterating(_queue.Queue.list)
    keys = _iterating(_queue.Queue.keys)
    schedules = _iterating(_queue.Queue.schedules)
    sources = _iterating(_queue.Queue.sources)
    links = _iterating(_queue.Queue.links)

    def ack_many(self, items: Sequence[Item], *, timeout: Duration | None = None) -> Sequence[BaseException | None]:
        """Acknowledges items of this queue, up to 1000 in one message."""
        return run(self._real.ack_many([item.real for item in items], timeout=timeout))

    def items(
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
    ) -> Iterator[Item]:
        """Leases items one after another, and extends the lease of each until the next one is asked for. What
        was not settled until then is given back."""
        found = self._real.items(
            end=end, lease=lease, min=min, max=max, repeatable=repeatable, limit=limit, stop_when_empty=stop_when_empty, holder=holder, on_error=on_error
        )
        return map(Item, _iterated(found))

    def consume(
        self,
        handler: Callable[[Item], object],
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
        """Leases items and calls the handler on each, in concurrency threads. pqbridge.Queue.consume says what
        becomes of the items, and of what the handler returns. A lease is extended while the handler runs; item.lost is set
        when it is lost, at once if somebody has cancelled the item, and item.loss says why."""
        if not callable(handler):
            raise TypeError(f"the handler is {shown(handler)}: expected a function of an item")
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):
            raise TypeError(f"the handler is {shown(handler)}, which is asynchronous: expected a function that is not, or pqbridge.Queue.consume")
        count(concurrency, "concurrency", 10_000)
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix=f"pqbridge-{self.name}")

        async def work(real: _item.Item) -> object:
            item = Item(real)
            done = asyncio.get_running_loop().run_in_executor(pool, handler, item)
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:  # a thread cannot be cancelled
                item.lost.set()
                await asyncio.wait({done})
                return done.result()

        async def start() -> _Consumer:
            return self._real.consume(
                work,
                concurrency=concurrency,
                end=end,
                lease=lease,
                min=min,
                max=max,
                repeatable=repeatable,
                limit=limit,
                stop_when_empty=stop_when_empty,
                holder=holder,
                backoff=backoff,
                on_error=on_error,
            )

        return Consumer(run(start()), pool)

    def worker(self, **options: Unpack[ConsumeOptions]) -> Callable[[Callable[[Item], object]], Worker]:
        """Makes a worker of a function: @jobs.worker(concurrency=4), and call its run. The arguments are those of
        consume."""
        return lambda handler: Worker(self, handler, options)


class Worker:
    """What Queue.worker makes of a function, which can still be called."""

    def __init__(self, queue: Queue, handler: Callable[[Item], object], options: ConsumeOptions) -> None:
        if not callable(handler):
            raise TypeError(f"the handler is {shown(handler)}: expected a function of an item, as in @queue.worker(concurrency=4)")
        functools.update_wrapper(self, handler)
        self._queue = queue
        self._handler = handler
        self._options = options

    def __call__(self, item: Item) -> object:
        return self._handler(item)

    def start(self) -> Consumer:
        """Begins to consume."""
        return self._queue.consume(self._handler, **self._options)

    def run(self, grace: Duration = 20.0) -> None:
        """Consumes until SIGTERM or Ctrl-C; see Consumer.run."""
        self.start().run(grace)


class Client:
    """pqbridge.Client describes it."""

    def __init__(self, real: _client.Client) -> None:
        self._real = real

    def queue(self, name: str) -> Queue:
        """The queue with this name, which need not exist: the first push makes it."""
        return Queue(self._real.queue(name))

    def attach(self, ack_subject: str) -> Item:
        """An item that can only be settled, from the ack_subject of its lease."""
        return Item(self._real.attach(ack_subject))

    flush = _blocking(_client.Client.flush)
    system = _blocking(_client.Client.system)
    cluster = _blocking(_client.Client.cluster)
    history = _blocking(_client.Client.history)
    replace_node = _blocking(_client.Client.replace_node)
    step_down = _blocking(_client.Client.step_down)
    close = _blocking(_client.Client.close)
    queues = _iterating(_client.Client.queues)

    @contextmanager
    def events(self, queue: str | None = None, type: EventType | Literal["*"] = "*") -> Generator[Iterator[Event], None, None]:
        """Events from the moment the block begins."""
        events = self._real.events(queue, type)
        run(events.__aenter__())

        def each() -> Iterator[Event]:
            while True:
                yield run(events.__anext__())

        try:
            yield each()
        finally:
            run(events.__aexit__(None, None, None))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect(servers: str | list[str] | None = None, **options: Unpack[ConnectOptions]) -> Client:
    """Connects to NATS. The arguments are those of pqbridge.connect. with connect(…) as client closes it."""

    async def start() -> _client.Client:
        return await _client.connect(servers, **options)

    return Client(run(start()))
