"""How often something that died is started again."""

from __future__ import annotations

import time
from collections.abc import Callable

RESTARTS = 3
CALM_S = 600.0


class GaveUp(Exception):
    """Something that must run does not; the text is one line for a person."""


class Patience:
    """Three restarts, counted anew once the last one was ten minutes ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used, self._last = 0, 0.0

    @property
    def used(self) -> int:
        return self._used

    def left(self) -> bool:
        """Take one restart; False when all are used up."""
        now = self._clock()
        if now - self._last > CALM_S:
            self._used = 0
        if self._used == RESTARTS:
            return False
        self._used, self._last = self._used + 1, now
        return True
