"""The pqd that keep one store together, as each of them says."""

from __future__ import annotations

import json
from time import monotonic
from typing import TypedDict

from .call import ended
from .core import Core
from .deadline import INFINITE, Bell
from .duration import Duration
from .errors import refusal_in, unreadable
from .mailbox import Request, denial
from .message import Message

# How long to wait for further answers behind each one.
_MORE = 0.25


class _Member(TypedDict):
    node: str
    role: str
    epoch: int
    entry: int
    """The last entry of the log that its copy has, and below has on disk; how many it lacks."""
    synced: int
    lag: int
    heard: float
    """Seconds ago."""


class Member(_Member, total=False):
    """One pqd of those that keep a store together."""

    version: str
    reason: str


class Log(TypedDict):
    first: int
    last: int
    bytes: int
    max_bytes: int


class Cluster(TypedDict):
    node: str
    store: str
    members: list[Member]
    log: Log


class _Asking:
    def __init__(self, request: Request) -> None:
        self.subject = request.subject
        self.request = request
        self.bell = Bell()
        self.here: list[Message] = []
        self.broken: BaseException | None = None

    def deliver(self, m: Message) -> None:
        self.here.append(m)
        self.bell.ring()

    def reconnect(self) -> None:
        self.fail(ConnectionError("the connection to NATS broke"))

    def fail(self, cause: BaseException) -> None:
        self.broken = self.broken or cause
        self.bell.ring()

    def refuse(self, cause: BaseException) -> bool:
        self.deny(cause)
        return True

    def deny(self, cause: BaseException) -> None:
        self.fail(denial(self.request, cause))


async def cluster(client: Core, timeout: Duration | None) -> Cluster:
    """Asks all of them, and waits a moment for the answers of those that are named."""
    deadline = client.deadline(timeout)
    request = Request("cluster", "", client.grammar.system("cluster.status"), None, b"")
    asking = _Asking(request)
    found: list[Cluster] = []
    await client.mailbox.up(request, deadline)
    reply = client.mailbox.receive(asking)
    try:
        await client.mailbox.publish(request, reply)
        until = INFINITE
        while True:
            while not asking.here and not asking.broken and not deadline.over and monotonic() < until:
                await asking.bell.wait(min(until - monotonic(), deadline.left))
            if not asking.here:
                if found:
                    return _merged(found)
                raise ended(request, 1, None, asking.broken)
            m = asking.here.pop(0)
            refused = refusal_in(m, "cluster", "")
            if refused:
                raise refused
            found.append(_read(m.data))
            if _complete(found):
                return _merged(found)
            until = monotonic() + _MORE
    finally:
        client.mailbox.stop(reply)


def _read(body: bytes) -> Cluster:
    try:
        answer: Cluster = json.loads(body)
        if not answer["members"] or answer["log"]["last"] < 0:
            raise ValueError("expected members and a log")
        return answer
    except (ValueError, TypeError, KeyError) as cause:
        raise unreadable("cluster", "", body, cause) from cause


def _complete(found: list[Cluster]) -> bool:
    """Whether every member that an answer names has answered."""
    nodes = {c["node"] for c in found}
    return all(m["role"] == "silent" or m["node"] in nodes for c in found for m in c["members"])


def _merged(found: list[Cluster]) -> Cluster:
    """What all answers say together. What each says of itself counts more than what others have heard."""
    members = {c["members"][0]["node"]: c["members"][0] for c in reversed(found)}
    for m in sorted((m for c in found for m in c["members"][1:]), key=lambda m: m["heard"]):
        members.setdefault(m["node"], m)
    active = [c for c in found if c["members"][0]["role"] == "active"]
    whole = active[0] if active else max(found, key=lambda c: c["log"]["last"])
    newest = max([whole["log"]["last"], *(m["entry"] for m in members.values())])
    for m in members.values():
        m["lag"] = newest - m["entry"]
    return {**whole, "members": sorted(members.values(), key=lambda m: (m["role"] != "active", m["node"]))}
