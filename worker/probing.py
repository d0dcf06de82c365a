"""Whether a local host whose breaker is open works again: found out with a short generation, and with nobody's request.

An idle Ollama whose runner hangs still answers `/api/version` (graphify#1686), so only an answer counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from config.stages import Stage
from worker.failover import judge
from worker.failover.attempt import Reason
from worker.failover.clocks import Reply, read
from worker.failover.outcome import health
from worker.failover.provider import Call, Provider
from worker.failover.request import Request
from worker.failover.state import Lesson
from worker.failover.turns import Idle, Warm
from worker.failover.verdict import FaultClass
from worker.state.connection import AWAY
from worker.state.probes import Due

EVERY_S = 1.0
TOKENS = 8
REQUEST = Request(messages=({"role": "user", "content": "Say OK."},), reasoning="none")

_log = logging.getLogger("staffel")


class Probes(Protocol):
    """The probes of a lane's stages, in the shared state."""

    async def is_due(self) -> bool:
        """Whether there is a stage whose breaker is due, and that nobody probes."""
        ...

    async def take(self, owner: str) -> Due | None:
        """Such a stage, held for this owner; None where there is none."""
        ...

    async def settle(self, owner: str, due: Due, lesson: Lesson, reason: Reason | None) -> bool:
        """Whether it was still this owner's to tell."""
        ...


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
        """The probe is taken when its turn has come: behind a long call it would be anybody's again before."""
        if await self._probes.is_due():
            await idle(self._probes.is_due, self._probed)

    async def _probed(self) -> Reply | None:
        if (due := await self._probes.take(self._owner)) is None or due.stage not in self._stages:
            return None
        stage = self._stages[due.stage]
        reply = await self._asked(stage)
        lesson, reason = lesson_of(reply, stage)
        if await self._probes.settle(self._owner, due, lesson, reason) and lesson.worked:
            self._warm.answered(stage)
            _log.info("stage %s works again: it has answered a probe", stage.name)
        return reply

    async def _asked(self, stage: Stage) -> Reply:
        cold = await self._warm.is_cold(stage)
        budget = stage.longest if cold else stage.timeout
        return await read(self._providers[stage.provider], Call(stage, REQUEST, TOKENS, cold=cold), budget)


_NOT_TAKEN = frozenset({FaultClass.CALLER, FaultClass.NO_FIT, FaultClass.REJECTED})


def lesson_of(reply: Reply, stage: Stage) -> tuple[Lesson, Reason | None]:
    """What the reply to a probe says of the stage's health: only an answer, of whatever quality, says that it works.

    A host that calls even this request wrong has generated nothing. Where nothing left this machine, nothing is known.
    """
    if reply.fault is None:
        return Lesson(worked=reply.end is not None, failed=reply.end is None), None if reply.end else Reason.INCOMPLETE
    verdict = judge.of_fault(reply.fault, stage.provider)
    lesson = health(verdict, reply.fault)
    return replace(lesson, failed=lesson.failed or verdict.fault_class in _NOT_TAKEN), verdict.reason
