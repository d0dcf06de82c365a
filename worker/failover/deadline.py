"""How long a stage may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.stages import Stage


def kept_for_later(plan: Sequence[str], stages: Mapping[str, Stage], place: int, *, at_home: bool) -> float:
    """Seconds that the stages after this one have reserved; `at_home`: as far as they serve `local_only` requests."""
    later = (stages[name] for name in plan[place + 1 :] if name in stages)
    return sum(stage.reserve for stage in later if stage.local or not at_home)


def clock_of(stage: Stage, *, cold: bool, first_token_s: float | None) -> float:
    """Seconds after which the stage's own clock ends an attempt, where neither deadline nor reserve does so before.

    A model that has to be loaded may take its time for it, and the stage's timeout starts only then.
    """
    if not cold:
        return stage.timeout
    return stage.cold_load_timeout if first_token_s is None else first_token_s + stage.timeout


def allowed(stage: Stage, left: float, kept: float) -> float:
    """Seconds for one attempt: the stage's own timeout, shortened so that the reserves and the deadline hold."""
    return min(stage.timeout, left - kept)
