"""`keep_alive`: a number of seconds, or a duration in Go's words."""

from __future__ import annotations

import json
import math
import re

from pydantic import JsonValue

from staffel.local_model.errors import RequestRefused

_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_PARTS = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_ANY_PARTS = re.compile(r"(?:\d+\.?\d*|\.\d+)([^\d.]*)")
_GO_TYPES: dict[type, str] = {bool: "bool", list: "[]interface {}", dict: "map[string]interface {}"}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 / 1e9  # seconds that fit into Go's duration: 292 years


def seconds_to_stay(keep_alive: JsonValue) -> float | None:
    """Seconds, for ever (infinity) where it is negative, None where nothing is said. Raises RequestRefused."""
    match keep_alive:
        case None:
            return None
        case bool() | list() | dict():
            raise RequestRefused(400, f"Unsupported type: '{_GO_TYPES[type(keep_alive)]}'")
        case int() | float():
            return _kept(float(keep_alive))
        case _ if not _DURATION.fullmatch(keep_alive):
            raise RequestRefused(400, _unread(keep_alive))
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(keep_alive))
    return _kept(-total if keep_alive.startswith("-") else total)


def _kept(seconds: float) -> float:
    return seconds if 0 <= seconds < _LONGEST else math.inf


def _unread(text: str) -> str:
    """What Go's time.ParseDuration says."""
    quoted = json.dumps(text, ensure_ascii=False)
    for unit in _ANY_PARTS.findall(text) if _ANY_PARTS.match(text.lstrip("+-")) else ():
        if not unit:
            return f"time: missing unit in duration {quoted}"
        if unit not in _SECONDS:
            return f"time: unknown unit {json.dumps(unit, ensure_ascii=False)} in duration {quoted}"
    return f"time: invalid duration {quoted}"
