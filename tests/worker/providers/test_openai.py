"""OpenAI's protocol: what each host that speaks it is sent."""

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
from worker.providers.openai import OpenAI

OPENAI = "https://api.openai.com/v1"
AZURE = "https://mine.openai.azure.com/openai/v1"
DEEPSEEK = "https://api.deepseek.com"
OPENROUTER = "https://openrouter.ai/api/v1"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
OTHER = "http://127.0.0.1:8000/v1"

PLAIN = {
    "model": "m",
    "messages": MESSAGES,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 100,
}
OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STRICT = {**OPEN, "additionalProperties": False}
IMAGE = Image("image/png", "QUJD")


def stage(base_url: str = OTHER, **fields: Any) -> Stage:
    return Stage("s", "openai", **{"base_url": base_url, "model": "m", "timeout": 30.0, **fields})


def call(of: Stage, dropped: frozenset[str] = frozenset(), **request: Any) -> Call:
    return Call(of, Request(**{"messages": MESSAGES, **request}), 100, dropped)


def sent(of: Stage, dropped: frozenset[str] = frozenset(), **request: Any) -> dict[str, Any]:
    return OpenAI().payload(call(of, dropped, **request))


def beside(of: Stage, **request: Any) -> dict[str, Any]:
    """What a wish adds to the plain question."""
    plain = sent(of)
    return {name: value for name, value in sent(of, **request).items() if plain.get(name) != value}


def test_a_plain_question() -> None:
    """Streamed, with the usage that only comes when it is asked for; nothing that nobody asked for."""
    assert sent(stage()) == PLAIN


def test_everything_a_request_may_ask() -> None:
    """By the names of the protocol."""
    asked = sent(stage(), temperature=0.0, stop=("a", "b"), seed=0, reasoning="low")
    assert asked == {**PLAIN, "temperature": 0.0, "stop": ["a", "b"], "seed": 0, "reasoning_effort": "low"}


def test_what_a_stage_does_not_take_is_left_out() -> None:
    """The flags are there so that no call is spent on finding it out."""
    takes = Takes(temperature=False, stop=False, seed=False, reasoning=False)
    assert sent(stage(takes=takes), temperature=0.0, stop=("a",), seed=0, reasoning="low") == PLAIN


@pytest.mark.parametrize(
    ("base_url", "name", "other"),
    [
        (OPENAI, "max_completion_tokens", "max_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens", "max_tokens"),
        (AZURE, "max_completion_tokens", "max_tokens"),
        ("https://x.services.ai.azure.com/openai/v1", "max_completion_tokens", "max_tokens"),
        ("https://notopenai.com/v1", "max_tokens", "max_completion_tokens"),
        ("https://api.openai.com.example.com/v1", "max_tokens", "max_completion_tokens"),
        (OPENROUTER, "max_tokens", "max_completion_tokens"),
        (DEEPSEEK, "max_tokens", "max_completion_tokens"),
        (GEMINI, "max_tokens", "max_completion_tokens"),
        (OTHER, "max_tokens", "max_completion_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_the_host_knows(base_url: str, name: str, other: str) -> None:
    """OpenAI's newer models refuse the old name, those who imitate it know only that one. One that refuses a name is
    asked with the other, and there is always one: without a limit an answer may never end."""
    of = stage(base_url)

    def limits(*dropped: str) -> dict[str, Any]:
        return {key: value for key, value in sent(of, frozenset(dropped)).items() if "max" in key}

    assert limits() == limits(other) == limits(name, other) == {name: 100}
    assert limits(name) == {other: 100}


def test_a_limit_can_be_done_without_in_one_spelling_only() -> None:
    """Once both are refused it is not the spelling, and dropping it again would never end."""
    asked = call(stage())
    assert "max_tokens" in OpenAI().optional(asked)
    assert "max_completion_tokens" not in OpenAI().optional(asked)
    for refused, left in (
        ({"max_tokens"}, {"max_completion_tokens"}),
        ({"max_tokens", "max_completion_tokens"}, set()),
    ):
        found = OpenAI().optional(call(stage(), frozenset(refused)))
        assert {name for name in found if "max" in name} == left


@pytest.mark.parametrize(
    ("base_url", "model", "fields"),
    [
        (OPENAI, "gpt-5.1", {"reasoning_effort": "none"}),
        (OPENAI, "gpt-5.4-mini-2026-03-01", {"reasoning_effort": "none"}),
        (OPENAI, "gpt-6-luna", {"reasoning_effort": "none"}),
        (OPENAI, "gpt-6-astra", {"reasoning_effort": "low"}),
        (OPENAI, "gpt-5", {"reasoning_effort": "minimal"}),
        (OPENAI, "gpt-5-mini-2025-08-07", {"reasoning_effort": "minimal"}),
        (OPENAI, "gpt-5-pro", {}),
        (OPENAI, "gpt-5.2-pro", {"reasoning_effort": "medium"}),
        (OPENAI, "o3-pro", {"reasoning_effort": "low"}),
        (OPENAI, "gpt-5.1-codex-max", {"reasoning_effort": "low"}),
        (OPENAI, "gpt-5.3-codex", {"reasoning_effort": "none"}),
        (OPENAI, "gpt-5.2-chat-latest", {}),
        (OPENAI, "gpt-5-chat-latest", {}),
        (OPENAI, "o3", {"reasoning_effort": "low"}),
        (OPENAI, "o4-mini-2025-04-16", {"reasoning_effort": "low"}),
        (OPENAI, "gpt-4o", {}),
        (OPENAI, "gpt-4.1-nano", {}),
        (AZURE, "gpt-35-turbo", {}),
        (OTHER, "openai/gpt-4o", {}),
        (OTHER, "openai/gpt-oss-120b", {"reasoning_effort": "low"}),
        (OTHER, "Qwen/Qwen3-8B", {"reasoning_effort": "none"}),
        (DEEPSEEK, "deepseek-chat", {"thinking": {"type": "disabled"}}),
        (OPENROUTER, "openai/gpt-4o", {}),
        (OPENROUTER, "openai/gpt-5.5", {"reasoning": {"effort": "none"}}),
        (GEMINI, "gemini-2.5-flash", {"reasoning_effort": "none"}),
        (GEMINI, "models/gemini-2.5-flash-lite", {"reasoning_effort": "none"}),
        (GEMINI, "gemini-2.5-pro", {"reasoning_effort": "minimal"}),
        (GEMINI, "gemini-3.5-flash", {"reasoning_effort": "minimal"}),
        (GEMINI, "gemini-2.0-flash", {}),
    ],
)
def test_no_reasoning_is_the_least_that_a_model_can_do(base_url: str, model: str, fields: Mapping[str, Any]) -> None:
    """Off where it can be switched off, nearly off where it cannot, and nothing said where the word is refused."""
    assert beside(stage(base_url, model=model), reasoning="none") == fields
    assert beside(stage(base_url, model=model), reasoning=None) == {}


@pytest.mark.parametrize(
    ("base_url", "model", "fields"),
    [
        (OPENAI, "gpt-5.1", {"reasoning_effort": "medium"}),
        (OPENAI, "o4-mini", {"reasoning_effort": "medium"}),
        (AZURE, "my-deployment", {"reasoning_effort": "medium"}),
        (GEMINI, "gemini-2.5-pro", {"reasoning_effort": "medium"}),
        (OTHER, "Qwen/Qwen3-8B", {"reasoning_effort": "medium"}),
        (DEEPSEEK, "deepseek-chat", {"thinking": {"type": "enabled"}, "reasoning_effort": "medium"}),
        (OPENROUTER, "anthropic/claude-opus-5", {"reasoning": {"effort": "medium"}}),
    ],
)
def test_reasoning_is_asked_for_in_the_hosts_words(base_url: str, model: str, fields: Mapping[str, Any]) -> None:
    assert beside(stage(base_url, model=model), reasoning="medium") == fields


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        (OPENAI, "gpt-4.1"),
        (OPENAI, "gpt-4o-2024-08-06"),
        (OPENAI, "ft:gpt-4o-mini-2024-07-18:mine::abc"),
        (OPENAI, "chatgpt-4o-latest"),
        (OPENAI, "gpt-3.5-turbo"),
        (OPENAI, "gpt-5-chat-latest"),
        (OPENAI, "gpt-5.2-chat-latest"),
        (OPENAI, "o1-mini"),
        (AZURE, "gpt-35-turbo"),
        (AZURE, "Meta-Llama-3.1-70B-Instruct"),
        (GEMINI, "models/gemini-2.0-flash"),
        (GEMINI, "gemma-3-27b-it"),
        (OPENROUTER, "openai/gpt-4o"),
        (OTHER, "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)
def test_a_model_that_does_not_think_is_never_asked_to(base_url: str, model: str) -> None:
    """It refuses every effort: each one cost a call, and told a person that the stage had lost a field."""
    for wanted in ("none", "low", "medium", "high"):
        assert beside(stage(base_url, model=model), reasoning=wanted) == {}


def test_an_effort_that_a_model_lacks_is_not_asked_for() -> None:
    """The pro models know few of them, and GPT-5's a single one."""
    for model, known in (("gpt-5-pro", ["high"]), ("gpt-5.4-pro", ["medium", "high"])):
        of = stage(OPENAI, model=model)
        found = [beside(of, reasoning=wanted).get("reasoning_effort") for wanted in ("low", "medium", "high")]
        assert [effort for effort in found if effort] == known


ALL = {"temperature": 0.5, "stop": ("a",), "seed": 1}


@pytest.mark.parametrize(
    ("base_url", "model", "reasoning", "sent_too"),
    [
        (OPENAI, "gpt-4o", None, {"temperature", "stop", "seed"}),
        (OPENAI, "gpt-4o", "high", {"temperature", "stop", "seed"}),
        (OPENAI, "gpt-5-chat-latest", None, {"temperature", "stop", "seed"}),
        (OPENAI, "gpt-5", None, {"seed"}),
        (OPENAI, "gpt-5-nano", "none", {"seed"}),
        (OPENAI, "gpt-5.1", None, {"temperature", "seed"}),
        (OPENAI, "gpt-5.1", "none", {"temperature", "seed"}),
        (OPENAI, "gpt-5.1", "low", {"seed"}),
        (OPENAI, "gpt-5.2-chat-latest", None, {"seed"}),
        (OPENAI, "gpt-5.5", None, {"seed"}),
        (OPENAI, "gpt-5.5", "none", {"temperature", "seed"}),
        (OPENAI, "o1", None, {"stop", "seed"}),
        (OPENAI, "o3", None, {"seed"}),
        (AZURE, "o4-mini", None, {"seed"}),
        (AZURE, "my-deployment", None, {"temperature", "stop", "seed"}),
        (AZURE, "my-deployment", "low", {"stop", "seed"}),
        (AZURE, "gpt-oss-120b", None, {"temperature", "stop", "seed"}),
        (OTHER, "o3", "high", {"temperature", "stop", "seed"}),
        (OPENROUTER, "openai/o3", None, {"temperature", "stop", "seed"}),
        (DEEPSEEK, "deepseek-chat", None, {"temperature", "stop"}),
    ],
)
def test_what_a_model_is_known_to_refuse_is_left_out(
    base_url: str, model: str, reasoning: str | None, sent_too: set[str]
) -> None:
    """On OpenAI's and Azure's own hosts: others ignore it. Each field cost a call before."""
    assert set(sent(stage(base_url, model=model), **ALL, reasoning=reasoning)) & set(ALL) == sent_too


def test_what_a_stage_is_set_to_yields_to_what_a_request_asks_for() -> None:
    """A stage's `top_p` is fine until a request makes its model think; a request's own is its caller's business."""
    of = stage(OPENAI, model="gpt-5.1", params={"top_p": 0.9, "temperature": 0.1, "user": "u"})
    plain = sent(of)
    assert (plain["top_p"], plain["temperature"], plain["user"]) == (0.9, 0.1, "u")
    assert beside(of, reasoning="low") == {"reasoning_effort": "low"}
    assert {"top_p", "temperature"}.isdisjoint(sent(of, reasoning="low"))
    assert {"top_p", "temperature"}.isdisjoint(sent(of, params={"s": {"reasoning_effort": "high"}}))
    assert sent(of, reasoning="low", params={"s": {"top_p": 0.2}})["top_p"] == 0.2
    refused = frozenset({'reasoning_effort="low"'})
    assert sent(of, refused, reasoning="low") == plain


def test_a_router_is_told_to_pick_a_host_that_takes_the_schema() -> None:
    """It would pick any, most of which ignore it; what params say to the router stays, and goes on top."""
    asked = sent(stage(OPENROUTER), response_schema=STRICT)
    assert asked["provider"] == {"require_parameters": True}
    of = stage(OPENROUTER, params={"provider": {"order": ["a"]}})
    assert sent(of, response_schema=STRICT)["provider"] == {"require_parameters": True, "order": ["a"]}
    own = {"s": {"provider": {"require_parameters": False}}}
    assert sent(of, response_schema=STRICT, params=own)["provider"] == {"require_parameters": False}
    assert sent(of, response_schema=STRICT, params={"s": {"provider": "none"}})["provider"] == "none"
    assert sent(of)["provider"] == {"order": ["a"]}
    assert "provider" not in sent(stage(OPENROUTER), response_schema={"anyOf": [STRICT]})
    assert "provider" not in sent(stage(OPENAI), response_schema=STRICT)


def test_a_field_of_the_requests_own_is_no_lesson_about_the_stage() -> None:
    """What one caller made up was remembered for all: 40 fields that nobody knows cost 41 calls, and a value of 15 kB
    became a name."""
    of = stage(params={"top_k": 1, "top_p": 0.1, "user": "u"})
    own = {"s": {"top_p": 0.2, "reasoning_effort": "x" * 15_000, "seed": 1, **{f"odd{n}": n for n in range(40)}}}
    names = set(OpenAI().optional(call(of, temperature=0.5, params=own)))
    assert names == {"temperature", "top_k", "user", "stream_options", "max_tokens"}


def test_a_long_value_is_no_part_of_a_name() -> None:
    """The field alone is remembered then, and still dropped."""
    of = stage(params={"reasoning": {"effort": "x" * 100}, "thinking": {"type": "on", "budget": 7}})
    names = OpenAI().optional(call(of))
    assert {"reasoning", 'thinking={"type":"on"}'} <= set(names)
    assert sent(of, frozenset({"reasoning", 'thinking={"type":"on"}'})) == PLAIN


def test_an_effort_is_given_up_by_its_value() -> None:
    """A model that lacks one effort has others: the next request's must not be lost with it."""
    of, names = stage(), OpenAI().optional(call(stage(), reasoning="none"))
    assert 'reasoning_effort="none"' in names
    refused = frozenset({'reasoning_effort="none"'})
    assert sent(of, refused, reasoning="none") == PLAIN
    assert sent(of, refused, reasoning="low") == {**PLAIN, "reasoning_effort": "low"}


def test_a_schema_is_sent_natively_and_strict_where_it_can_be() -> None:
    """A schema outside the strict subset is refused with `strict`, and would end the walk as the caller's fault."""
    for schema, strict in ((STRICT, True), (OPEN, False)):
        shape = {"name": "answer", "schema": schema, "strict": strict}
        expected = {"response_format": {"type": "json_schema", "json_schema": shape}}
        assert beside(stage(OPENAI), response_schema=schema) == expected


def test_deepseek_has_a_json_mode_without_a_schema() -> None:
    """So the schema is told in the prompt, which must have the word JSON in it."""
    asked = sent(stage(DEEPSEEK), response_schema=STRICT)
    assert asked["response_format"] == {"type": "json_object"}
    first, *rest = asked["messages"]
    assert first["role"] == "system"
    assert json.dumps(STRICT, separators=(",", ":")) in first["content"]
    assert "JSON" in first["content"]
    assert rest == MESSAGES


@pytest.mark.parametrize(
    ("of", "schema"),
    [
        (stage(takes=Takes(response_schema=False)), STRICT),
        (stage(OPENAI), {"type": "array", "items": {"type": "integer"}}),
        (stage(OPENROUTER), {"anyOf": [STRICT]}),
        (stage(DEEPSEEK), {"type": "integer"}),
    ],
)
def test_a_schema_that_a_stage_does_not_take_is_told_in_the_prompt(of: Stage, schema: Mapping[str, Any]) -> None:
    """OpenAI refuses every schema but that of an object; vLLM's grammar takes them all."""
    asked = sent(of, response_schema=schema)
    assert "response_format" not in asked
    assert json.dumps(schema, separators=(",", ":")) in asked["messages"][0]["content"]
    assert "response_format" in sent(stage(OTHER), response_schema=schema)


def test_images_stand_in_the_users_last_message() -> None:
    """As data URLs behind its text; the request itself stays as it was."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "What is this?"},
        {"role": "system", "content": "Be short."},
    ]
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    parts = [{"type": "text", "text": "What is this?"}, shown]
    asked = sent(stage(), messages=messages, images=[IMAGE])
    assert asked["messages"] == [*messages[:2], {"role": "user", "content": parts}, messages[3]]
    assert messages[2]["content"] == "What is this?"


def test_a_stage_that_does_not_stream_is_asked_for_one_piece() -> None:
    """`stream_options` is refused without a stream."""
    asked = sent(stage(stream=False, params={"stream_options": {"include_usage": True}}))
    assert asked == {"model": "m", "messages": MESSAGES, "stream": False, "max_tokens": 100}


def test_a_requests_own_params_go_on_top_of_the_stages() -> None:
    """Only those for this stage; and nothing makes it stop streaming, for then no clock could run."""
    own = {"s": {"top_p": 0.2, "stream": False}, "other": {"top_p": 0.9}}
    of = stage(params={"top_p": 0.1, "user": "u", "stream": False})
    assert sent(of, params=own) == {**PLAIN, "top_p": 0.2, "user": "u"}


@pytest.mark.parametrize("base_url", [OTHER, OPENAI])
def test_no_param_reaches_what_a_stage_is_for(base_url: str) -> None:
    """A request could pick a dearer model, other messages, ten answers, or no limit by the limit's other spelling."""
    bad = {"model": "dear", "messages": [], "max_tokens": 9999, "max_completion_tokens": 9999, "stream": False, "n": 10}
    plain = sent(stage(base_url))
    assert sent(stage(base_url), params={"s": bad}) == plain
    assert sent(stage(base_url, params={**bad, "user": "u"})) == {**plain, "user": "u"}


def test_azures_older_interface_wants_a_version_and_its_own_header() -> None:
    """The newer one is asked like OpenAI itself."""
    key = {"api_key": SecretStr("k")}
    old = stage("https://mine.openai.azure.com/openai/deployments/d", api_version="2024-10-21", **key)
    assert OpenAI().url(call(old)) == f"{old.base_url}/chat/completions?api-version=2024-10-21"
    assert OpenAI().headers(old) == {"api-key": "k"}
    for of in (stage(AZURE, **key), stage(OTHER, api_version="2024-10-21", **key)):
        assert OpenAI().url(call(of)) == f"{of.base_url}/chat/completions"
        assert OpenAI().headers(of) == {"authorization": "Bearer k"}
    assert OpenAI().headers(stage()) == {}
