"""`keep_alive`: a number of seconds, or a duration in Go's words."""

from __future__ import annotations

import math
import re

from pydantic import JsonValue

from staffel.local_model.errors import RequestRefused

_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_PARTS = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 / 1e9  # seconds that fit into Go's duration: 292 years


def seconds_to_stay(keep_alive: JsonValue) -> float | None:
    """Seconds, for ever (infinity) where it is negative, None where nothing is said. Raises RequestRefused."""
    match keep_alive:
        case None:
            return None
        case bool():
            pass
        case int() | float():
            return _kept(float(keep_alive))
        case str() if _DURATION.fullmatch(keep_alive):
            total = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(keep_alive))
            return _kept(-total if keep_alive.startswith("-") else total)
    raise RequestRefused(400, f'time: invalid duration "{keep_alive}" (seconds, or a number with its unit as in "5m")')


def _kept(seconds: float) -> float:
    return seconds if 0 <= seconds < _LONGEST else math.inf
