"""An answer as a Python value; `shown` is the object that `staffel ask --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Times in seconds, cost in USD (None where it is not known)."""

    job: str
    text: str
    stage: str
    finish_reason: str
    truncated: bool
    usage: Mapping[str, int] | None
    cost_usd: float | None
    queued_s: float
    duration_s: float
    attempts: tuple[Mapping[str, Any], ...]
    shown: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text


def from_shown(shown: Mapping[str, Any]) -> Answer:
    """The value of an answered job's object."""
    return Answer(
        job=shown["job"],
        text=shown["text"],
        stage=shown["stage"],
        finish_reason=shown["finish_reason"],
        truncated=shown["truncated"],
        usage=shown["usage"],
        cost_usd=shown["cost_usd"],
        queued_s=shown["queued_s"],
        duration_s=shown["duration_s"],
        attempts=tuple(shown["attempts"]),
        shown=shown,
    )
