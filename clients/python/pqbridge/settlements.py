"""Settlements of many leases in one message."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from .bundle import MOST_ITEMS
from .call import Call
from .core import Place
from .duration import Duration
from .errors import PQError, error_of, unreadable
from .mailbox import Request

_REFUSED = re.compile(r"-ERR ([1-9]\d{2}) (\S+)(?: (.*))?")


@dataclass(frozen=True)
class Result:
    """What became of a settlement. open: an attempt without an answer may have taken effect."""

    error: PQError | None = None
    open: bool = False


class Settlements:
    def __init__(self, queue: Place) -> None:
        self._queue = queue
        self._all: list[tuple[str, asyncio.Future[Result]]] = []

    async def add(self, line: str) -> Result:
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._all.append((line, result))
        return await result

    async def send(self, timeout: Duration | None) -> None:
        for start in range(0, len(self._all), MOST_ITEMS):
            await self._send(self._all[start : start + MOST_ITEMS], timeout)

    async def _send(self, part: list[tuple[str, asyncio.Future[Result]]], timeout: Duration | None) -> None:
        client, name = self._queue.client, self._queue.name
        body = "".join(line + "\n" for line, _ in part).encode()
        request = Request("ack", name, self._queue.subject("ack.bundle.settle"), {"PQ-Bundle": str(len(part))}, body)
        call = Call(request, repeatable=True)
        try:
            m = await call.send(client.mailbox, client.patience, client.deadline(timeout))
            lines = m.data.decode("utf-8", "replace").removesuffix("\n").split("\n")
            if len(lines) != len(part):
                raise unreadable("ack", name, m.data, ValueError(f"{len(lines)} results, expected {len(part)}"))
        except PQError as err:
            for _, result in part:
                result.set_exception(err)
        else:
            for (_, result), line in zip(part, lines):
                result.set_result(Result(error=_refusal(name, line), open=call.open))


def _refusal(queue: str, line: str) -> PQError | None:
    """The error in a line of the answer, None if there is none."""
    if line == "+OK" or line.startswith("+OK "):
        return None
    found = _REFUSED.fullmatch(line)
    if not found:
        return unreadable("ack", queue, line.encode(), ValueError("expected +OK or -ERR"))
    return error_of("ack", queue, int(found[1]), found[3] or "", "" if found[2] == "-" else found[2])
