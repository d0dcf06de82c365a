"""Every provider by its name in the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.stages import Stage
from worker.failover.provider import Provider
from worker.prices import warm
from worker.providers.adapter import Adapter
from worker.providers.anthropic import Anthropic
from worker.providers.gemini import Gemini
from worker.providers.ollama import Ollama
from worker.providers.openai import OpenAI
from worker.providers.scripted import Scripted


def providers(stages: Iterable[Stage]) -> Mapping[str, Provider]:
    """One of each, ready for these stages: certificates and prices are read before the first call, not in its time."""
    adapters: dict[str, Adapter] = {
        "openai": OpenAI(),
        "anthropic": Anthropic(),
        "gemini": Gemini(),
        "ollama": Ollama(),
    }
    for stage in stages:
        if stage.provider in adapters:
            adapters[stage.provider].prepare(stage)
        warm([stage])
    return {**adapters, "scripted": Scripted()}
