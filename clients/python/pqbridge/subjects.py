"""The grammar of subjects, as the protocol lists them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .duration import shown

if TYPE_CHECKING:
    from .message import Message

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TWO_TOKENS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LONGEST_PREFIX = 128
_LONGEST_QUEUE = 64
_LONGEST_ID = 128
_LONGEST_NAME = 64
_DEAD_SUFFIX = "-dead"


def dead_letter(queue: str) -> str:
    """The name of a queue's default dead-letter queue."""
    return queue + _DEAD_SUFFIX


def _is_queue(queue: object) -> bool:
    if not isinstance(queue, str) or not _NAME.fullmatch(queue) or queue.startswith("_"):
        return False
    return len(queue) <= _LONGEST_QUEUE + (len(_DEAD_SUFFIX) if queue.endswith(_DEAD_SUFFIX) else 0)


def check_queue(queue: object) -> None:
    if not _is_queue(queue):
        raise ValueError(
            f"queue name {shown(queue)}: expected 1 to {_LONGEST_QUEUE} of A-Z a-z 0-9 - _, not starting with _ "
            f"({_LONGEST_QUEUE + len(_DEAD_SUFFIX)} when it ends in {_DEAD_SUFFIX})"
        )


def check_id(id: object) -> None:
    if not isinstance(id, str) or not _NAME.fullmatch(id) or len(id) > _LONGEST_ID:
        raise ValueError(f"id {shown(id)}: expected 1 to {_LONGEST_ID} of A-Z a-z 0-9 - _")


def check_name(what: str, name: object) -> None:
    """The name of a schedule, a source or a link."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ValueError(f"{what} name {shown(name)}: expected 1 to {_LONGEST_NAME} of A-Z a-z 0-9 - _")


class Lease(NamedTuple):
    """What a subject settles."""

    queue: str
    verb: str


class Grammar:
    """Subjects under one prefix."""

    def __init__(self, prefix: str) -> None:
        tokens = prefix.split(".") if isinstance(prefix, str) else []
        if not tokens or len(prefix) > _LONGEST_PREFIX or prefix.startswith("_") or not all(map(_NAME.fullmatch, tokens)):
            raise ValueError(
                f"prefix {shown(prefix)}: expected tokens of A-Z a-z 0-9 - _ joined by dots, not starting with _, "
                f"at most {_LONGEST_PREFIX} bytes in all"
            )
        self.prefix = prefix

    def subject(self, queue: str, verb: str) -> str:
        """The subject of a verb, with what follows it."""
        return f"{self.prefix}.{queue}.{verb}"

    def system(self, what: str) -> str:
        return f"{self.prefix}._sys.{what}"

    def lease(self, subject: str) -> Lease | None:
        """What settles a lease, None if the subject does not."""
        if not subject.startswith(self.prefix + "."):
            return None
        tokens = subject[len(self.prefix) + 1 :].split(".")
        if len(tokens) != 4 or tokens[1] != "ack" or not _is_queue(tokens[0]) or not all(map(_NAME.fullmatch, tokens[2:])):
            return None
        return Lease(tokens[0], ".".join(tokens[1:]))


class AckSubjects:
    """The subjects on which a client settles leases. It never publishes a settlement elsewhere: a
    forged item could otherwise use the client's rights."""

    def __init__(self, own: Grammar, bridge: Grammar) -> None:
        self._own = own
        self._bridge = bridge

    def read(self, subject: str) -> tuple[str, str] | None:
        """The queue of a lease and the subject on which to settle it, from the one that the bridge has
        written or one that read has returned; None if it settles none."""
        lease = self._own.lease(subject) or self._bridge.lease(subject)
        return (lease.queue, self._own.subject(*lease)) if lease else None

    def written(self, own: str) -> str:
        """The subject as the bridge writes it, from one that read has returned."""
        if self._own.prefix == self._bridge.prefix:
            return own
        lease = self._own.lease(own)
        if not lease:
            raise ValueError(f"subject {shown(own)}: expected one that settles a lease")
        return self._bridge.subject(*lease)

    def of(self, queue: str | None, m: Message) -> str:
        """The subject that settles an item's lease: the reply subject, or PQ-Ack if the item has come
        through another account. It is "" if neither is an ack subject of the queue. None allows any
        queue."""
        acks = m.headers.get("PQ-Ack", [])
        if len(acks) == 1 and not m.reply and queue is not None and self._own.prefix == self._bridge.prefix:  # as usual
            start = f"{self._own.prefix}.{queue}.ack."
            if acks[0].startswith(start) and _TWO_TOKENS.fullmatch(acks[0], len(start)):
                return acks[0]
        for subject in [m.reply, *acks] if len(acks) == 1 else [m.reply]:
            lease = self.read(subject)
            if lease and queue in (None, lease[0]):
                return lease[1]
        return ""
