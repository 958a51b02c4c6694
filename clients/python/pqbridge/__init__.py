"""Durable, transactional, double-ended priority queues over NATS: a client of pqbridge for asyncio.

pqbridge.sync has the same calls for synchronous programs."""

from .bulk import BulkWhere
from .bulk_result import BulkResult
from .cancel import Cancelled
from .client import Client, connect
from .cluster import Cluster, Member
from .config import Config, ConfigChange, Disk, Explain, History, Info, Replaced, SteppedDown, System
from .consume import Consumer
from .duration import Duration
from .errors import (
    BadRequestError,
    BusyError,
    ConflictError,
    DamagedError,
    EmptyError,
    ForbiddenError,
    InternalError,
    ItemCancelledError,
    LeaseLostError,
    NoResultYetError,
    NotFoundError,
    NotLeasedError,
    PQError,
    SettledError,
    TooLargeError,
    UnavailableError,
    UnknownResultError,
)
from .events import Event, Events, EventType
from .hold import Hold
from .imported import Import
from .item import Item
from .item_data import Attempt, Death, ItemSource
from .links import Link, LinkChange
from .listing import KeyChange, KeyInfo, KeySettings, Listed
from .outcome import GiveUp, RetryAfter, default_backoff
from .push import NewItem
from .pushed import Pushed
from .queue import Queue
from .result import Result
from .schedules import Schedule, ScheduleChange, ScheduleCounts, ScheduleItem
from .sources import Source, SourceChange, SourceCounts, SourceMap, SourceValue
from .worker import Worker

__all__ = [
    "Attempt",
    "BadRequestError",
    "BulkResult",
    "BulkWhere",
    "BusyError",
    "Cancelled",
    "Client",
    "Cluster",
    "Config",
    "ConfigChange",
    "ConflictError",
    "Consumer",
    "DamagedError",
    "Death",
    "Disk",
    "Duration",
    "EmptyError",
    "Event",
    "EventType",
    "Events",
    "Explain",
    "ForbiddenError",
    "GiveUp",
    "History",
    "Hold",
    "Import",
    "Info",
    "InternalError",
    "Item",
    "ItemCancelledError",
    "ItemSource",
    "KeyChange",
    "KeyInfo",
    "KeySettings",
    "LeaseLostError",
    "Link",
    "LinkChange",
    "Listed",
    "Member",
    "NewItem",
    "NoResultYetError",
    "NotFoundError",
    "NotLeasedError",
    "PQError",
    "Pushed",
    "Queue",
    "Replaced",
    "Result",
    "RetryAfter",
    "Schedule",
    "ScheduleChange",
    "ScheduleCounts",
    "ScheduleItem",
    "SettledError",
    "Source",
    "SourceChange",
    "SourceCounts",
    "SourceMap",
    "SourceValue",
    "SteppedDown",
    "System",
    "TooLargeError",
    "UnavailableError",
    "UnknownResultError",
    "Worker",
    "connect",
    "default_backoff",
]
