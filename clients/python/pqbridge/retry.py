"""When a refused request is sent again."""

from __future__ import annotations

import asyncio
import random
from time import monotonic

from .deadline import Deadline
from .errors import NO_BRIDGE, PQError

_FIRST_DELAY = 0.02
_LAST_DELAY = 1.0

# Without a bridge: another one may take over at any time, and the question costs none of them anything.
_LAST_AWAY_DELAY = 0.15

# For so long attempts follow each other closely: what one node leaves unanswered, the node that takes over answers.
_TAKEOVER = 1.0
_LONGEST_PATIENCE = 60.0


def longer(patience: float) -> float:
    """How long to wait for the next answer: in the end twice as long, since a slow bridge may need more time."""
    return min((1.25 if patience < _TAKEOVER else 2) * patience, _LONGEST_PATIENCE)


def backoff(n: int, first: float, last: float) -> float:
    """How long to wait after the nth failure: about twice as long as after the one before, and
    random, so that requests that failed together are not repeated together."""
    delay = min(last, first * 2.0 ** min(n - 1, 60))
    return float(delay * (0.5 + random.random()))


class Retry:
    """Counts how often a request was refused, and since when."""

    __slots__ = ("_refusals", "_since")

    def __init__(self) -> None:
        self._refusals = 0
        self._since = 0.0

    def allowed(self, retry_for: float) -> bool:
        """Counts a refusal and says whether the request may be sent again; 0: until the deadline."""
        self._refusals += 1
        if self._refusals == 1:
            self._since = monotonic()
        return retry_for == 0 or monotonic() - self._since < retry_for

    async def wait(self, deadline: Deadline, why: PQError | None = None) -> bool:
        """Waits before the next attempt. It says false if the deadline came first."""
        last = _LAST_AWAY_DELAY if why is not None and why.text == NO_BRIDGE else _LAST_DELAY
        await asyncio.sleep(min(backoff(self._refusals, _FIRST_DELAY, last), deadline.left))
        return not deadline.over
