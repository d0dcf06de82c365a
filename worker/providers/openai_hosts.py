"""What differs between the hosts that speak like OpenAI, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from config.stages import Stage

Efforts = Sequence[tuple[re.Pattern[str], str | None]]


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
    """How one kind of host wants what OpenAI's protocol leaves open.

    `least` is the effort that switches thinking off, or nearly, by model: the first pattern that matches the start of
    a model's name decides, None sends nothing; any other model is asked with "none".
    """

    limit: str = "max_tokens"
    reasoning: Reasoning = Reasoning.EFFORT
    schemas: Schemas = Schemas.ANY
    least: Efforts = ()
    key_header: bool = False
    """The key goes into `api-key` where the stage names an `api_version`, as in Azure's own, older interface."""


def _efforts(table: Mapping[str, str | None]) -> Efforts:
    return [(re.compile(pattern, re.IGNORECASE), effort) for pattern, effort in table.items()]


OPENAI_EFFORTS: Efforts = _efforts(
    {
        r"gpt-?[34]|gpt-35|chatgpt-4o": None,  # they do not think, and refuse to be asked
        r"gpt-5-chat": None,
        r"gpt-5[.\d]*-chat|chat-latest": None,  # one fixed effort, every other one refused
        r"gpt-[\w.]+-pro|o\d+-pro": "low",
        r"o\d": "low",
        r"gpt-5(\.1)?-codex": "low",
        r"gpt-5(-|$)": "minimal",
        r"gpt-6-astra": "low",
        r"gpt-oss": "low",
    }
)
"""Source: OpenAI's reasoning guide and model pages; pydantic-ai's table of what the live interface took (2026-07).
"low" is the least that a model takes which cannot stop thinking. Later mainline models (gpt-5.1 and on) take "none"."""

GEMINI_EFFORTS: Efforts = _efforts(
    {r"gemini-(1|2\.0)": None, r"gemini-2\.5-flash": "none", r"gemini-(2\.5|[3-9])": "minimal"}
)
"""Source: Google's page on its OpenAI compatibility: only 2.5 Flash can stop thinking, older ones do not think."""

_OPENAI = Flavour("max_completion_tokens", schemas=Schemas.OBJECTS, least=OPENAI_EFFORTS)
DEFAULT = Flavour(least=OPENAI_EFFORTS)
"""vLLM, llama.cpp, LiteLLM and whoever else imitates the protocol: most know `max_tokens` alone."""

HOSTS: Mapping[str, Flavour] = MappingProxyType(
    {
        # `max_tokens` is refused by o-series and GPT-5 and on (OpenAI's reference of chat completions).
        "api.openai.com": _OPENAI,
        "azure.com": Flavour("max_completion_tokens", schemas=Schemas.OBJECTS, least=OPENAI_EFFORTS, key_header=True),
        # api-docs.deepseek.com: guides/thinking_mode, guides/json_mode (`json_object` alone).
        "api.deepseek.com": Flavour(reasoning=Reasoning.SWITCH, schemas=Schemas.NONE),
        # openrouter.ai/docs: use-cases/reasoning-tokens.
        "openrouter.ai": Flavour(reasoning=Reasoning.OBJECT, schemas=Schemas.OBJECTS),
        "generativelanguage.googleapis.com": Flavour(least=GEMINI_EFFORTS),
    }
)
"""By the end of the host's name."""


def flavour_of(stage: Stage) -> Flavour:
    host = f".{(urlsplit(stage.base_url).hostname or '').rstrip('.')}"
    return next((flavour for end, flavour in HOSTS.items() if host.endswith(f".{end}")), DEFAULT)


def reasoning_of(stage: Stage, wanted: str | None) -> Mapping[str, Any]:
    """The fields that ask this stage for so much thinking; none where nothing is wanted or the model refuses all."""
    if wanted is None:
        return {}
    flavour = flavour_of(stage)
    if flavour.reasoning is Reasoning.OBJECT:
        return {"reasoning": {"effort": wanted}}
    if flavour.reasoning is Reasoning.SWITCH:
        if wanted == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": wanted}
    effort = _least(flavour, stage.model) if wanted == "none" else wanted
    return {} if effort is None else {"reasoning_effort": effort}


def _least(flavour: Flavour, model: str) -> str | None:
    name = model.rsplit("/", 1)[-1]  # gateways and Gemini put the maker's name before it
    return next((effort for pattern, effort in flavour.least if pattern.match(name)), "none")
