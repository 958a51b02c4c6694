"""When workers get nothing because nothing answers."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from .errors import PQError, may_repeat

# Refused pops are tried again within a second and a half: what is refused later had been with a bridge.
_APART = 3.0


class Absence:
    """What a consumer says when its pops are refused for some time: once, and again only after an answer. nats-py says
    itself that there is no connection."""

    def __init__(self, after: float, tell: Callable[[PQError, None], object]) -> None:
        self._after = after
        self._report = tell
        self._since = self._last = 0.0
        self._told = False

    def refused(self, err: PQError) -> None:
        """A pop was refused."""
        if not may_repeat(err, False):
            self.answered()
            return
        now = monotonic()
        if now - self._last > _APART:
            self._since = now
        self._last = now
        if now - self._since >= self._after:
            self.ended(err)

    def answered(self) -> None:
        """A bridge answers."""
        self._told, self._last = False, 0.0

    def ended(self, err: PQError) -> bool:
        """A pop has ended without an item. It says whether that is told."""
        err = err.__cause__ if isinstance(err.__cause__, PQError) else err  # of the last of its attempts
        if not self._told and may_repeat(err, False):
            self._told = True
            self._report(err, None)
        return self._told
