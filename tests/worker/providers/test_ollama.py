"""Ollama's protocol: what a host is sent, and what of its replies is an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from config.stages import Stage, Takes
from tests.hosts import Host
from tests.worker.providers.asking import MESSAGES, reply, stage_at
from tests.worker.providers.raw import frame, heard, http
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Call, Kind
from worker.failover.request import Image, Request
from worker.providers.ollama import Ollama, loading

PLAIN = {
    "model": "m",
    "messages": MESSAGES,
    "stream": True,
    "truncate": False,
    "think": False,
    "keep_alive": "30m",
    "options": {"num_ctx": 4096, "num_predict": 100},
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
IMAGE = Image("image/png", "QUJD")


def stage(**fields: Any) -> Stage:
    return Stage("s", "ollama", **{"base_url": "http://h", "model": "m", **fields})


def call(of: Stage, tokens: int = 100, dropped: frozenset[str] = frozenset(), **request: Any) -> Call:
    return Call(of, Request(**{"messages": MESSAGES, **request}), tokens, dropped)


def sent(of: Stage, tokens: int = 100, **request: Any) -> dict[str, Any]:
    return Ollama().payload(call(of, tokens, **request))


def test_a_plain_question() -> None:
    """A prompt is never cut to half, the window is fixed, an answer has an end, and nothing is thought about."""
    assert sent(stage()) == PLAIN


def test_everything_a_request_may_ask() -> None:
    """By the names of its interface; a model that cannot think refuses to be asked."""
    of = stage(num_ctx=8192, keep_alive=-1)
    asked = sent(of, temperature=0.0, stop=("a",), seed=0, reasoning="high")
    options = {"num_ctx": 8192, "num_predict": 100, "temperature": 0.0, "stop": ["a"], "seed": 0}
    assert asked == {**PLAIN, "keep_alive": -1, "think": "high", "options": options}


def test_what_a_stage_does_not_take_is_left_out() -> None:
    """The flags are there so that no call is spent on finding it out."""
    takes = Takes(temperature=False, stop=False, seed=False, reasoning=False)
    asked = sent(stage(takes=takes), temperature=0.0, stop=("a",), seed=0, reasoning="low")
    assert asked == {name: value for name, value in PLAIN.items() if name != "think"}


@pytest.mark.parametrize("reasoning", [None, "none"])
@pytest.mark.parametrize(
    ("model", "think"), [("qwen3:8b", False), ("gpt-oss:20b", "low"), ("hf.co/unsloth/GPT-OSS-20b-GGUF", "low")]
)
def test_no_reasoning_is_the_least_that_a_model_can_do(model: str, reasoning: str | None, think: object) -> None:
    """Ollama thinks unless it is told not to, and gpt-oss knows no `false`: it thought at its own length."""
    assert sent(stage(model=model), reasoning=reasoning) == {**PLAIN, "model": model, "think": think}


def room(text: str, tokens: int = 4000, **request: Any) -> int:
    """Of a window of 1024 tokens."""
    asked = sent(stage(num_ctx=1024), tokens=tokens, messages=[{"role": "user", "content": text}], **request)
    assert asked["options"]["num_ctx"] == 1024
    return int(asked["options"]["num_predict"])


def test_an_answer_is_never_longer_than_the_window() -> None:
    """The host would take it for endless, or drop the prompt's start to go on: what the prompt leaves bounds it, with
    what the model's template puts around it. The estimate may be too high, so a short answer is asked for in any case.
    """
    around = 1024 - room("")
    assert 0 < around < 100
    assert room("Why is the sky blue? " * 20) == 1024 - around - 120
    assert room("\u5929" * 400) == 1024 - around - 800, "a sign of Chinese may be two tokens"
    assert room("7" * 400) == 1024 - around - 400, "and a digit is one"
    assert room("Why?", tokens=100) == 100
    assert room("a " * 1000) == 64
    assert room("a " * 1000, tokens=10) == 10
    assert room("a" * 10_000_000) == 64, "nobody counts what can have no room"
    assert room("Why?", images=[IMAGE]) == 64
    several = [{"role": "user", "content": "Why?"}] * 50
    assert sent(stage(num_ctx=1024), tokens=4000, messages=several)["options"]["num_predict"] < room("Why?" * 50)
    told = sent(stage(num_ctx=1024, takes=Takes(response_schema=False)), tokens=4000, response_schema=SCHEMA)
    assert told["options"]["num_predict"] < room("Why?") - 50


def test_params_reach_the_options_too() -> None:
    """Those of stage and request are merged one by one: the request's replaced all of the stage's."""
    of = stage(params={"logprobs": True, "options": {"top_k": 1, "top_p": 0.1}})
    own = {"s": {"format": "json", "options": {"top_p": 0.2}}}
    options = {"num_ctx": 4096, "num_predict": 100, "top_k": 1, "top_p": 0.2}
    assert sent(of, params=own) == {**PLAIN, "logprobs": True, "format": "json", "options": options}
    assert of.params["options"] == {"top_k": 1, "top_p": 0.1}


def test_no_param_reaches_what_keeps_a_host_in_order() -> None:
    """A request's could cut its prompt, load the model anew for a window of its own, or ask for an endless answer."""
    other = {"model": "large", "messages": []}
    own = {"s": {**other, "truncate": True, "stream": False, "options": {"num_ctx": 65_536, "num_predict": -1}}}
    assert sent(stage(), params=own) == PLAIN
    assert sent(stage(params=own["s"])) == PLAIN


LOADED: dict[str, Any] = {"num_batch": 8, "num_gpu": 0, "main_gpu": 1, "use_mmap": False, "num_thread": 2}


def test_what_a_model_is_loaded_with_is_the_stages_alone() -> None:
    """Another value loads it anew, with all callers waiting; and how long it stays counts for all of them too."""
    own = {
        "keep_alive": 0,
        "shift": False,
        "options": {**LOADED, "draft_num_predict": 1, "use_mlock": True, "top_k": 1},
    }
    asked = sent(stage(), params={"s": own})
    assert asked == {**PLAIN, "options": {**PLAIN["options"], "top_k": 1}}  # type: ignore[dict-item]
    of = stage(params={"keep_alive": 0, "shift": False, "options": {**LOADED, "top_k": 1}})
    asked = sent(of, params={"s": {"options": {"num_gpu": 99, "top_k": 2}}})
    options = {**PLAIN["options"], **LOADED, "top_k": 2}  # type: ignore[dict-item]
    assert asked == {**PLAIN, "shift": False, "options": options}
    assert not any("num_" in name or name == "shift" for name in Ollama().optional(call(of)))


def test_a_load_asks_for_what_the_calls_will_ask_for() -> None:
    """And for nothing else: a model that is loaded another way is loaded once more by the first call."""
    of = stage(num_ctx=8192, keep_alive="1h", params={"shift": False, "options": {**LOADED, "top_k": 1}})
    fixed = {"model": "m", "messages": [], "stream": False, "keep_alive": "1h", "shift": False}
    assert loading(of) == {**fixed, "options": {"num_ctx": 8192, **LOADED}}
    assert loading(stage()) == {
        "model": "m", "messages": [], "stream": False, "keep_alive": "30m", "options": {"num_ctx": 4096},
    }  # fmt: skip


def test_nothing_of_the_environment_reaches_a_host_in_the_house(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ollama's own client sends the cloud's key to any host, asks another address, and goes through the proxy."""
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    url = host.ollama("ok")
    assert reply(stage_at(url, "ollama")).text
    (seen,) = host.calls(url)
    assert "authorization" not in seen.headers
    assert "secret" not in str(seen.headers)
    assert reply(stage_at(url, "ollama", api_key=SecretStr("configured"))).text
    assert host.calls(url)[1].headers["authorization"] == "Bearer configured"


@pytest.mark.parametrize("options", [7, "text", [1]])
def test_options_that_are_none_are_for_the_host_to_refuse(options: object) -> None:
    """It was an error of ours, told as the host's."""
    assert sent(stage(), params={"s": {"options": options}})["options"] == options
    assert sent(stage(), params={"s": {"options": None}}) == PLAIN


def test_only_what_a_call_can_do_without_is_ever_dropped() -> None:
    """A host that complains of `options` would else be asked for an endless answer, in a window of its own choice."""
    of = stage(params={"model": "m", "format": "json", "options": {"top_k": 1, "num_predict": 5}, "logprobs": True})
    wishes = {"temperature": 0.5, "seed": 1, "reasoning": "low", "params": {"s": {"options": {"seed": 2, "min_p": 0}}}}
    names = {'think="low"', "options.temperature", "options.top_k", "logprobs"}
    assert set(Ollama().optional(call(of, **wishes))) == names
    left = Ollama().payload(call(of, dropped=frozenset(names), **wishes))
    options = {**PLAIN["options"], "seed": 2, "min_p": 0}  # type: ignore[dict-item]
    assert left == {name: value for name, value in PLAIN.items() if name != "think"} | {
        "format": "json",
        "options": options,
    }


def test_a_schema_is_sent_as_the_format_or_told_in_the_prompt() -> None:
    """No param takes its place: what the caller wants checked is what the host must be asked for."""
    assert sent(stage(params={"format": "json"}), response_schema=SCHEMA) == {**PLAIN, "format": SCHEMA}
    told = sent(stage(takes=Takes(response_schema=False)), response_schema=SCHEMA)
    first, *rest = told["messages"]
    assert json.dumps(SCHEMA, separators=(",", ":")) in first["content"]
    assert {**told, "messages": rest} == PLAIN


def test_images_stand_in_the_users_last_message() -> None:
    """As the base64 that they come in: a text there is a path for some clients, and the request stays as it was."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "What is this?"},
        {"role": "assistant", "content": "It"},
    ]
    asked = sent(stage(), messages=messages, images=[IMAGE, IMAGE])["messages"]
    assert asked == [*messages[:2], {**messages[2], "images": ["QUJD", "QUJD"]}, messages[3]]
    assert "images" not in messages[2]


@pytest.mark.parametrize(
    "base_url",
    ["http://127.0.0.1:11434", "http://[::1]:11434", "http://gpu.lan", "https://gpu.lan/ollama"],
)
def test_a_host_is_asked_where_the_configuration_says(base_url: str) -> None:
    """Its package has ideas of its own about ports; http means 80 here as everywhere."""
    assert Ollama().url(call(stage(base_url=base_url))) == f"{base_url}/api/chat"


def test_what_is_built_is_what_is_sent(host: Host) -> None:
    """To the one path, word for word."""
    url = host.ollama("ok")
    assert reply(stage_at(url, "ollama"), temperature=0.5).text
    (seen,) = host.calls(url)
    options = {"num_ctx": 4096, "num_predict": 100, "temperature": 0.5}
    assert (seen.path, seen.body) == ("/api/chat", {**PLAIN, "options": options})


def test_a_stage_that_does_not_stream_is_asked_for_one_piece(host: Host) -> None:
    """And its answer is read as well, with all that it counts."""
    url = host.ollama("ok")
    found = reply(stage_at(url, "ollama", stream=False))
    assert host.calls(url)[0].body == {**PLAIN, "stream": False}
    assert (found.text, found.usage) == ("Hello from the scripted host.", Usage(1, 5))


# What of a reply is an answer.


def read_of(*lines: Mapping[str, Any]) -> Reply:
    body = "".join(frame("ollama", line) for line in lines)
    (found,), _ = heard("ollama", http(body, "application/x-ndjson"))
    return found


def line(text: str, done: object = False, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, "done": done, **fields}


LAST = line("", True, done_reason="stop")


def test_only_done_is_an_end() -> None:
    """Where one token repeats too often the host just stops: 200, all lines whole, none of them `done`."""
    assert read_of(line("Because."), LAST).end is not None
    assert read_of(line("Because.", done_reason="stop")).end is None
    assert read_of(line("Because."), line("", None, done_reason="stop")).end is None


def test_a_reason_that_is_not_given_is_not_made_up() -> None:
    """A connection that closed behind the host ends so; another client called that `stop`."""
    found = read_of(line("Because."), line("", True))
    assert found.end is not None
    assert found.end.finish_reason == ""


def test_thinking_is_no_part_of_an_answer() -> None:
    """Neither in its own field nor, with older models and templates, in the text."""
    beside = {"message": {"content": "", "thinking": "Hm."}, "done": False}
    assert read_of(beside, line("Because."), LAST).text == "Because."
    assert read_of(line("<thi"), line("nk>Hm.</think>\n\nBecause."), LAST).text == "Because."
    unclosed = read_of(line("<think>Hm. Hm."), line("", True, done_reason="length"))
    assert (unclosed.text, unclosed.end is not None) == ("", True)


def test_what_only_looked_like_thinking_is_said_at_the_end() -> None:
    """It is held until the next piece shows what it is, and there may be none."""
    assert read_of(line("<t"), LAST).text == "<t"


def test_a_stretch_of_blanks_is_no_thought() -> None:
    """A host could hold every clock off with them."""
    found = read_of({"message": {"content": "", "thinking": "\n"}, "done": False}, LAST)
    assert found.first_token_s is None


@pytest.mark.parametrize(
    "told", [{"error": "unexpected EOF"}, {"message": "unexpected EOF"}, {"detail": "unexpected EOF"}]
)
def test_an_error_before_the_end_is_a_fault_and_one_after_it_is_none(told: Mapping[str, Any]) -> None:
    """The status was sent long before; after the end mark nothing can make an answer less whole."""
    broken = read_of(line("Beca"), told, LAST)
    assert broken.fault is not None
    assert (broken.fault.kind, broken.fault.words.text) == (Kind.IN_STREAM, "unexpected EOF")
    whole = read_of(line("Because."), LAST, told)
    assert (whole.fault, whole.text, whole.end is not None) == (None, "Because.", True)
