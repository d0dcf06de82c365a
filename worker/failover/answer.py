"""What one call brings back, and how a job ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from worker.failover.attempt import Usage


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    ANSWERED = "answered"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDED = frozenset({Status.ANSWERED, Status.EXHAUSTED, Status.REFUSED, Status.EXPIRED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class Answer:
    """The text that won, and what it took."""

    text: str
    stage: str
    finish_reason: str
    truncated: bool
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class View:
    """A job as its record and ledger show it: `shown` is the one object that every way out of Staffel prints."""

    job: str
    status: Status
    shown: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        return self.status in ENDED
