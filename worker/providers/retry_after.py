"""When a host wants to be asked again, in seconds, in each of the spellings that hosts have for it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 86_400.0
"""Nothing that a host asks for is believed beyond a day."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = (
    r"(\d{1,12}(?:\.\d{1,12})?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])[\s,]*(?:and\s+)?"
)
_DURATION = re.compile(rf"\s*(?:{_PART})+", re.IGNORECASE)
_PARTS = re.compile(_PART, re.IGNORECASE)
_ASKED = re.compile(r"\b(?:try again|retry)\s+(?:in|after)\s+(?=\d)", re.IGNORECASE)


def of_headers(headers: Mapping[str, str], now: float) -> float | None:
    """What the head of a reply asks for; `now` in epoch seconds, for a date.

    `x-ratelimit-reset-*` is left alone: it says when a limit is full again, not when the next call is let through.
    """
    found = {name.lower(): value for name, value in headers.items()}
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (pause := _number(found.get(name, ""), unit_s=0.001)) is not None:
            return pause
    return retry_after(found.get("retry-after"), now)


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After asks for, given as a number or as a date; None where it says nothing usable."""
    if not value:
        return None
    number = value.partition(",")[0]  # a head that came twice
    try:
        float(number)
    except ValueError:
        return duration(value) if _DURATION.fullmatch(value) else _until(value, now)
    return _number(number)


def of_text(text: str) -> float | None:
    """What a message asks for: "Please try again in 6m0s"."""
    asked = _ASKED.search(text)
    return duration(text[asked.end() :]) if asked else None


def of_field(value: object) -> float | None:
    """What a field of a body asks for: "46s" (Gemini's RetryInfo), 30, or "30"."""
    if isinstance(value, str):
        return duration(value) if (pause := _number(value)) is None else pause
    return _number(value) if type(value) in {int, float} else None


def duration(text: str) -> float | None:
    """The time that a text begins with: "10h17m5.7s", "20ms", "12 seconds"."""
    whole = _DURATION.match(text[:100])
    if whole is None:
        return None
    return _bounded(sum(float(number) * _unit_s(unit) for number, unit in _PARTS.findall(whole[0])))


def _unit_s(unit: str) -> float:
    short = unit.lower()
    return _UNITS_S["ms" if short.startswith(("ms", "milli")) else short[0]]


def _number(value: object, unit_s: float = 1.0) -> float | None:
    try:
        return _bounded(float(value) * unit_s)  # type: ignore[arg-type]
    except (ValueError, OverflowError):  # no number, or an integer beyond all floats
        return None


def _until(value: str, now: float) -> float | None:
    try:
        return _bounded(parsedate_to_datetime(value).astimezone(UTC).timestamp() - now)
    except (ValueError, OverflowError):  # the last day of the calendar, west of Greenwich
        return None


def _bounded(seconds: float) -> float | None:
    return min(seconds, MAX_RETRY_AFTER_S) if math.isfinite(seconds) and seconds >= 0 else None
