"""Anthropic's protocol: what a host that speaks it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from config.stages import Stage, Takes
from tests.worker.providers.asking import MESSAGES
from worker.failover.provider import Call
from worker.failover.request import Image, Request
from worker.providers.anthropic import Anthropic

PLAIN = {"model": "m", "messages": MESSAGES, "max_tokens": 100, "stream": True}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def stage(model: str = "m", base_url: str = "https://api.anthropic.com", **fields: Any) -> Stage:
    return Stage("s", "anthropic", base_url, model, **{"timeout": 30.0, **fields})


def call(of: Stage, tokens: int = 100, dropped: frozenset[str] = frozenset(), **request: Any) -> Call:
    return Call(of, Request(**{"messages": MESSAGES, **request}), tokens, dropped)


def sent(of: Stage, tokens: int = 100, dropped: frozenset[str] = frozenset(), **request: Any) -> dict[str, Any]:
    return Anthropic().payload(call(of, tokens, dropped, **request))


def beside(of: Stage, tokens: int = 100, **request: Any) -> dict[str, Any]:
    """What a wish adds to the plain question."""
    plain = sent(of, tokens)
    return {name: value for name, value in sent(of, tokens, **request).items() if plain.get(name) != value}


def test_a_plain_question() -> None:
    assert sent(stage()) == PLAIN


def test_everything_a_request_may_ask() -> None:
    """By the names of the protocol, which has no seed."""
    asked = sent(stage(), temperature=0.5, stop=("a", " \n", "b"), seed=1, response_schema=SCHEMA)
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert asked == {**PLAIN, "temperature": 0.5, "stop_sequences": ["a", "b"], "output_config": config}


def test_what_a_stage_does_not_take_is_left_out() -> None:
    """A schema is told in the prompt then."""
    takes = Takes(temperature=False, stop=False, reasoning=False, response_schema=False)
    found = sent(stage("claude-opus-5", takes=takes), temperature=0.5, stop=("a",), reasoning="none")
    assert found == {**PLAIN, "model": "claude-opus-5"}
    told = sent(stage(takes=takes), response_schema=SCHEMA)
    assert json.dumps(SCHEMA, separators=(",", ":")) in told.pop("system")
    assert told == PLAIN


@pytest.mark.parametrize(
    ("of", "schema"), [(stage("claude-3-opus-20240229"), SCHEMA), (stage(), {"type": "integer", "minimum": 1})]
)
def test_a_schema_that_would_be_refused_is_told_in_the_prompt(of: Stage, schema: Mapping[str, Any]) -> None:
    """For the model's age, or for its own words."""
    found = sent(of, response_schema=schema)
    assert "output_config" not in found
    assert json.dumps(schema, separators=(",", ":")) in found["system"]


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
        ("https://gateway.example/v2beta", "https://gateway.example/v2beta/messages"),
        ("http://v1", "http://v1/v1/messages"),
    ],
)
def test_a_version_in_the_base_url_is_kept(base_url: str, url: str) -> None:
    """Both spellings are common."""
    assert Anthropic().url(call(stage(base_url=base_url))) == url


def test_the_version_is_the_stages_own() -> None:
    """The newest one refuses what the older ones take, so it is never changed behind a stage's back."""
    assert Anthropic().headers(stage()) == {"anthropic-version": "2023-06-01"}
    of = stage(api_version="2026-10-21", api_key=SecretStr("k"))
    assert Anthropic().headers(of) == {"anthropic-version": "2026-10-21", "x-api-key": "k"}


@pytest.mark.parametrize(
    ("of", "given", "expected"),
    [
        (stage(), 0.0, 0.0),
        (stage(), 1.7, 1.0),
        (stage("claude-sonnet-4-6"), 0.2, 0.2),
        (stage("claude-opus-4-7"), 0.2, None),
        (stage("anthropic/claude-opus-5"), 0.2, None),
        (stage("claude-haiku-5-5"), 0.2, None),
        (stage(api_version="2026-10-21"), 0.2, None),
        (stage(api_version="2027-01-01"), 0.2, None),
        (stage(takes=Takes(temperature=False)), 0.2, None),
        (stage(params={"thinking": {"type": "enabled", "budget_tokens": 2000}}), 0.2, None),
        (stage(params={"thinking": {"type": "disabled"}}), 0.2, 0.2),
    ],
)
def test_a_temperature_is_sent_where_it_is_taken(of: Stage, given: float, expected: float | None) -> None:
    """From 0 to 1; no new model takes one, none does while it thinks, and the newest version has none at all."""
    assert sent(of, temperature=given).get("temperature") == expected


def test_messages_take_turns_and_the_user_begins() -> None:
    """Every other order is refused; what stands of the system goes to its own field, wherever it stood."""
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Why?"},
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Say."},
        {"role": "user", "content": " "},
        {"role": "assistant", "content": "Because \n"},
    ]
    found = sent(stage(), messages=messages)
    assert found["system"] == "Be kind.\n\nBe short."
    assert found["messages"] == [
        {"role": "user", "content": "Continue."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Why?\n\nSay."},
        {"role": "assistant", "content": "Because"},
    ]
    assert sent(stage(), messages=messages[:1])["messages"] == [{"role": "user", "content": "Continue."}]


@pytest.mark.parametrize(
    ("model", "reasoning", "last"),
    [
        ("claude-sonnet-4-5", None, "assistant"),
        ("claude-sonnet-4-5", "low", "user"),
        ("claude-sonnet-4-6", None, "user"),
        ("claude-opus-5-5", None, "user"),
        ("m", None, "assistant"),
    ],
)
def test_the_user_has_the_last_word_where_it_must(model: str, reasoning: str | None, last: str) -> None:
    """No model goes on from its own words while it thinks, and none since 4.6 at all: each refused with 400."""
    messages = [*MESSAGES, {"role": "assistant", "content": "Because"}]
    found = sent(stage(model), 8000, messages=messages, reasoning=reasoning)["messages"]
    assert found[:2] == messages
    assert found[-1]["role"] == last


def test_images_stand_before_the_users_last_words() -> None:
    """As blocks of bytes."""
    messages = [*MESSAGES, {"role": "assistant", "content": "Because."}]
    found = sent(stage(), messages=messages, images=[Image("image/png", "QUJD")])
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": "Why?"}]
    assert found["messages"] == [{"role": "user", "content": blocks}, messages[1]]
    newer = sent(stage("claude-opus-5-5"), messages=messages, images=[Image("image/png", "QUJD")])
    assert newer["messages"][:2] == found["messages"]


LOW = {"output_config": {"effort": "low"}}
DISABLED = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("claude-2.1", {}),
        ("claude-3-5-haiku-20241022", {}),
        ("claude-3-7-sonnet-20250219", {}),
        ("claude-sonnet-4-20250514", {}),
        ("claude-opus-4-5-20251101", {}),
        ("claude-opus-4-8", {}),
        ("claude-opus-5", DISABLED),
        ("claude-opus-5-20260601", DISABLED),
        ("claude-sonnet-5", DISABLED),
        ("claude-haiku-5-5", DISABLED),
        ("anthropic/claude-haiku-5.5", DISABLED),
        ("claude-sonnet-5-5", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", LOW),
        ("claude-fable-5", LOW),
        ("claude-fable-5-1", LOW),
        ("claude-opus-6", DISABLED),
        ("deepseek-chat", DISABLED),
    ],
)
def test_no_reasoning_is_the_least_that_a_model_can_do(model: str, fields: Mapping[str, Any]) -> None:
    """The old ones do not think unasked, some of the new ones cannot be stopped."""
    assert beside(stage(model), reasoning="none") == fields
    assert beside(stage(model)) == {}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("model", "wanted", "tokens", "fields"),
    [
        ("claude-opus-5-5", "high", 100, {"output_config": {"effort": "high"}}),
        ("claude-sonnet-5", "medium", 100, {"output_config": {"effort": "medium"}}),
        ("claude-sonnet-4-6", "low", 100, {**LOW, "thinking": {"type": "adaptive"}}),
        ("claude-opus-4-7", "low", 100, {**LOW, "thinking": {"type": "adaptive"}}),
        ("claude-opus-4-5", "low", 8000, {**LOW, **budget(2048)}),
        ("claude-sonnet-4-5", "low", 8000, budget(2048)),
        ("claude-sonnet-4-5", "medium", 40_000, budget(10_000)),
        ("claude-sonnet-4-5", "high", 40_000, budget(16_384)),
        ("claude-sonnet-4-5", "high", 8000, budget(4000)),
        ("claude-3-7-sonnet-20250219", "low", 2048, budget(1024)),
        ("claude-3-7-sonnet-20250219", "low", 2047, {}),
        ("claude-3-5-haiku-20241022", "high", 8000, {}),
        ("glm-5", "low", 8000, budget(2048)),
    ],
)
def test_reasoning_is_asked_for_in_the_models_words(
    model: str, wanted: str, tokens: int, fields: Mapping[str, Any]
) -> None:
    """A budget is part of the output's limit and leaves half of it to the answer, or there is none."""
    assert beside(stage(model), tokens, reasoning=wanted) == fields


def test_a_field_that_is_refused_can_be_done_without() -> None:
    """An effort or a way to think by its value: the model has others. The schema beside it stays."""
    of = stage("claude-opus-5-5", params={"top_k": 3})
    asked = call(of, reasoning="none", response_schema=SCHEMA, stop=("a",))
    names = set(Anthropic().optional(asked))
    assert names == {"stop_sequences", 'output_config.effort="low"', "top_k"}
    found = sent(of, 100, frozenset(names), reasoning="none", response_schema=SCHEMA, stop=("a",))
    assert found == {
        **PLAIN,
        "model": of.model,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }
    names = set(Anthropic().optional(call(stage("claude-opus-5"), reasoning="none")))
    assert names == {'thinking={"type":"disabled"}'}
    thinking = Anthropic().optional(call(stage("claude-sonnet-4-5"), 8000, reasoning="high"))
    assert set(thinking) == {'thinking={"type":"enabled"}'}  # not with a budget that is half of any caller's limit


def test_no_param_reaches_what_a_stage_is_for() -> None:
    """The rest of them goes on top, the request's on the stage's."""
    bad = {"model": "dear", "messages": [], "system": "Obey.", "max_tokens": 9999, "stream": False}
    of = stage(params={**bad, "top_k": 1, "top_p": 0.1, "output_config": {"format": None, "x": 1}})
    found = sent(of, params={"s": {**bad, "top_p": 0.2}, "other": {"top_k": 9}}, response_schema=SCHEMA)
    config = {"format": {"type": "json_schema", "schema": SCHEMA}, "x": 1}
    assert found == {**PLAIN, "top_k": 1, "top_p": 0.2, "output_config": config}
    assert sent(stage(params={"output_config": "none"}))["output_config"] == "none"
