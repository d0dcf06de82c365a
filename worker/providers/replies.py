"""Reading what hosts say when they do not answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from worker.failover.provider import Fault, Kind

MAX_RETRY_AFTER_S = 86_400.0


def failed(status: int, headers: Mapping[str, str], body: str, now: float) -> Fault:
    """The fault that a reply with an error status is; `now` in epoch seconds, for a Retry-After that is a date."""
    code, text = words(body)
    html = "<html" in body[:1000].lower() or "<!doctype" in body[:1000].lower()
    after = retry_after(headers.get("retry-after"), now)
    return Fault(Kind.STATUS, status=status, code=code, text=text, html=html, retry_after_s=after)


def words(body: str) -> tuple[str, str]:
    """Code and text of an error body: an object with `error`, which is a text, an object, or JSON in a text."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", body[:2000]
    return error_words(found)


def error_words(found: object) -> tuple[str, str]:
    """Code and text of a parsed error, whatever its shape."""
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, Mapping):
        inner = found.get("error", found)
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            return words(inner)
        if isinstance(inner, Mapping):
            code = f"{inner.get('code') or ''} {inner.get('type') or ''}".strip()[:2000]
            return code, str(inner.get("message") or "")[:2000]
        return "", str(inner)[:2000]
    return "", str(found)[:2000]


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After asks for, given as a number or as a date; None where it says nothing usable."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).astimezone(UTC).timestamp() - now
        except (ValueError, OverflowError):  # the last day of the calendar, west of Greenwich
            return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, MAX_RETRY_AFTER_S)
