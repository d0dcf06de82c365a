"""When a stage is not asked: its breaker, its limits, its budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from config.problems import Table

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Usd = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
"""USD per day (UTC)."""

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Breaker(Table):
    """When a stage is taken for dead, for all workers together. Times in seconds.

    It opens when `failure_ratio` of at least `min_calls` calls of the last `window` failed, or after
    `consecutive_failures` of any age; for `open_for`, times `open_growth` with each probe that fails, at most
    `open_max`. A call that takes longer than `slow_call` counts as failed; a fault that needs a person opens it for
    `permanent_for` at the first sight.
    """

    failure_ratio: float = Field(default=0.5, gt=0, le=1)
    window: Seconds = 10.0
    min_calls: Count = 5
    consecutive_failures: Count = 5
    open_for: Seconds = 30.0
    open_growth: float = Field(default=2.0, ge=1, le=100, allow_inf_nan=False)
    open_max: Seconds = Field(default=300.0, validate_default=True)
    slow_call: Seconds | None = None
    permanent_for: Seconds = 900.0

    @field_validator("open_max")
    @classmethod
    def _longest(cls, value: float, info: ValidationInfo) -> float:
        # Also where only open_for is written: it would be cut to a default that nobody sees.
        if value < (least := info.data.get("open_for", 0)):
            raise ValueError(f"{value:g} s is less than open_for ({least:g} s); write {least:g} or more, or lower that")
        return value


@dataclass(frozen=True, slots=True)
class Limits:
    """What all workers together may ask of a stage or of its `limit_group`; None: without limit.

    `burst` in seconds: so much of the two rates may be used at once.
    """

    max_in_flight: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    burst: float = 6.0
