"""A request inside the engine: already checked, never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """What a stage is asked, in portable words; lengths in tokens.

    `reasoning` is none, low, medium or high; None and "none" both switch thinking off where the provider can.
    `params` are provider's own fields by stage name.
    """

    messages: Sequence[Mapping[str, str]]
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: str | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
