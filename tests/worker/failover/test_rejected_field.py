"""Which field of a call a stage does not take, by the host's own words."""

from __future__ import annotations

import json

import pytest

from tests.worker.failover.vendor_bodies import MISTRAL, PYDANTIC, anthropic, gemini, ollama, openai
from worker.failover.attempt import Reason
from worker.failover.judge import FaultClass, Verdict, rejected_field, rejected_whole
from worker.failover.provider import Fault, Kind, Words
from worker.failover.request import Image, Request
from worker.providers.replies import failed

OPTIONAL = {
    "temperature": ("temperature",),
    "stop": ("stop",),
    "seed": ("seed",),
    'reasoning_effort="none"': ("reasoning_effort", "reasoning"),
    "generationConfig.stopSequences": ("stopSequences", "stop sequences"),
    "generationConfig.thinkingConfig": ("thinkingConfig", "thinking level", "thinking"),
    "max_tokens": ("max_tokens",),
    "max_completion_tokens": ("max_completion_tokens",),
    "presence_penalty": ("presence_penalty",),
    "options.top_k": ("top_k",),
}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (openai("Unsupported parameter: 'temperature'. Use 'stop'.", "unsupported_parameter"), "temperature"),
        (openai("no", "unsupported_parameter", param="seed"), "seed"),
        (openai("'temperature' of 'seed'", "unsupported_parameter", param="seed"), "seed"),
        (openai("no", "unsupported_value", param="reasoning.effort"), 'reasoning_effort="none"'),
        (openai("Unrecognized request argument supplied: seed"), "seed"),
        (openai("'max_completion_tokens' is not supported, use 'max_tokens'"), "max_completion_tokens"),
        (openai("Unsupported parameter: max_completion_tokens"), "max_completion_tokens"),
        (openai("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."), "max_tokens"),
        (openai("Unsupported value: 'none' is not supported with the 'o3' model."), 'reasoning_effort="none"'),
        (openai("Argument not supported on this model: presencePenalty"), "presence_penalty"),
        (anthropic("invalid_request_error", "temperature: Extra inputs are not permitted"), "temperature"),
        (anthropic("invalid_request_error", '"thinking.type.disabled" is not supported'),
         "generationConfig.thinkingConfig"),
        (gemini(400, "INVALID_ARGUMENT", "Unknown name \"stopSequences\" at 'generation_config'"),
         "generationConfig.stopSequences"),
        (gemini(400, "INVALID_ARGUMENT", "stop_sequences is not supported"), "generationConfig.stopSequences"),
        (gemini(400, "INVALID_ARGUMENT", "Thinking level MINIMAL is not supported for this model."),
         "generationConfig.thinkingConfig"),
        (json.dumps(PYDANTIC), "seed"),
        (json.dumps(MISTRAL), "seed"),
        (json.dumps({"detail": [{"type": "extra_forbidden", "loc": ["body", "options", "top_k"], "msg": "no"}]}),
         "options.top_k"),
        (ollama('"m" does not support thinking'), "generationConfig.thinkingConfig"),
        (ollama('"seed-oss:36b" does not support thinking'), "generationConfig.thinkingConfig"),
        (ollama("library/seed-oss does not support thinking"), "generationConfig.thinkingConfig"),
        (ollama('"m" does not support tools'), None),
        (openai("Unknown parameter: 'stopwatch'"), None),
        (openai("no", "unsupported_parameter"), None),
    ],
)  # fmt: skip
def test_the_field_that_a_host_names_is_the_one_that_is_dropped(body: str, field: str | None) -> None:
    """First what the body points at, then what it quotes, then what it mentions; never a part of another word."""
    assert rejected_field(failed(400, {}, body, 0.0), OPTIONAL) == field


def test_a_rejected_field_that_is_needed_sends_the_request_on() -> None:
    """And one that is the stage's own setting takes the stage out of use."""
    verdict = Verdict(Reason.UNSUPPORTED, FaultClass.REJECTED)
    asked = Request([{"role": "user", "content": "Why?"}])
    assert rejected_whole(verdict, asked) == Verdict(Reason.UNSUPPORTED, FaultClass.PERMANENT)
    fitting = Verdict(Reason.CAPABILITY, FaultClass.NO_FIT)
    assert rejected_whole(verdict, Request(asked.messages, response_schema={})) == fitting
    assert rejected_whole(verdict, Request(asked.messages, images=[Image("image/png", "")])) == fitting


def test_a_field_bound_to_a_value_is_known_by_the_value_alone() -> None:
    """OpenAI quotes the effort that a model lacks, and not what it is an effort of."""
    words = Words(("unsupported_value",), "Unsupported value: 'none' is not supported.", formed=True)
    fault = Fault(Kind.STATUS, status=400, words=words)
    assert rejected_field(fault, {"seed": ("seed",), 'think="none"': ("think",)}) == 'think="none"'
    assert rejected_field(fault, {"seed": ("seed",), 'think="low"': ("think",)}) is None
