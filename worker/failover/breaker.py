"""When a stage is taken for dead, and for how long: the judgement alone, on what all workers have counted.

The Lua beside `worker/state` judges in the same words; the contract tests hold the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.limits import Breaker

PARTS = 20
"""A window is counted in so many parts: what is older than it is forgotten a twentieth of it at a time."""


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted of a stage: calls and failures in the window, and failures in a row of any age."""

    calls: int = 0
    failures: int = 0
    row: int = 0


def trips(rule: Breaker, count: Count) -> bool:
    """Whether the failure just counted opens a closed breaker."""
    enough = count.calls >= rule.min_calls and count.failures / count.calls >= rule.failure_ratio
    return enough or count.row >= rule.consecutive_failures


def open_for(rule: Breaker, before: int) -> float:
    """Seconds that it stays open, after so many openings since the last success."""
    longest = max(rule.open_for, rule.open_max)
    # Lua's power and Python's differ in their last bits, a product does not.
    seconds = rule.open_for
    for _ in range(before):
        if seconds >= longest:
            break
        seconds *= rule.open_growth
        if rule.open_growth <= 1:
            break
    return min(seconds, longest)
