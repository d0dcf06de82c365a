"""What a call cost: by the price that its stage names, else by the price list of genai-prices."""

from __future__ import annotations

from collections.abc import Iterable

from config.stages import Stage
from worker.failover.attempt import Usage


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
    """By the list that comes with the package, which is never asked for over the network."""
    try:
        import genai_prices  # noqa: PLC0415 - half a second, which most commands of this package do not need

        counted = genai_prices.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        model, host = stage.model.removeprefix("models/"), stage.base_url.lower()
        found = genai_prices.calc_price(counted, model_ref=model, provider_api_url=host)
        return float(found.total_price)
    except Exception:  # noqa: BLE001 - no price is worth an answer
        return None
