"""Whether a local host whose breaker is open works again: found out with a short generation, and with nobody's request.

An idle Ollama whose runner hangs still answers `/api/version` (graphify#1686), so only an answer counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from config.stages import Stage
from worker.failover import judge
from worker.failover.attempt import Reason
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, Provider
from worker.failover.request import Request
from worker.failover.state import Lesson
from worker.failover.turns import Idle, Warm
from worker.failover.verdict import Counts
from worker.state.connection import AWAY
from worker.state.probes import Due

EVERY_S = 1.0
TOKENS = 8
REQUEST = Request(messages=({"role": "user", "content": "Say OK."},), reasoning="none")

_log = logging.getLogger("staffel")


class Probes(Protocol):
    """The probes of a lane's stages, in the shared state."""

    async def take(self, owner: str) -> Due | None:
        """A stage whose breaker is due, held for this owner; None where there is none."""
        ...

    async def settle(self, owner: str, due: Due, lesson: Lesson, reason: Reason | None) -> None: ...


class Probing:
    """Asks as long as this process holds the lane. On its event loop."""

    def __init__(
        self, stages: Mapping[str, Stage], providers: Mapping[str, Provider], probes: Probes, warm: Warm, owner: str
    ) -> None:
        self._stages, self._providers, self._probes, self._warm, self._owner = stages, providers, probes, warm, owner

    async def run(self, idle: Idle) -> None:
        """For ever."""
        while True:
            with suppress(*AWAY):
                await self._round(idle)
            await asyncio.sleep(EVERY_S)

    async def _round(self, idle: Idle) -> None:
        if (due := await self._probes.take(self._owner)) is None or due.stage not in self._stages:
            return
        stage = self._stages[due.stage]
        found: list[Reply] = []

        async def ask() -> Reply:
            found.append(await self._asked(stage))
            return found[0]

        await idle(ask)
        lesson, reason = lesson_of(found[0], stage)
        if lesson.worked:
            self._warm.answered(stage)
            _log.info("stage %s works again: it has answered a probe", stage.name)
        await self._probes.settle(self._owner, due, lesson, reason)

    async def _asked(self, stage: Stage) -> Reply:
        cold = await self._warm.is_cold(stage)
        budget = stage.timeout + (stage.cold_load_timeout if cold else 0)
        return await read(self._providers[stage.provider], Call(stage, REQUEST, TOKENS, cold=cold), budget)


def lesson_of(reply: Reply, stage: Stage) -> tuple[Lesson, Reason | None]:
    """What the answer to a probe says of the stage's health: whatever it answers, it is there."""
    if reply.fault is None:
        return Lesson(worked=reply.end is not None, failed=reply.end is None), None if reply.end else Reason.INCOMPLETE
    verdict = judge.of_fault(reply.fault, stage.provider)
    counts = verdict.consequences.counts
    lesson = Lesson(
        worked=counts in {Counts.QUALITY, Counts.NOTHING}, failed=counts is Counts.OUTAGE,
        throttled=counts is Counts.THROTTLE, permanent=counts is Counts.PERMANENT,
        closed_s=reply.fault.retry_after_s or 0.0 if counts is not Counts.NOTHING else 0.0,
    )  # fmt: skip
    return lesson, verdict.reason
