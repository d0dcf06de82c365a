"""What differs between the models that speak Anthropic's protocol, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_DISABLED = MappingProxyType({"thinking": {"type": "disabled"}})
_LEAST = MappingProxyType({"output_config": {"effort": "low"}})

BUDGETS: Mapping[str, int] = MappingProxyType({"low": 2048, "medium": 10_000, "high": 16_384})
"""Tokens of thinking, where a model wants a number."""

MIN_BUDGET = 1024
"""Below it the interface refuses a budget."""


@dataclass(frozen=True, slots=True)
class Model:
    """`off` is what keeps a model from thinking, or nearly. `effort`: it takes one; `adaptive`: it must be told to
    think beside that; `budget`: it thinks by a number of tokens. `temperature` and `schemas`: it takes them.
    """

    off: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    effort: bool = False
    adaptive: bool = False
    budget: bool = False
    temperature: bool = False
    schemas: bool = True

    @property
    def prefill(self) -> bool:
        """Whether it goes on from an assistant's last message: none does that came after efforts replaced budgets."""
        return self.budget or not self.effort


_MODELS: Sequence[tuple[str, Model]] = (
    (r"claude-(opus-5-[5-9]|fable|mythos)", Model(_LEAST, effort=True)),  # they always think
    (
        r"claude-sonnet-5-[5-9](?!\d)",
        Model(MappingProxyType({"thinking": {"type": "between_tools"}}), effort=True),
    ),
    (r"claude-(opus|sonnet|haiku)-5", Model(_DISABLED, effort=True)),  # they think unless told otherwise
    (r"claude-opus-4-[789](?!\d)", Model(effort=True, adaptive=True)),
    (r"claude-(opus|sonnet)-4-6(?!\d)", Model(effort=True, adaptive=True, temperature=True)),
    (r"claude-opus-4-5(?!\d)", Model(effort=True, budget=True, temperature=True)),
    (r"claude-(opus-4-1|(sonnet|haiku)-4-5)(?!\d)", Model(budget=True, temperature=True)),
    (r"claude-((opus|sonnet)-4|3-7)", Model(budget=True, temperature=True, schemas=False)),
    (r"claude-([123]|instant)", Model(temperature=True, schemas=False)),
    (r"claude-", Model(_DISABLED, effort=True)),  # newer than this table
)
"""The first pattern that is found in a model's name decides.

Sources: Anthropic's pages on its models, on thinking, effort and structured outputs; pydantic-ai's profile of
Anthropic (2026-08). Opus 4.7 and 4.8 and all of generation 5 refuse a temperature and a budget, all from 4.6 on
an assistant's last message.
"""

OTHER = Model(_DISABLED, budget=True, temperature=True)
"""A model of another maker behind the same protocol (DeepSeek, GLM, Kimi, a gateway's alias)."""

_PATTERNS = tuple((re.compile(pattern), model) for pattern, model in _MODELS)


def model_of(name: str) -> Model:
    """By a name as Anthropic, a gateway or a cloud spells it (`anthropic/claude-opus-4.5`)."""
    plain = name.lower().replace(".", "-")
    return next((model for pattern, model in _PATTERNS if pattern.search(plain)), OTHER)


def reasoning_of(name: str, wanted: str | None, max_tokens: int) -> Mapping[str, Any]:
    """The fields that ask this model for so much thinking; none where nothing is wanted, or it cannot think.

    A budget is at most half of the output's limit, which it is a part of: the answer needs the rest. Where that is
    less than the interface takes, the model does not think.
    """
    model = model_of(name)
    if wanted is None:
        return _NOTHING
    if wanted == "none":
        return model.off
    fields: dict[str, Any] = {"output_config": {"effort": wanted}} if model.effort else {}
    if model.adaptive:
        return {**fields, "thinking": {"type": "adaptive"}}
    budget = min(BUDGETS.get(wanted, MIN_BUDGET), max_tokens // 2)
    if model.budget and budget >= MIN_BUDGET:
        fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return fields
