"""Configurations and reports, with the protocol's names. Durations in them are texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload


class ConfigChange(TypedDict, total=False):
    """The fields of a configuration that change."""

    priority: int
    lease: str
    ttl: str
    max_deliveries: int
    """After how many failures an item is dead; 0: never."""
    max_interruptions: int | Literal[""]
    """After how many interruptions an item is dead; 0: never; "": as many as max_deliveries."""
    backoff: str | dict[str, Any] | list[str]
    """"": none; how it grows, such as {"delay": "1s"}; or the delay of each delivery."""
    attempts: int
    """How many of its last leases an item remembers that ended without success."""
    dead_letter: str
    dead_letter_expired: bool
    dead_letters_from: str
    dedup_window: str
    dedup_limit: int
    ties: Literal["newest", "oldest"]
    max_length: int
    max_bytes: int
    overflow: Literal["refuse", "evict"]
    key_limit: int
    key_order: bool
    fair: str
    rate: str
    key_rate: str
    cost_rate: str
    """How much cost the queue hands out in a time, such as "1440/1s"; "": no bound."""
    key_cost_rate: str
    """The same of each key."""
    hand_over: str
    strict: bool
    result_bytes: int
    """How many bytes results may take; 0: 64 MiB."""
    expire_empty: str
    """For how long the queue is empty and unused before it deletes itself; 0s: it does not."""


class Config(TypedDict):
    """The configuration of a queue."""

    priority: int
    lease: str
    ttl: str
    max_deliveries: int
    """After how many failures an item is dead; 0: never."""
    max_interruptions: int | Literal[""]
    """After how many interruptions an item is dead; 0: never; "": as many as max_deliveries."""
    backoff: str | dict[str, Any] | list[str]
    """"": none; how it grows, such as {"delay": "1s"}; or the delay of each delivery."""
    attempts: int
    """How many of its last leases an item remembers that ended without success."""
    dead_letter: str
    dead_letter_expired: bool
    dead_letters_from: str
    dedup_window: str
    dedup_limit: int
    ties: Literal["newest", "oldest"]
    max_length: int
    max_bytes: int
    overflow: Literal["refuse", "evict"]
    key_limit: int
    key_order: bool
    fair: str
    rate: str
    key_rate: str
    cost_rate: str
    """How much cost the queue hands out in a time, such as "1440/1s"; "": no bound."""
    key_cost_rate: str
    """The same of each key."""
    hand_over: str
    strict: bool
    result_bytes: int
    """How many bytes results may take; 0: 64 MiB."""
    expire_empty: str
    """For how long the queue is empty and unused before it deletes itself; 0s: it does not."""


class _Rates(TypedDict):
    push: float
    pop: float
    settle: float


class Rates(_Rates, total=False):
    nack: float
    """Of the settled items: attempts that failed."""


class _Cause(TypedDict):
    cause: str
    """"flows", "empty", "paused", "rate", "blocked", "band", "leased", "held", "delayed", "failing", "no_workers",
    "unknown", "dead_letters", "full", "store_full", "quota_items" or "quota_bytes"."""
    text: str
    """One sentence."""


class Explain(_Cause, total=False):
    """Why no item of a queue, or why an item, is handed out: a mapping with the protocol's names. What there is nothing
    to say of is missing."""

    next: str
    """What to do."""
    refuses: str
    """Why the queue takes no push now: "full", "store_full", "quota_items" or "quota_bytes"."""
    key: str
    waits_for: str
    item: str
    """Id of the item whose lease or delay is meant."""
    holder: str
    since: str
    until: str
    at_least: bool
    link: str
    failing: int
    """How many of the first items have failed."""
    reason: str
    """Of what the item failed last."""
    attempt: int
    """Number of the attempt that is next, of max_deliveries."""
    max_deliveries: int
    waiting: int
    bands: list[str]


class Info(dict[str, Any]):
    """Counts, rates and configuration of a queue: a mapping with the protocol's names, and attributes of the same
    names. What there is nothing to say of is missing in the mapping, and its attribute is 0, False or ""."""

    queue: str
    ready: int
    leased: int
    delayed: int
    waiting: int
    """Pops that wait."""
    bytes: int
    oldest: float
    rates: Rates
    paused: bool
    config: Config
    explain: Explain
    """Why no item is handed out."""
    held: int = 0
    """Leased items that links hold."""
    overhead: int = 0
    """Bytes of long unique values, keys, attempts and deaths."""
    oldest_of_all: float = 0.0
    oldest_at_least: bool = False
    oldest_lease: float = 0.0
    lease_at_least: bool = False
    latest_lease: float = 0.0
    """How many seconds ago the latest lease began."""
    fair_ready: bool = False
    keys_set: int = 0
    keys_owing: int = 0
    """Keys that have not all tokens of their rate."""
    remembered: int = 0
    """Ids of pushes and pops, of dedup_limit."""
    results: int = 0
    """Results that are kept."""
    results_bytes: int = 0
    """Bytes that they take, of result_bytes."""
    schedules: int = 0
    next_schedule: str = ""
    """The first time that one of them has; missing of more than 64 schedules."""

    def __init__(self, *fields: Any, **more: Any) -> None:
        super().__init__(*fields, **more)
        self.__dict__.update(self)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: Literal["queue", "next_schedule"], /) -> str: ...
        @overload
        def __getitem__(self, name: Literal["ready", "leased", "delayed", "waiting", "bytes", "overhead", "held", "keys_set", "keys_owing", "remembered", "results", "results_bytes", "schedules"], /) -> int: ...
        @overload
        def __getitem__(self, name: Literal["oldest", "oldest_of_all", "oldest_lease", "latest_lease"], /) -> float: ...
        @overload
        def __getitem__(self, name: Literal["paused", "oldest_at_least", "lease_at_least", "fair_ready"], /) -> bool: ...
        @overload
        def __getitem__(self, name: Literal["rates"], /) -> Rates: ...
        @overload
        def __getitem__(self, name: Literal["config"], /) -> Config: ...
        @overload
        def __getitem__(self, name: Literal["explain"], /) -> Explain: ...
        @overload
        def __getitem__(self, name: str, /) -> Any: ...
        def __getitem__(self, name: str, /) -> Any: ...


class _Steps(TypedDict):
    bridge: str
    """Its id, as discovery has it."""
    step: int
    """Seconds."""
    end: str
    """Of the last step."""
    push: list[float]
    pop: list[float]
    settle: list[float]
    nacked: list[float]
    """Of the settled items: attempts that failed."""


class History(_Steps, total=False):
    """What went through one bridge in steps of equal length, the oldest first."""

    ready: list[float | None]
    """Of a queue: items when each step ended; None: nobody looked."""
    leased: list[float | None]
    delayed: list[float | None]
    failed: list[float]
    """Of all queues together: requests with an error other than 404 and 408."""
    dead: list[float]
    leases_lost: list[float]


class _System(TypedDict):
    version: str
    store: str
    store_id: str
    prefix: str
    limits: dict[str, Any]
    uptime: float


class _Disk(TypedDict):
    free: int
    size: int
    min_free: int


class Disk(_Disk, total=False):
    """The room where the store is, in bytes. With less than min_free it takes no new items."""

    ends_only: bool


class System(_System, total=False):
    """What one of the bridges reports about itself."""

    damage: list[str]
    disk: Disk
    cluster: Any


class Replaced(TypedDict):
    """Which node has taken the place of which, and where the replicas are."""

    old: str
    new: str
    replicas: list[str]


class SteppedDown(TypedDict):
    node: str
    successor: str
    epoch: int
