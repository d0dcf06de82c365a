"""The stages and chains that the shared state is tested with."""

from __future__ import annotations

from config.limits import Limits
from config.stages import Chain, Price, Stage, Takes

STAGES = {
    stage.name: stage
    for stage in (
        Stage("a", "scripted", model="m-a"),
        Stage("b", "scripted", model="m-b"),
        Stage("home", "scripted", model="m-home", local=True, reserve=10),
        Stage("once", "scripted", model="m-once", on_unknown="skip", limits=Limits(max_in_flight=1)),
        Stage("lane-once", "scripted", model="m-lane-once", lane="ollama", local=True, on_unknown="skip"),
        Stage("kept", "scripted", model="m-kept", reserve=20),
        Stage("lane", "scripted", model="m-lane", lane="ollama", local=True),
        Stage("blind", "scripted", model="m-blind", takes=Takes(images=False)),
        Stage("two", "scripted", model="m-two", limits=Limits(max_in_flight=2)),
        Stage("slow", "scripted", model="m-slow", limits=Limits(requests_per_minute=60, burst=2)),
        Stage(
            "scarce",
            "scripted",
            model="m-scarce",
            limits=Limits(tokens_per_minute=6000, burst=6),
            max_output_tokens=300,
        ),
        Stage("left", "scripted", model="m-left", limit_group="account", limits=Limits(max_in_flight=1)),
        Stage("right", "scripted", model="m-right", limit_group="account", limits=Limits(max_in_flight=1)),
        Stage("priced", "scripted", model="m-priced", price=Price(input=2, output=8), max_output_tokens=1000),
        Stage(
            "capped",
            "scripted",
            model="m-capped",
            price=Price(input=2, output=8),
            max_output_tokens=1000,
            usd_per_day=0.02,
        ),
    )
}

CHAINS = {"default": Chain("default", ("a", "b")), "cheap": Chain("cheap", ("priced", "b"), usd_per_day=0.01)}


def price(stage: Stage) -> tuple[float, float] | None:
    """As the stage's own table says, USD per 1M tokens."""
    return (stage.price.input, stage.price.output) if stage.price else None
