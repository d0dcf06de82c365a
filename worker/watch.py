"""Whether a worker that lives also works: a pure judgement of what it says of its own consumption."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STUCK_S = 60.0
"""How long messages may wait beside free slots, or the hub may stand still, before the worker is at fault.

After an outage Celery tries to connect again after 2, 4, 6 ... at most 32 s, and kombu finds a dead connection within
51 s by itself (twice its health check of 25 s): both come first, and a worker that is merely slow is not ended.
"""

SLEPT_S = 10.0
"""Who has not looked for so long was asleep itself, as its main loop was: neither is at fault for that time."""


class Mode(StrEnum):
    CONSUMES = "consumes"
    CANCELLED = "cancelled"
    """An operator's `celery control cancel_consumer`: no fault."""
    DRAINING = "draining"
    STANDS_BY = "stands_by"
    """Another worker serves the lane, and this one follows it."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What the consumer's own loop says. `turned_at` in seconds of the clock that `Watch.judge` is told the time by;
    `taken`: messages since the process has started.
    """

    mode: Mode
    turned_at: float
    taken: int
    slots: int
    busy: int

    @property
    def free(self) -> int:
        return max(0, self.slots - self.busy)


class Watch:
    """Looks again and again; remembers since when something has been wrong."""

    def __init__(self, limit: float | None = None) -> None:
        self._limit = STUCK_S if limit is None else limit
        self._there_since: float | None = None
        self._idle_since: float | None = None
        self._looked_at: float | None = None
        self._taken = -1

    def away(self) -> None:
        """Redis did not answer: nobody can take anything, and the count starts anew once it is back."""
        self._there_since = self._idle_since = None

    def judge(self, seen: Consumption, waiting: int, now: float) -> str:
        """Why this worker is stuck, in words for a person; empty while it is not."""
        if self._looked_at is not None and now - self._looked_at > SLEPT_S:
            self.away()
        self._looked_at = now
        if self._there_since is None:
            self._there_since = now
        if seen.mode is Mode.DRAINING:
            return ""
        still = now - max(seen.turned_at, self._there_since)
        if still >= self._limit:
            return f"its main loop has stood still for {still:.0f} s"
        if (
            seen.mode is Mode.STANDS_BY
            or not waiting
            or not seen.free
            or seen.taken != self._taken
            or self._idle_since is None
        ):
            self._idle_since, self._taken = now, seen.taken
        idle = now - self._idle_since
        if idle < self._limit:
            return ""
        text = f"{waiting} jobs wait, {seen.free} of {seen.slots} slots are free, nothing was taken for {idle:.0f} s"
        return f"{text}: an operator has cancelled its queue" if seen.mode is Mode.CANCELLED else text
