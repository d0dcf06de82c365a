"""What all workers know of a stage, in the memory of one process: its health, and what it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from config.limits import Breaker
from config.stages import Stage, identity
from staffel_wire.stages import PARTS
from worker.failover.attempt import Reason
from worker.failover.breaker import Count, Turn, open_for, turn
from worker.failover.state import (
    BACK_OFF_S,
    LOUD_S,
    MOST_BACK_OFF_S,
    MOST_DROPPED,
    REFUSALS,
    REMEMBERED_S,
    Lesson,
)
from worker.state.memory_gates import Class, Gate, Gates, Triple
from worker.state.rules import LATER_MS, SHARED


@dataclass(slots=True)
class Known:
    """What is known of one stage. Instants in milliseconds; `loud` until when a fault is not told again.

    `window` counts calls and failures by the part of the time in which they ended; `generation` counts the openings
    and closings: a call that was admitted in an older one says nothing of the stage as it is now.
    """

    id: str
    generation: int = 0
    window: dict[int, tuple[int, int]] = field(default_factory=dict)
    row: int = 0
    opened: int = 0
    throttles: int = 0
    believed_until: int = 0
    dropped: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    loud: dict[str, int] = field(default_factory=dict)

    def count(self, rule: Breaker, now: int, *, failed: bool) -> Count:
        """One call more, and all that is in the window now."""
        window_ms = round(rule.window * 1000)
        width = max(1, window_ms // PARTS)
        self.window = {part: seen for part, seen in self.window.items() if part * width > now - window_ms}
        calls, failures = self.window.get(now // width, (0, 0))
        self.window[now // width] = (calls + 1, failures + failed)
        self.row = self.row + 1 if failed else 0
        self.throttles = self.throttles if failed else 0
        calls, failures = (sum(column) for column in zip(*self.window.values(), strict=True))
        return Count(calls, failures, self.row)

    def likes(self, lesson: Lesson, reason: Reason | None, now: int) -> tuple[bool, bool]:
        """Whether a person should hear of it now, and whether the stage is to blame for its refusals."""
        believed = self.believed_until > now
        if not believed:
            self.dropped, self.refused, self.loud = [], [], {}
        if lesson.worked:
            self.refused, self.loud = [], {}
            return False, False
        if lesson.dropped and lesson.believed and lesson.dropped not in self.dropped:
            self.dropped = [*self.dropped, lesson.dropped][:MOST_DROPPED]
        if lesson.refused and lesson.refused not in self.refused and len(self.refused) < REFUSALS:
            self.refused.append(lesson.refused)
        suspect = bool(lesson.refused) and len(self.refused) >= REFUSALS
        told = f"{reason or ''} {lesson.dropped}".strip()
        alarm = (lesson.loud or suspect) and self.loud.get(told, 0) <= now
        if alarm:
            self.loud[told] = now + round(LOUD_S * 1000)
        if not believed and (lesson.dropped or lesson.refused or alarm):
            self.believed_until = now + round(REMEMBERED_S * 1000)
        return alarm, suspect


class Stages:
    """By their names; `known` is written at a permit and at a settlement, `gates` are read at every admit."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.gates = Gates()

    def gate(self, stage: Stage, now: int) -> Gate:
        return self.gates.gate(stage.name, identity(stage), now)

    def renewed(self, stage: Stage) -> Known:
        """Started anew where another host or model has been known under this name."""
        whose = identity(stage)
        found = self.known.get(stage.name)
        if found is None or found.id != whose:
            found = self.known[stage.name] = Known(whose, found.generation + 1 if found else 0)
        return found

    def reset(self, stage: Stage) -> None:
        """Forget what was learned and counted; a call under way was admitted to what is forgotten."""
        known = self.renewed(stage)
        self.known[stage.name] = Known(known.id, known.generation + 1)
        self._put(stage, Class.BREAKER, None)
        self._put(stage, Class.THROTTLE, None)

    def judge(
        self, mates: Mapping[str, Stage], stage: Stage, lesson: Lesson, reason: Reason | None, now: int, *, probe: bool
    ) -> None:
        """What a call of the present generation says of its stage; `mates`: all behind its account and it."""
        known, rule, count = self.renewed(stage), stage.breaker, Count()
        if not lesson.permanent:
            if lesson.throttled or (lesson.failed and lesson.closed_s):
                self._throttle(mates, stage, lesson, reason, now)
            if not probe and (lesson.failed or lesson.worked):
                count = known.count(rule, now, failed=lesson.failed)
        match turn(rule, lesson, count, probe=probe):
            case Turn.OPENS if lesson.permanent:
                for mate in mates.values() if reason in SHARED else [stage]:
                    named = max(lesson.closed_s, mate.breaker.open_for) if lesson.closed_s else None
                    until = now + round((named or mate.breaker.permanent_for) * 1000)
                    self._open(mate, reason or Reason.BREAKER_OPEN, until)
            case Turn.OPENS:
                seconds, known.opened = open_for(rule, known.opened), known.opened + 1
                self._open(stage, Reason.BREAKER_OPEN, now + math.floor(seconds * 1000 + 0.5))
            case Turn.CLOSES:
                known.window, known.row, known.opened, known.throttles = {}, 0, 0, 0
                known.generation += 1
                self._put(stage, Class.BREAKER, None)

    def _open(self, stage: Stage, reason: Reason, until: int) -> None:
        self.renewed(stage).generation += 1
        self._put(stage, Class.BREAKER, Triple(reason, until, identity(stage)))

    def _throttle(
        self, mates: Mapping[str, Stage], stage: Stage, lesson: Lesson, reason: Reason | None, now: int
    ) -> None:
        known, closed = self.renewed(stage), round(lesson.closed_s * 1000)
        if closed < LATER_MS:
            if self._throttled_until(stage) > now:
                return
            back_off = round(min(BACK_OFF_S * 2 ** min(known.throttles, 32), MOST_BACK_OFF_S) * 1000)
            closed = back_off if not closed or known.throttles else closed
            known.throttles += 1
        accounts = lesson.throttled and reason is not Reason.OVERLOADED
        told = Reason.THROTTLED if accounts else Reason.OVERLOADED
        for mate in mates.values() if accounts else [stage]:
            if self._throttled_until(mate) < now + closed:
                self._put(mate, Class.THROTTLE, Triple(told, now + closed, identity(mate)))

    def _throttled_until(self, stage: Stage) -> int:
        found = self.gates.triples(stage.name, identity(stage)).get(Class.THROTTLE)
        return found.until if found else 0

    def _put(self, stage: Stage, kind: Class, triple: Triple | None) -> None:
        self.gates.put(stage.name, identity(stage), kind, triple)
