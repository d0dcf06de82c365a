"""What became of each document: a row of the table, a line of `--json`, an entry in the folder of summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from staffel_wire.record import story


class Status(StrEnum):
    """How a document ended; `exhausted`, `refused`, `expired` and `cancelled` are its job's own words."""

    ANSWERED = "answered"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    """By a stage, or at the door: then it has no attempts."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    UNREADABLE = "unreadable"
    TOO_LONG = "too_long"
    """For every stage of the chain; it was not submitted."""
    UNWRITTEN = "unwritten"
    """It was summarized, but its file could not be written."""
    LOST = "lost"
    """Its job was in Redis, and is no more."""


@dataclass(frozen=True, slots=True)
class Row:
    """One document. Times in seconds, cost in USD (None where it is not known)."""

    path: str
    """As it was found from what was typed; may hold half characters where a file's name is no UTF-8."""
    name: str
    """For people: printable, and unlike that of any other document of the batch."""
    status: str
    reason: str | None = None
    stage: str | None = None
    summary: str | None = None
    truncated: bool = False
    words: int | None = None
    cost_usd: float | None = 0.0
    queued_s: float = 0.0
    duration_s: float = 0.0
    attempts: tuple[Mapping[str, Any], ...] = ()
    job: str | None = None
    file: str | None = None
    """Where its summary lies, with `--out`."""
    kept: bool = False
    """The summary lay there before this run."""

    @property
    def answered(self) -> bool:
        return self.status == Status.ANSWERED

    @property
    def summary_words(self) -> int | None:
        return None if self.summary is None else len(self.summary.split())

    def as_object(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "path": self.path,
            "status": str(self.status),
            "reason": self.reason,
            "stage": self.stage,
            "summary": self.summary,
            "truncated": self.truncated,
            "words": self.words,
            "summary_words": self.summary_words,
            "cost_usd": self.cost_usd,
            "queued_s": self.queued_s,
            "duration_s": self.duration_s,
            "attempts": list(self.attempts),
            "job": self.job,
            "file": self.file,
            "kept": self.kept,
        }


def row_of(row: Row, shown: Mapping[str, Any]) -> Row:
    """The row of a document whose job has ended; one without an answer tells the job's story."""
    status = shown["status"]
    return replace(
        row,
        status=status,
        reason=None if status == Status.ANSWERED else shown.get("why") or story(shown["attempts"]),
        stage=shown["stage"],
        summary=(shown["text"] or "").strip() or None,
        truncated=shown["truncated"],
        cost_usd=shown["cost_usd"],
        queued_s=shown["queued_s"],
        duration_s=shown["duration_s"],
        attempts=tuple(shown["attempts"]),
        job=shown["job"],
    )


def to_line(row: Row) -> str:
    """One line of JSON; half characters, as Python reads them from file names, stand as escapes."""
    return json.dumps(row.as_object(), ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
