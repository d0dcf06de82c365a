"""How long a stage may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.stages import Stage


def kept_for_later(plan: Sequence[str], stages: Mapping[str, Stage], place: int, *, at_home: bool) -> float:
    """Seconds that the stages after this one have reserved; `at_home`: as far as they serve `local_only` requests."""
    later = (stages[name] for name in plan[place + 1 :] if name in stages)
    return sum(stage.reserve for stage in later if stage.local or not at_home)


def allowed(stage: Stage, left: float, kept: float) -> float:
    """Seconds for one attempt: the stage's own timeout, shortened so that the reserves and the deadline hold."""
    return min(stage.timeout, left - kept)
