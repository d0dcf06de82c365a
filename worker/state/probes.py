"""The probes that the owner of a lane makes itself, for stages whose breaker is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from worker.failover.attempt import Reason
from worker.failover.state import Lesson
from worker.state.time_given import time_given


@dataclass(frozen=True, slots=True)
class Due:
    """A stage whose breaker is due; `generation` counts its turns."""

    stage: str
    generation: int


Ask = Callable[[str, list[Any]], Awaitable[Any]]
"""Runs one of the scripts with the rules' keys."""


class Probes:
    """Those of one lane."""

    def __init__(self, lane: str, ask: Ask, told: Callable[[Lesson], str]) -> None:
        """`told` is a lesson as the scripts read it."""
        self._lane, self._ask, self._told = lane, ask, told

    async def is_due(self, now_ms: int | None = None) -> bool:
        return bool(await self._ask("probe", ["", self._lane, time_given(now_ms)]))

    async def take(self, owner: str, now_ms: int | None = None) -> Due | None:
        found = await self._ask("probe", [owner, self._lane, time_given(now_ms)])
        return Due(str(found[0]), int(found[1])) if found else None

    async def settle(
        self, owner: str, due: Due, lesson: Lesson, reason: Reason | None, now_ms: int | None = None
    ) -> bool:
        given = [owner, due.stage, due.generation, self._told(lesson), reason or "", time_given(now_ms)]
        return bool(await self._ask("probed", given))
