"""What is worth a line to whoever checks a configuration, and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from config.problems import Problem
from config.stages import StageTable

NOT_ENFORCED = ("retires_on", "cold_load_timeout")
"""Keys that are checked but do nothing yet; `staffel check` says so for each one that is written."""

_DAY_S = 86_400


def notes(tables: Mapping[str, StageTable]) -> Iterator[Problem]:
    for name, table in tables.items():
        for key in NOT_ENFORCED:
            if key in table.model_fields_set:
                yield Problem(f"stages.{name}.{key}", "is checked but does nothing yet")
        if table.timeout > table.breaker.window:
            yield Problem(f"stages.{name}.breaker.window", _too_short(table))


def _too_short(table: StageTable) -> str:
    enough = min(table.breaker.min_calls * table.timeout, _DAY_S)
    return (
        f"{table.breaker.window:g} s, but a call may take {table.timeout:g} s (timeout): slow failures one after the "
        f"other never come together in it, and only consecutive_failures opens; write some calls' time, {enough:g}"
    )
