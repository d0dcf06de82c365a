"""Which field of a call a stage does not take, by the host's own words."""

from __future__ import annotations

import json

import pytest

from tests.worker.failover.vendor_bodies import MISTRAL, PYDANTIC, anthropic, gemini, ollama, openai
from worker.failover.judge import holds_always, rejected_field
from worker.failover.provider import Fault, Kind, Words
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
        (openai("Invalid parameter: reasoning_effort: not one of them"), 'reasoning_effort="none"'),
        (openai("Property seed is not permitted"), "seed"),
        (openai("Reasoning is mandatory for this endpoint and cannot be disabled."), 'reasoning_effort="none"'),
        (anthropic("invalid_request_error", "This model does not support the temperature parameter."), "temperature"),
        (openai("Unknown parameters: seed, stop"), "seed"),
        (gemini(400, "INVALID_ARGUMENT", "The thinking budget 0 is invalid. Please choose a value between 1 and 2."),
         "generationConfig.thinkingConfig"),
        (gemini(400, "INVALID_ARGUMENT", "You can only set only one of thinking budget and thinking level."),
         "generationConfig.thinkingConfig"),
        (gemini(400, "INVALID_ARGUMENT", "Unable to submit request because Thinking_config.include_thoughts is only "
                "enabled when thinking is enabled."), "generationConfig.thinkingConfig"),
        (openai("Please stop sending what this model has no use for", "unsupported_parameter"), None),
        (openai("Stop sending this: it is not supported", "unsupported_parameter"), None),
        (openai("Streaming is not supported, please stop", "unsupported_parameter"), None),
        (openai("Unknown parameter in 'give me a seed that I can sow'", "unknown_parameter"), None),
        (openai("Top is not supported. Reasoning about a seed at a temperature", "unsupported_parameter"), None),
    ],
)  # fmt: skip
def test_the_field_that_a_host_names_is_the_one_that_is_dropped(body: str, field: str | None) -> None:
    """What the body points at, what it quotes, what it names beside its refusal; never a part of another word.

    "Please stop sending ..." once dropped `stop`: an answer then ran on beyond its end mark.
    """
    assert rejected_field(failed(400, {}, body, 0.0), OPTIONAL) == field


def located(*steps: str | int) -> str:
    return json.dumps({"detail": [{"type": "extra_forbidden", "loc": list(steps), "msg": "Extra inputs"}]})


def told_by_vllm(loc: str) -> str:
    return openai(f"[{{'type': 'extra_forbidden', 'loc': {loc}, 'msg': 'Extra inputs are not permitted', 'input': 1}}]")


def pointed_by_gemini(name: str, place: str) -> str:
    message = f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."
    violations = [{"field": place, "description": message}]
    return gemini(400, "INVALID_ARGUMENT", message, {"@type": "BadRequest", "fieldViolations": violations})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (openai("Unknown parameter: 'tools[0].temperature'."), None),
        (openai("Unknown parameter: tools[0].temperature is not supported."), None),
        (openai("no", "unknown_parameter", param="tools[0].temperature"), None),
        (openai("no", "unknown_parameter", param="#/tools/0/temperature"), None),
        (openai("no", "unknown_parameter", param="#/temperature"), "temperature"),
        (openai("no", "unknown_parameter", param="stop[0]"), "stop"),
        (openai("Unknown parameter: 'body.seed'."), "seed"),
        (openai("options.seed is not supported"), "seed"),
        (anthropic("invalid_request_error", "tools.0.custom.temperature: Extra inputs are not permitted"), None),
        (pointed_by_gemini("temperature", "tools[0]"), None),
        (pointed_by_gemini("temperature", "generation_config"), "temperature"),
        (pointed_by_gemini("temperature", ""), "temperature"),
        (pointed_by_gemini("levels", "generation_config.thinking_config"), "generationConfig.thinkingConfig"),
        (openai("Unknown name \"seed\" at 'tools[0]': Cannot find field."), None),
        (openai("Unknown name \"seed\" at 'generationConfig': Cannot find field."), "seed"),
        (openai('Unknown name "seed": Cannot find field.'), "seed"),
        (located("body", "response_format", "temperature"), None),
        (located("body", "tools", 0, "temperature"), None),
        (located("body", "stop", 0), "stop"),
        (told_by_vllm("('body', 'response_format', 'temperature')"), None),
        (told_by_vllm("('body', 'tools', 0, 'temperature')"), None),
        (told_by_vllm("('body', 'temperature')"), "temperature"),
        (openai("Malformed input request: #: extraneous key [seed] is not permitted, please reformat"), "seed"),
        (openai("Malformed input request: #/tools/0: extraneous key [seed] is not permitted, please reformat"), None),
        (openai("body.seed: property 'body.seed' is unsupported", "wrong_api_format"), "seed"),
        (openai("body.tools.0.seed: property 'body.tools.0.seed' is unsupported", "wrong_api_format"), None),
        (openai("'temperature' is not supported here", "unsupported_parameter", param="tools"), None),
        (openai("Unsupported value: 'none'.", "unsupported_value", param="tools"), None),
        (openai("'temperature' is not supported here", "unsupported_parameter", param="None"), "temperature"),
    ],
)
def test_a_field_inside_another_is_none_of_ours(body: str, field: str | None) -> None:
    """A tool's or a schema's own `temperature` once cost all later requests theirs, and the refusal stayed."""
    assert rejected_field(failed(400, {}, body, 0.0), OPTIONAL) == field


@pytest.mark.parametrize(
    "text",
    [
        "'temperature' is not supported when reasoning effort is not none",
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "'stop' sequences longer than 4 are not supported",
        "'stop' is not supported when 'tools' is set",
        "`temperature` may only be set to 1 when thinking is enabled.",
        "'stop' is not supported if streaming is on",
        "'stop' is not supported while thinking",
        "'stop' is not supported without tools",
        "Either 'stop' or 'seed' is supported",
        "'stop' is only supported up to 4 sequences",
        "'stop' and 'seed' are mutually exclusive",
        "'stop' is not supported using response_format",
        "'stop' is not supported unless n is 1",
        "'stop' and 'seed' are not supported together",
        "'stop' and 'seed' are not supported at the same time.",
        "'stop' is not supported in combination with 'seed'",
        "'stop' is only supported with at most 4 sequences",
        "More than 4 entries of 'stop' are not supported",
        "Too many 'stop' sequences are not supported",
        "'temperature' is not supported with tools.",
        "'temperature' is not supported with extended thinking",
        "'temperature' is not supported in JSON mode",
        "You can only set only one of thinking budget and thinking level.",
        "Thinking_config.include_thoughts is only enabled when thinking is enabled.",
    ],
)
def test_a_refusal_under_a_condition_teaches_nothing(text: str) -> None:
    """Two fields that did not go together once cost every later request its temperature, with or without the other."""
    assert not holds_always(failed(400, {}, openai(text), 0.0))


@pytest.mark.parametrize(
    "text",
    [
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is "
        "supported.",
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "'temperature' is not supported with reasoning models.",
        "Unsupported value: 'none' is not supported with the 'o3' model.",
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        "'seed' is not supported. If you believe this is an error, contact us.",
        "temperature: Extra inputs are not permitted",
        "`temperature` is deprecated for this model.",
        "Budget 0 is invalid. This model only works in thinking mode.",
        "'stop' and 'seed' are not currently supported with this model",
        '"m" does not support thinking',
        "",
    ],
)
def test_a_refusal_without_one_holds_for_all_requests(text: str) -> None:
    """It is remembered: else each request of a night would be refused once."""
    assert holds_always(failed(400, {}, openai(text), 0.0))


def test_a_field_bound_to_a_value_is_known_by_the_value_alone() -> None:
    """OpenAI quotes the effort that a model lacks, and not what it is an effort of."""
    words = Words(("unsupported_value",), "Unsupported value: 'none' is not supported.", formed=True)
    fault = Fault(Kind.STATUS, status=400, words=words)
    assert rejected_field(fault, {"seed": ("seed",), 'think="none"': ("think",)}) == 'think="none"'
    assert rejected_field(fault, {"seed": ("seed",), 'think="low"': ("think",)}) is None
