"""When a stage is taken for dead, and for how long: the judgement alone, on what all workers have counted.

`worker/state/lua/breaker.lua` judges in the same words; the contract tests hold the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from config.limits import Breaker
from worker.failover.state import Lesson


class Turn(StrEnum):
    """What a call does to a breaker. Half open is an open one whose time is over: its next call is the probe."""

    OPENS = "opens"
    CLOSES = "closes"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted of a stage: calls and failures in the window, and failures in a row of any age."""

    calls: int = 0
    failures: int = 0
    row: int = 0


def trips(rule: Breaker, count: Count) -> bool:
    """Whether so many failures, in the window or in a row, open a closed breaker."""
    enough = count.calls >= rule.min_calls and count.failures / count.calls >= rule.failure_ratio
    return enough or count.row >= rule.consecutive_failures


def turn(rule: Breaker, lesson: Lesson, count: Count, *, probe: bool) -> Turn:
    """What a call that was admitted since the last turn does; `count` has it in, unless it is the probe."""
    if lesson.permanent or (lesson.failed and (probe or trips(rule, count))):
        return Turn.OPENS
    return Turn.CLOSES if lesson.worked and probe else Turn.STAYS


def open_for(rule: Breaker, before: int) -> float:
    """Seconds that it stays open, after so many openings since the last success."""
    seconds = round(rule.open_for, 3)  # milliseconds are counted
    for _ in range(before):
        # A product, since Lua's power and Python's differ in their last bits.
        if seconds >= rule.open_max or rule.open_growth == 1:
            break
        seconds *= rule.open_growth
    return min(seconds, max(rule.open_for, rule.open_max))
