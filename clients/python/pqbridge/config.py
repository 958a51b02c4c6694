"""Configurations and reports, with the protocol's names. Durations in them are texts."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class ConfigChange(TypedDict, total=False):
    """The fields of a configuration that change."""

    priority: int
    lease: str
    ttl: str
    max_deliveries: int
    dead_letter: str
    dead_letter_expired: bool
    dead_letters_from: str
    dedup_window: str
    dedup_limit: int
    ties: Literal["newest", "oldest"]
    max_length: int
    overflow: Literal["refuse", "evict"]
    key_limit: int
    key_order: bool
    fair: str
    rate: str
    key_rate: str
    hand_over: str
    strict: bool


class Config(TypedDict):
    """The configuration of a queue."""

    priority: int
    lease: str
    ttl: str
    max_deliveries: int
    dead_letter: str
    dead_letter_expired: bool
    dead_letters_from: str
    dedup_window: str
    dedup_limit: int
    ties: Literal["newest", "oldest"]
    max_length: int
    overflow: Literal["refuse", "evict"]
    key_limit: int
    key_order: bool
    fair: str
    rate: str
    key_rate: str
    hand_over: str
    strict: bool


class Rates(TypedDict):
    push: float
    pop: float
    settle: float


class _Counts(TypedDict):
    queue: str
    ready: int
    leased: int
    delayed: int
    waiting: int
    bytes: int
    oldest: float
    rates: Rates
    paused: bool
    config: Config


class Info(_Counts, total=False):
    """Counts, rates and configuration of a queue. Some are missing when there is nothing to say."""

    oldest_of_all: float
    oldest_at_least: bool
    oldest_lease: float
    lease_at_least: bool
    fair_ready: bool
    keys_set: int


class _System(TypedDict):
    version: str
    store: str
    store_id: str
    prefix: str
    limits: dict[str, Any]
    uptime: float


class System(_System, total=False):
    """What one of the bridges reports about itself."""

    damage: list[str]
    cluster: Any


class SteppedDown(TypedDict):
    node: str
    successor: str
    epoch: int
