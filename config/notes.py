"""What is worth a line to whoever checks a configuration, and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from config import ollama_notes
from config.problems import Problem
from config.stages import CLOUD, StageTable, lane_of

NOT_ENFORCED = ("retires_on",)
"""Keys that are checked but do nothing yet; `staffel check` says so for each one that is written."""

_OLLAMAS = ("num_ctx", "keep_alive", "cold_load_timeout")
"""Keys that no other provider's host knows."""

_DAY_S = 86_400


def notes(tables: Mapping[str, StageTable]) -> Iterator[Problem]:
    for name, table in tables.items():
        for key in NOT_ENFORCED:
            if key in table.model_fields_set:
                yield Problem(f"stages.{name}.{key}", "is checked but does nothing yet")
        for key, text in _elsewhere(table):
            yield Problem(f"stages.{name}.{key}", text)
        if table.timeout > table.breaker.window:
            yield Problem(f"stages.{name}.breaker.window", _too_short(table))
    yield from ollama_notes.notes(tables)


def _elsewhere(table: StageTable) -> Iterator[tuple[str, str]]:
    """Keys that mean nothing where they stand."""
    for key in _OLLAMAS if table.provider != "ollama" else ():
        if key in table.model_fields_set:
            yield (
                key,
                f'does nothing here: only stages with provider = "ollama" have it, this one has {table.provider!r}',
            )
    if "cool_off" in table.model_fields_set and lane_of(table) == CLOUD:
        yield "cool_off", "does nothing here: only stages of a lane that runs one request at a time have it"


def _too_short(table: StageTable) -> str:
    enough = min(table.breaker.min_calls * table.timeout, _DAY_S)
    return (
        f"{table.breaker.window:g} s, but a call may take {table.timeout:g} s (timeout): slow failures one after the "
        f"other never come together in it, and only consecutive_failures opens; write some calls' time, {enough:g}"
    )
