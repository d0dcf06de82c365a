"""What differs between the hosts that speak like OpenAI, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from config.stages import Stage
from worker.providers.openai_models import model_of


class Reasoning(StrEnum):
    """How a host is told how much to think."""

    EFFORT = "effort"
    """`reasoning_effort`"""
    SWITCH = "switch"
    """`thinking`, on or off, and `reasoning_effort` beside it where it is on"""
    OBJECT = "object"
    """`reasoning`, an object with the effort in it"""


class Schemas(StrEnum):
    """Which JSON schemas a host takes."""

    ANY = "any"
    OBJECTS = "objects"
    """Only those of an object; others get a 400."""
    NONE = "none"
    """A JSON mode that knows no schema."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """How one kind of host wants what OpenAI's protocol leaves open."""

    limit: str = "max_tokens"
    reasoning: Reasoning = Reasoning.EFFORT
    schemas: Schemas = Schemas.ANY
    key_header: bool = False
    """The key goes into `api-key` where the stage names an `api_version`, as in Azure's own, older interface."""
    strict: bool = False
    """It refuses what a model does not take; others ignore it."""
    routes: bool = False
    """It picks a host by itself, also one that takes no schema unless it is told to mind."""
    refuses: frozenset[str] = frozenset()


DEFAULT = Flavour()
"""vLLM, llama.cpp, LiteLLM and whoever else imitates the protocol: most know `max_tokens` alone."""

HOSTS: Mapping[str, Flavour] = MappingProxyType(
    {
        # `max_tokens` is refused by o-series and GPT-5 and on (OpenAI's reference of chat completions).
        "api.openai.com": Flavour("max_completion_tokens", schemas=Schemas.OBJECTS, strict=True),
        "azure.com": Flavour("max_completion_tokens", schemas=Schemas.OBJECTS, strict=True, key_header=True),
        # api-docs.deepseek.com: guides/thinking_mode, guides/json_mode (`json_object` alone).
        "api.deepseek.com": Flavour(reasoning=Reasoning.SWITCH, schemas=Schemas.NONE, refuses=frozenset({"seed"})),
        # openrouter.ai/docs: use-cases/reasoning-tokens, features/structured-outputs.
        "openrouter.ai": Flavour(reasoning=Reasoning.OBJECT, schemas=Schemas.OBJECTS, routes=True),
    }
)
"""By the end of the host's name."""


def flavour_of(stage: Stage) -> Flavour:
    host = f".{(urlsplit(stage.base_url).hostname or '').rstrip('.')}"
    return next((flavour for end, flavour in HOSTS.items() if host.endswith(f".{end}")), DEFAULT)


def reasoning_of(stage: Stage, wanted: str | None) -> Mapping[str, Any]:
    """The fields that ask this stage for so much thinking; none where nothing is wanted or the model refuses all."""
    model, reasoning = model_of(stage.model), flavour_of(stage).reasoning
    if wanted is None or not model.efforts:
        return {}
    if reasoning is Reasoning.OBJECT:
        return {"reasoning": {"effort": wanted}}
    if reasoning is Reasoning.SWITCH:
        if wanted == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": wanted}
    effort = model.effort(wanted)
    return {} if effort is None else {"reasoning_effort": effort}


def refused_by(stage: Stage, effort: object) -> frozenset[str]:
    """The fields that this stage is known to refuse beside this effort; None: nothing is said of it."""
    flavour = flavour_of(stage)
    return flavour.refuses | (model_of(stage.model).refuses(effort) if flavour.strict else frozenset())
