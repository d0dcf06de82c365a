"""How long a stage may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.stages import Stage


def kept_for_later(plan: Sequence[str], stages: Mapping[str, Stage], place: int) -> float:
    """Seconds that the stages after this one have reserved."""
    return sum(stages[name].reserve for name in plan[place + 1 :] if name in stages)


def allowed(stage: Stage, left: float, kept: float) -> float:
    """Seconds for one attempt: the stage's own timeout, shortened so that the reserves and the deadline hold."""
    return min(stage.timeout, left - kept)
