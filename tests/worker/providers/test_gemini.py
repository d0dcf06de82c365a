"""Gemini's protocol: what a host is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from config.stages import Stage, Takes
from tests.hosts import Host
from tests.worker.providers.asking import MESSAGES, reply, stage_at
from worker.failover import judge
from worker.failover.attempt import Usage
from worker.failover.provider import Call
from worker.failover.request import Image, Request
from worker.providers.gemini import Gemini
from worker.providers.replies import failed

GOOGLE = "https://generativelanguage.googleapis.com"
PLAIN = {
    "contents": [{"role": "user", "parts": [{"text": "Why?"}]}],
    "generationConfig": {"maxOutputTokens": 100},
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
IMAGE = Image("image/png", "QUJD")


def stage(base_url: str = GOOGLE, **fields: Any) -> Stage:
    return Stage("s", "gemini", **{"base_url": base_url, "model": "gemini-3-flash", **fields})


def call(of: Stage, dropped: frozenset[str] = frozenset(), **request: Any) -> Call:
    return Call(of, Request(**{"messages": MESSAGES, **request}), 100, dropped)


def sent(of: Stage, dropped: frozenset[str] = frozenset(), **request: Any) -> dict[str, Any]:
    return Gemini().payload(call(of, dropped, **request))


def config(of: Stage, **request: Any) -> dict[str, Any]:
    """What a wish adds to the plain configuration of an answer."""
    found = dict(sent(of, **request)["generationConfig"])
    assert found.pop("maxOutputTokens") == 100
    return found


def test_a_plain_question() -> None:
    """Nothing that nobody asked for, and always a limit."""
    assert sent(stage()) == PLAIN


def test_everything_a_request_may_ask() -> None:
    """By the names of its interface; more than five texts to stop at are refused."""
    asked = config(stage(), temperature=0.0, stop=tuple("abcdef"), seed=0, reasoning="low")
    assert asked == {
        "temperature": 0.0,
        "stopSequences": list("abcde"),
        "seed": 0,
        "thinkingConfig": {"thinkingLevel": "low"},
    }


def test_what_a_stage_does_not_take_is_left_out() -> None:
    """The flags are there so that no call is spent on finding it out."""
    takes = Takes(temperature=False, stop=False, seed=False, reasoning=False)
    assert sent(stage(takes=takes), temperature=0.0, stop=("a",), seed=0, reasoning="low") == PLAIN


def test_a_conversation_has_two_roles_that_take_turns() -> None:
    """What the system says stands apart, texts of one role are parts of one turn, and an empty part is refused."""
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "there"},
        {"role": "assistant", "content": "Hello"},
        {"role": "assistant", "content": ""},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What is this?"},
        {"role": "assistant", "content": "It"},
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    asked = sent(stage(), messages=messages, images=[IMAGE])
    assert asked["systemInstruction"] == {"parts": [{"text": "Be short."}, {"text": "Be kind."}]}
    assert asked["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}, {"text": "there"}]},
        {"role": "model", "parts": [{"text": "Hello"}]},
        {"role": "user", "parts": [{"text": "What is this?"}, picture]},
        {"role": "model", "parts": [{"text": "It"}]},
    ]


LEVELS = [{"thinkingLevel": level} for level in ("low", "medium", "high")]
BUDGETS = [{"thinkingBudget": tokens} for tokens in (2048, 8192, 24_576)]


@pytest.mark.parametrize(
    ("model", "none", "more"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}, BUDGETS),
        ("models/gemini-2.5-flash-lite", {"thinkingBudget": 0}, BUDGETS),
        ("gemini-2.5-pro", {"thinkingBudget": 128}, BUDGETS),
        ("gemini-3-flash-preview", {"thinkingLevel": "minimal"}, LEVELS),
        ("gemini-3.1-flash-lite", {"thinkingLevel": "minimal"}, LEVELS),
        ("gemini-3-pro-preview", {"thinkingLevel": "low"}, LEVELS),
        ("gemini-3.1-pro", {"thinkingLevel": "low"}, LEVELS),
        ("gemini-3.7-flash", {"thinkingLevel": "low"}, LEVELS),
        ("gemini-4-flash", {"thinkingLevel": "low"}, LEVELS),
        ("gemini-flash-latest", {"thinkingLevel": "low"}, LEVELS),
        ("gemini-2.0-flash", None, [None] * 3),
        ("gemini-1.5-pro", None, [None] * 3),
        ("gemma-3-27b-it", None, [None] * 3),
    ],
)
def test_thinking_is_asked_for_in_the_models_own_terms(model: str, none: Any, more: list[Any]) -> None:
    """Levels or a budget, never both, which is refused; off where it can be, and as near to that as it goes."""
    of = stage(model=model)
    asked = [config(of, reasoning=effort).get("thinkingConfig") for effort in ("none", "low", "medium", "high")]
    assert asked == [none, *more]
    assert config(of, reasoning=None) == {}


def test_a_schema_is_sent_or_told_in_the_prompt() -> None:
    """No param puts another one beside it, which is refused."""
    native = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert config(stage(), response_schema=SCHEMA) == native
    other = stage(params={"generationConfig": {"responseSchema": {}, "responseMimeType": "text/plain"}})
    assert config(other, response_schema=SCHEMA) == native
    assert config(other) == {"responseSchema": {}, "responseMimeType": "text/plain"}
    told = sent(stage(takes=Takes(response_schema=False)), response_schema=SCHEMA)
    (part,) = told.pop("systemInstruction")["parts"]
    assert json.dumps(SCHEMA, separators=(",", ":")) in part["text"]
    assert told == PLAIN


@pytest.mark.parametrize(
    ("schema", "native"),
    [
        ({"oneOf": [SCHEMA, {"type": "null"}]}, True),
        ({**SCHEMA, "title": "T", "$schema": "https://json-schema.org/draft/2020-12/schema"}, True),
        (
            {"type": "object", "properties": {"not": SCHEMA, "if": True}, "additionalProperties": {"type": "string"}},
            True,
        ),
        ({"$ref": "#/$defs/N", "$defs": {"N": SCHEMA}}, True),
        ({"allOf": [SCHEMA]}, False),
        ({"type": "array", "items": {"not": SCHEMA}}, False),
        ({"anyOf": [{"if": SCHEMA, "then": SCHEMA}]}, False),
        ({"type": "object", "additionalProperties": {"patternProperties": {"a": SCHEMA}}}, False),
        ({"type": "object", "properties": {"more": {"$ref": "#"}}}, False),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"more": {"$ref": "#/$defs/N"}}}}}, False),
    ],
)
def test_a_schema_that_google_is_known_to_refuse_is_told_in_the_prompt(schema: Mapping[str, Any], native: bool) -> None:
    """It takes more than a list of keywords says, so only what it does refuse is kept from it."""
    asked = sent(stage(), response_schema=schema)
    assert (asked["generationConfig"].get("responseJsonSchema") == schema) is native
    assert ("systemInstruction" in asked) is not native


def test_params_reach_the_configuration_one_by_one() -> None:
    """A request's go on top of the stage's; both spellings of a name are the same field to Google."""
    of = stage(params={"safetySettings": [], "generation_config": {"top_k": 1, "topP": 0.1}})
    asked = sent(of, params={"s": {"generationConfig": {"top_p": 0.2}}})
    assert asked == {
        **PLAIN,
        "safetySettings": [],
        "generationConfig": {"topK": 1, "topP": 0.2, "maxOutputTokens": 100},
    }


@pytest.mark.parametrize(
    "own",
    [
        {"contents": [], "systemInstruction": {}, "model": "models/dear", "stream": False},
        {"system_instruction": {}, "generationConfig": {"maxOutputTokens": 9999, "candidateCount": 8}},
        {"generation_config": {"max_output_tokens": 9999, "candidate_count": 8}},
        {"generationConfig": None},
    ],
)
def test_no_param_reaches_what_a_stage_is_for(own: Mapping[str, Any]) -> None:
    """Other messages, eight answers, or no limit by the limit's other spelling."""
    assert sent(stage(), params={"s": own}) == sent(stage(params=own)) == PLAIN


def test_a_level_and_a_budget_of_thinking_never_meet() -> None:
    """Together they are refused: the one that is given replaces ours, and what is no effort joins it."""
    own = {"s": {"generationConfig": {"thinkingConfig": {"thinking_budget": 512}}}}
    assert config(stage(), reasoning="low", params=own) == {"thinkingConfig": {"thinkingBudget": 512}}
    own = {"s": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}}
    both = {"thinkingLevel": "low", "includeThoughts": True}
    assert config(stage(), reasoning="low", params=own) == {"thinkingConfig": both}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Thinking level is not supported for this model.", 'generationConfig.thinkingConfig={"thinkingLevel":"low"}'),
        ("Unknown name \"thinkingLevel\" at 'generation_config.thinking_config': Cannot find field.",
         'generationConfig.thinkingConfig={"thinkingLevel":"low"}'),
        ("Unknown name \"stopSequences\" at 'generation_config': Cannot find field.", "generationConfig.stopSequences"),
        ("Unknown name \"seed\" at 'generation_config': Cannot find field.", "generationConfig.seed"),
        ("Unknown name \"topK\" at 'generation_config': Cannot find field.", "generationConfig.topK"),
        ("Unknown name \"max_output_tokens\" at 'generation_config': Cannot find field.", None),
        ("Unable to submit request: generation_config is invalid.", None),
    ],
)  # fmt: skip
def test_a_field_that_is_refused_is_found_by_googles_words(message: str, field: str | None) -> None:
    """Never all of the configuration, in which the limit stands."""
    wishes = {"temperature": 0.5, "stop": ("a",), "seed": 1, "reasoning": "low"}
    asked = call(stage(params={"generation_config": {"top_k": 1}}), **wishes)
    fault = failed(400, {}, json.dumps({"error": {"code": 400, "message": message}}), 0.0)
    names = Gemini().optional(asked)
    assert judge.rejected_field(fault, names) == field
    left = Gemini().payload(Call(asked.stage, asked.request, 100, frozenset(names)))
    assert left == PLAIN


@pytest.mark.parametrize(
    ("base_url", "start"),
    [
        (GOOGLE, f"{GOOGLE}/v1beta/"),
        (f"{GOOGLE}/", f"{GOOGLE}/v1beta/"),
        (f"{GOOGLE}/v1beta", f"{GOOGLE}/v1beta/"),
        (f"{GOOGLE}/v1", f"{GOOGLE}/v1/"),
        (f"{GOOGLE}/v1alpha/", f"{GOOGLE}/v1alpha/"),
        ("https://gate.lan/google/v1/projects/p/publishers/google",) * 2,
        ("https://gate.lan/v1x-mirror", "https://gate.lan/v1x-mirror/v1beta/"),
    ],
)
def test_a_version_is_put_into_the_address_where_it_has_none(base_url: str, start: str) -> None:
    """Whoever configures a stage copies the address with it or without."""
    found = Gemini().url(call(stage(base_url)))
    assert found == f"{start.rstrip('/')}/models/gemini-3-flash:streamGenerateContent?alt=sse"


def test_a_models_name_never_leaves_its_place_in_the_address() -> None:
    """It may come as Google lists it, and it is a stranger's text."""
    assert (
        Gemini()
        .url(call(stage(model="models/gemini-3-flash", stream=False)))
        .endswith("/v1beta/models/gemini-3-flash:generateContent")
    )
    odd = Gemini().url(call(stage(model="../a?b#c d")))
    assert odd == f"{GOOGLE}/v1beta/models/..%2Fa%3Fb%23c%20d:streamGenerateContent?alt=sse"


def test_the_key_stands_in_its_header_and_never_in_the_address() -> None:
    """Addresses are what proxies write down."""
    of = stage(api_key=SecretStr("canary"))
    assert Gemini().headers(of) == {"x-goog-api-key": "canary"}
    assert Gemini().headers(stage()) == {}
    assert "canary" not in Gemini().url(call(of))


def test_what_is_built_is_what_is_sent(host: Host) -> None:
    """To the one path, word for word."""
    url = host.gemini("ok")
    assert reply(stage_at(url, "gemini"), temperature=0.5).text
    (seen,) = host.calls(url)
    assert seen.path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert seen.body == {**PLAIN, "generationConfig": {"maxOutputTokens": 100, "temperature": 0.5}}


def test_a_stage_that_does_not_stream_is_asked_for_one_piece(host: Host) -> None:
    """And its answer is read as well, with all that it counts."""
    url = host.gemini("thinking")
    found = reply(stage_at(url, "gemini", stream=False))
    assert host.calls(url)[0].path == "/v1beta/models/m:generateContent"
    assert (found.text, found.usage) == ("Hello from the scripted host.", Usage(1, 11, 6))
