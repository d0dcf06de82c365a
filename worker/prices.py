"""What a call cost: by the price that its stage names, else by the price list of genai-prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from config.problems import Problem
from config.stages import Chain, Stage
from worker.failover.attempt import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_SHORT = 1000
"""Tokens for which a list is asked before a call: none of its prices for long prompts applies."""


def cost(stage: Stage, usage: Usage | None, *, unbilled: bool) -> float | None:
    """USD of one attempt: 0 in the house and for what was turned away, None where it is not known.

    Tokens of reasoning are among the output tokens.
    """
    if stage.local or unbilled:
        return 0.0
    if usage is None:
        return None
    if stage.price is not None:
        return (usage.input_tokens * stage.price.input + usage.output_tokens * stage.price.output) / 1_000_000
    return _listed(stage, usage) if _may_be_listed(stage) else None


def per_million(stage: Stage) -> tuple[float, float] | None:
    """USD per 1M tokens of input and of output, for an estimate before a call; None where it is not known.

    What some hosts take for each call besides is not in it.
    """
    if stage.local:
        return 0.0, 0.0
    if stage.price is not None:
        return stage.price.input, stage.price.output
    if not _may_be_listed(stage) or (found := _calculated(stage, Usage(_SHORT, _SHORT))) is None:
        return None
    times = 1_000_000 // _SHORT
    return float(found.input_price * times), float(found.output_price * times)


def unpriced(stages: Mapping[str, Stage], chains: Mapping[str, Chain]) -> list[Problem]:
    """Every budget that cannot be kept, since nobody knows what a call of one of its stages costs."""
    budgets = {f"stages.{name}": (name,) for name, stage in stages.items() if stage.usd_per_day is not None}
    plans = {f"chains.{name}": chain.plan for name, chain in chains.items() if chain.usd_per_day is not None}
    problems = []
    for path, plan in {**budgets, **plans}.items():
        unknown = [stages[name] for name in plan if per_million(stages[name]) is None]
        if unknown:
            where = ", ".join(f"{stage.model} at the address of stages.{stage.name}" for stage in unknown)
            text = f"no price is known for {where}; write price = {{ input = ..., output = ... }} there"
            problems.append(Problem(f"{path}.usd_per_day", text))
    return problems


def warm(stages: Iterable[Stage]) -> None:
    """Read the price list if any of these stages may be in it.

    It takes 0.7 s of CPU the first time and 0.3 ms a call from then on (measured), so not while calls are under way.
    """
    for stage in stages:
        if _may_be_listed(stage):
            _listed(stage, Usage(1, 1))


def _may_be_listed(stage: Stage) -> bool:
    """A list is asked by the host's address; without one it would go by the model's name alone."""
    return bool(stage.base_url) and stage.provider != "scripted" and not stage.local and stage.price is None


def _listed(stage: Stage, usage: Usage) -> float | None:
    found = _calculated(stage, usage)
    return None if found is None else float(found.total_price)


def _calculated(stage: Stage, usage: Usage) -> PriceCalculation | None:
    """By the list that comes with the package, which is never asked for over the network."""
    try:
        import genai_prices  # noqa: PLC0415 - half a second, which most commands of this package do not need

        counted = genai_prices.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        model, host = stage.model.removeprefix("models/"), stage.base_url.lower()
        return genai_prices.calc_price(counted, model_ref=model, provider_api_url=host)
    except Exception:  # noqa: BLE001 - no price is worth an answer
        return None
