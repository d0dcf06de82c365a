"""What is promised, and what breaks or explains it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """What the house promises, in the words of the table."""

    NOT_LOST = "nothing lost"
    IN_TIME = "answered in time"
    ONCE = "answered once"
    KEPT = "an answer is kept"
    STAYS = "an end stays"
    CELERY = "Celery says the same"
    NOT_AGAIN = "nothing asked twice"
    UNACCOUNTED = "every call in the ledger"
    UNEXPLAINED = "unknown by a fault alone"
    FAILED = "failed by a fault alone"
    ONE_AT_ONCE = "one call at once"
    LANE = "the lane one at a time"
    LEFT_OVER = "nothing left over"
    WORKER = "workers live"


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept; `job` is empty where it is no job's."""

    promise: Promise
    job: str
    line: str


@dataclass(frozen=True, slots=True)
class Explained:
    """Something of a job that only a fault can excuse, and the fault that does."""

    job: str
    line: str
    went_on_s: float | None = None
    """How long after the fault began the job's next attempt started."""
