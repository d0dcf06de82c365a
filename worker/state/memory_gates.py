"""Why a stage is not asked now, in the memory of one process: the gates as staffel_wire/lua/gates.lua reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from worker.failover.attempt import Reason

ANYBODY = "*"
"""Whose what an operator switched off is: any host's and any model's."""


class Class(StrEnum):
    """A stage has one of each at most."""

    HAND = "hand"
    BREAKER = "breaker"
    THROTTLE = "throttle"


@dataclass(frozen=True, slots=True)
class Triple:
    """Closed until an instant in milliseconds; `whose` is the stage's identity."""

    reason: Reason
    until: int
    whose: str


@dataclass(frozen=True, slots=True)
class Gate:
    """What is read of a stage's triples: closed until an instant (ms), and whether its breaker is due for a probe."""

    reason: Reason | None = None
    until: int = 0
    due: bool = False


class Gates:
    def __init__(self) -> None:
        self.found: dict[str, dict[Class, Triple]] = {}

    def triples(self, stage: str, whose: str) -> dict[Class, Triple]:
        """As far as they are this stage's, and not those of another host or model under its name."""
        found = self.found.get(stage, {})
        return {kind: triple for kind, triple in found.items() if triple.whose in {whose, ANYBODY}}

    def gate(self, stage: str, whose: str, now: int) -> Gate:
        found = self.triples(stage, whose)
        breaker = found.get(Class.BREAKER)
        due = breaker is not None and breaker.until <= now
        hand = found.get(Class.HAND)
        if hand is not None and hand.until > now:
            return Gate(hand.reason, hand.until, due)
        closed = [found[kind] for kind in (Class.BREAKER, Class.THROTTLE) if kind in found and found[kind].until > now]
        last = max(closed, key=lambda triple: triple.until, default=None)
        return Gate(last.reason, last.until, due) if last else Gate(due=due)

    def put(self, stage: str, whose: str, kind: Class, triple: Triple | None) -> None:
        """One triple instead of the one of its class; what is not this stage's is dropped."""
        found = self.triples(stage, whose)
        found.pop(kind, None)
        self.found[stage] = found if triple is None else {**found, kind: triple}
