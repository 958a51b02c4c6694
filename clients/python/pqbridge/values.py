"""What programs give, checked: an error says what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .duration import shown

LONGEST_NAME = 128
MOST_COST = 1_000_000

# How much of a reason is sent.
_LONGEST_REASON = 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~A-Za-z0-9]+")


def priority_of(value: object, what: str = "priority") -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}: expected an integer of 64 bits")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} is {shown(value)}: expected an integer of 64 bits")
    return value


def count(value: object, what: str, most: int = 2**63 - 1, least: int = 1) -> int:
    """A count, positive unless least is 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}: expected an integer from {least} to {most}")
    if not least <= value <= most:
        raise ValueError(f"{what} is {shown(value)}: expected an integer from {least} to {most}")
    return value


def word(value: object, what: str, *words: str) -> str:
    if value not in words:
        raise ValueError(f"{what} is {shown(value)}: expected {' or '.join(map(repr, words))}")
    return str(value)


def _unchanged(value: str) -> bool:
    """Whether headers carry a text unchanged."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return value.strip() == value and not any(c in value for c in "\r\n\0")


def header_text(value: object, what: str, most: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {shown(value)}: expected a text")
    if not value or not _unchanged(value) or len(value.encode()) > most:
        raise ValueError(f"{what} is {shown(value)}: expected a text of 1 to {most} bytes without line breaks, and without white space at its ends")
    return value


def _name(name: object, what: str) -> str:
    if isinstance(name, str) and _CONTROL.search(name):
        raise ValueError(f"{what} is {shown(name)}: expected a text without control characters")
    return header_text(name, what, LONGEST_NAME)


def key_of(key: object) -> str:
    return _name(key, "key")


def holder_of(holder: object) -> str:
    return _name(holder, "holder")


def payload_of(payload: object, what: str = "the payload") -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    raise TypeError(f"{what} is {shown(payload)}: expected bytes or a text")


def cut(reason: str) -> str:
    """The beginning of a reason that a request has room for."""
    return reason.encode(errors="replace")[:_LONGEST_REASON].decode(errors="ignore")


NO_JSON: Any = object()
"""None is a value of JSON."""


def payload_or_json(payload: object, value: Any) -> Any:
    if value is NO_JSON:
        if payload is None:
            raise TypeError("the payload is missing: expected one, or json")
        return payload
    if payload is not None:
        raise TypeError("a payload together with json: expected one of them")
    return json.dumps(value)


def returned_of(value: object) -> bytes:
    """What a handler has returned, as the result of its item: bytes and texts as they are, other values as a push writes
    them as JSON."""
    return payload_of(value if isinstance(value, (str, bytes, bytearray, memoryview)) else json.dumps(value))


def headers_of(headers: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str]]:
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {shown(headers)}: expected a mapping such as {{'Season': 'autumn'}}")
    found: list[tuple[str, str]] = []
    for name, values in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"header {shown(name)}: expected a name of printable ASCII, without spaces and without any of \"()/,:;<=>?@[\\]{{}}")
        if name.startswith("PQ-") or name == "Nats-Msg-Id":
            raise ValueError(f"header {name}: expected the argument that does the same")
        for value in values if isinstance(values, Sequence) and not isinstance(values, str) else [values]:
            if not isinstance(value, str) or not _unchanged(value):
                raise ValueError(f"header {name} is {shown(value)}: expected a text without line breaks, and without white space at its ends")
            found.append((name, value))
    return found
