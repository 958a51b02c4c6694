"""Bundles: many items in one message. The protocol's page about bundles has the form."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .message import Message

MOST_ITEMS = 1000

_SIZES = re.compile(rb"(0|[1-9]\d{0,15}) (0|[1-9]\d{0,15})\n")


def bundle(items: Iterable[tuple[list[tuple[str, str]], bytes]]) -> bytes:
    """The body of a bundle, of each item's headers and payload."""
    parts: list[bytes] = []
    for headers, payload in items:
        lines = "".join(f"{name}: {value}\n" for name, value in headers).encode()
        parts += (b"%d %d\n" % (len(lines), len(payload)), lines, payload, b"\n")
    return b"".join(parts)


def unbundled(m: Message) -> list[Message]:
    """The items of a bundle as messages of their own, and the end of a batch behind them; another
    message as it is. What cannot be read becomes a message that answers no pop."""
    if "PQ-Bundle" not in m.headers:
        return [m]
    found: list[Message] = []
    at = 0
    while at < len(m.data):
        sizes = _SIZES.match(m.data, at)
        if not sizes:
            return [*found, Message({}, m.data[at:])]
        payload_at = sizes.end() + int(sizes[1])
        end = payload_at + int(sizes[2])
        headers = _headers_in(m.data[sizes.end() : payload_at])
        if headers is None or end > len(m.data) or m.data[end : end + 1] not in (b"\n", b""):
            return [*found, Message({}, m.data[at:])]
        found.append(Message(headers, m.data[payload_at:end]))
        at = end + 1
    return [*found, Message({"Status": ["204"]}, b"")]


def _headers_in(block: bytes) -> dict[str, list[str]] | None:
    headers: dict[str, list[str]] = {}
    lines = block.decode("utf-8", "replace").split("\n")
    if lines.pop():
        return None  # the last line has no end
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name:
            return None
        headers.setdefault(name, []).append(value.removesuffix("\r").strip(" \t"))
    return headers
