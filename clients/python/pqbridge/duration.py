"""Durations and times as the protocol writes them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Union

Duration = Union[float, timedelta, str]
"""Seconds, a timedelta, or a text in the protocol's form, such as "1h30m"."""

TEN_YEARS = 87600 * 3600.0

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)"
_FORM = re.compile(f"(?:{_PART})+")
_PARTS = re.compile(_PART)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def shown(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def seconds(value: Duration, what: str, *, zero: bool = False, most: float = TEN_YEARS) -> float:
    """A duration in seconds. An error says what was expected."""
    found = float("nan")
    if isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    elif value == "0":
        found = 0.0
    elif isinstance(value, str) and _FORM.fullmatch(value):
        found = sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(value))
    elif not isinstance(value, str):
        raise TypeError(f"{what} is {shown(value)}: expected seconds, a timedelta, or a text such as '30s' or '1h30m'")
    if not 0 <= found <= most or (found == 0 and not zero):
        least = "0" if zero else "more than 0"
        raise ValueError(f"{what} is {shown(value)}: expected seconds, a timedelta, or a text such as '30s' or '1h30m', {least} to {most:.0f} s")
    return found


def nanoseconds(value: float) -> int:
    """Whole nanoseconds, at least one of a duration that is not 0."""
    return max(round(value * 1e9), 1 if value > 0 else 0)


def duration_text(value: float) -> str:
    """The text of a duration in seconds, as headers have it."""
    ns = nanoseconds(value)
    return f"{ns // 1_000_000}ms" if ns % 1_000_000 == 0 else f"{ns}ns"


def time_of(text: str) -> datetime:
    """A time of RFC 3339; what is finer than a microsecond is cut off."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{shown(text)}: expected a time")
    whole, fraction, zone = found.groups()
    micros = (fraction or "").ljust(6, "0")[:6]
    return datetime.fromisoformat(f"{whole}.{micros}{'+00:00' if zone == 'Z' else zone}")


def time_text(value: object, what: str) -> str:
    """A time as headers have it."""
    if not isinstance(value, datetime):
        raise TypeError(f"{what} is {shown(value)}: expected a datetime")
    if value.tzinfo is None:
        raise ValueError(f"{what} is {shown(value)}: expected a datetime with a time zone")
    return value.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
