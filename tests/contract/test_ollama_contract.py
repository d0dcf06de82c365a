"""What Staffel takes for granted of Ollama, case by case, and the same of each host that stands in for one."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.contract.targets import HELLO, SCHEMA, SMALL_WINDOW, TOO_LONG, Target
from tests.eventually import eventually

COUNTERS = (
    *("total_duration", "load_duration", "prompt_eval_count"),
    *("prompt_eval_duration", "eval_count", "eval_duration"),
)
DETAILS = ("parent_model", "format", "family", "families", "parameter_size", "quantization_level")
ENDPOINTS = ("/api/chat", "/api/generate")


def ask(target: Target, path: str, **fields: Any) -> Any:
    return target.chat(**fields) if path == "/api/chat" else target.generate(**fields)


def empty(path: str) -> dict[str, Any]:
    return {"messages": []} if path == "/api/chat" else {"prompt": ""}


def said(path: str, reply: dict[str, Any]) -> str:
    if path == "/api/generate":
        text = reply["response"]
    else:
        assert reply["message"]["role"] == "assistant"
        text = reply["message"]["content"]
    assert isinstance(text, str)
    return text


def ended(reply: dict[str, Any]) -> None:
    """Counts and nanoseconds, and no more time in parts than in all."""
    assert all(isinstance(reply[name], int) and reply[name] > 0 for name in COUNTERS), reply
    parts = reply["prompt_eval_duration"] + reply["eval_duration"] + reply["load_duration"]
    assert reply["total_duration"] > parts * 0.9


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_whole_answer_is_one_object_with_counts_and_times(target: Target, path: str) -> None:
    reply = ask(target, path)
    assert (reply.status, reply.content_type.partition(";")[0]) == (200, "application/json")
    (answer,) = reply.objects
    assert said(path, answer)
    assert (answer["model"], answer["done"]) == (target.model, True)
    assert answer["done_reason"] in {"stop", "length"}
    assert datetime.fromisoformat(answer["created_at"]).tzinfo is not None
    ended(answer)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_stream_is_pieces_and_then_one_end(target: Target, path: str) -> None:
    """Streaming is what a request gets that says nothing."""
    reply = ask(target, path, stream=None)
    assert (reply.status, reply.content_type.partition(";")[0]) == (200, "application/x-ndjson")
    *pieces, end = reply.objects
    assert pieces
    assert "".join(said(path, piece) for piece in pieces).strip()
    assert all(piece["done"] is False and "done_reason" not in piece and piece["created_at"] for piece in pieces)
    assert (end["done"], said(path, end)) == (True, "")
    ended(end)


def test_num_predict_ends_an_answer_with_length(target: Target) -> None:
    answer = target.chat(options={"num_predict": 3}).last
    assert (answer["done_reason"], answer["eval_count"]) == ("length", 3)


def test_a_schema_is_kept_to(target: Target) -> None:
    options = {"num_predict": 200, "temperature": 0}
    answer = target.post("/api/chat", to=target.keeps_to_schema, messages=HELLO, format=SCHEMA, options=options).last
    assert isinstance(json.loads(answer["message"]["content"])["age"], int)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_an_empty_request_loads_and_with_keep_alive_0_unloads(target: Target, path: str) -> None:
    """`/api/ps` shows it in between, with its window and when it goes."""
    target.unload()
    assert target.resident() == []
    loaded = target.post(path, **empty(path), keep_alive="10m", options={"num_ctx": 512})
    assert (loaded.status, loaded.last["done"], loaded.last["done_reason"]) == (200, True, "load")
    assert said(path, loaded.last) == ""
    (model,) = target.resident()
    assert model["context_length"] == 512
    assert all(isinstance(model[name], int) for name in ("size", "size_vram"))
    assert set(model["details"]) >= set(DETAILS)
    assert model["name"] == model["model"] == target.model
    assert model["digest"]
    expires = datetime.fromisoformat(model["expires_at"])
    assert 590 < (expires - datetime.now().astimezone()).total_seconds() < 601
    assert target.post(path, **empty(path), keep_alive=0).last["done_reason"] == "unload"
    eventually(lambda: not target.resident(), "the model has left")


def test_an_answer_loads_the_model_by_itself_and_says_how_long_that_took(target: Target) -> None:
    target.unload()
    eventually(lambda: not target.resident(), "the model has left")
    cold, warm = target.chat().last["load_duration"], target.chat().last["load_duration"]
    assert cold > 100_000_000
    assert cold > 2 * warm
    assert target.resident()


def test_keep_alive_0_unloads_after_the_reply(target: Target) -> None:
    assert said("/api/chat", target.chat(keep_alive=0).last)
    eventually(lambda: not target.resident(), "the model has left")


def test_a_model_leaves_when_its_time_is_over(target: Target) -> None:
    """Each request's own time replaces the one before."""
    target.chat(keep_alive=-1)
    assert datetime.fromisoformat(target.resident()[0]["expires_at"]).year > 2200
    target.chat(keep_alive="500ms")
    eventually(lambda: not target.resident(), "the model has left")


def test_another_window_loads_the_model_anew(target: Target) -> None:
    target.chat(options={"num_ctx": 512, "num_predict": 1})
    again = target.chat(options={"num_ctx": 1024, "num_predict": 1}).last
    assert again["load_duration"] > 100_000_000
    assert target.resident()[0]["context_length"] == 1024


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    ("fields", "statuses", "error"),
    [
        ({"model": "no-such-model:1b"}, {404}, "model 'no-such-model:1b' not found"),
        ({"model": None}, {400}, "model"),
        ({"think": True}, {400}, "does not support thinking"),
        ({"think": "hard"}, {400}, "invalid think value"),
        ({"format": "yaml"}, {400, 500}, "format"),
        ({"options": {"temperature": "0.2"}}, {500}, 'option "temperature" must be of type float32'),
        ({"options": {"num_ctx": "512"}}, {500}, 'option "num_ctx" must be of type integer'),
        ({"keep_alive": "-1"}, {400}, "time: missing unit in duration"),
    ],
)
def test_a_request_that_cannot_be_served_is_told_why(
    target: Target, path: str, fields: dict[str, Any], statuses: set[int], error: str
) -> None:
    """In one string under `error`, also where a stream was asked for: it has not begun."""
    for stream in (True, False):
        reply = ask(target, path, stream=stream, **fields)
        assert (reply.status in statuses, error in reply.error) == (True, True), reply


def test_think_false_is_taken_by_every_model(target: Target) -> None:
    assert target.chat(think=False).status == 200


def test_a_prompt_that_is_too_long_is_refused_if_it_may_not_be_cut(target: Target) -> None:
    """One of Ollama's two texts, the second of which is llama.cpp's JSON in a string."""
    reply = target.chat(messages=TOO_LONG, truncate=False, options={"num_ctx": SMALL_WINDOW, "num_predict": 1})
    assert reply.status == 400
    texts = ("exceed_context_size_error", "longer than the context length currently available")
    assert any(text in reply.error for text in texts), reply


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_prompt_that_is_too_long_is_else_answered_from_half_a_window(target: Target, path: str) -> None:
    """Only the count shows it: 256 - (256 - 4) / 2, and one more where a model has a token for the beginning."""
    long = {"messages": TOO_LONG} if path == "/api/chat" else {"prompt": TOO_LONG[0]["content"]}
    reply = ask(target, path, **long, options={"num_ctx": SMALL_WINDOW, "num_predict": 1})
    assert reply.status == 200
    assert reply.last["prompt_eval_count"] in {130, 131}


def test_leaving_a_stream_frees_the_host_for_the_next(target: Target) -> None:
    """The next answer begins long before this one could have ended."""
    body = {"model": target.model, "messages": HELLO, "options": {"num_predict": 2000}, "format": None}
    with httpx.stream("POST", f"{target.url}/api/chat", json=body, timeout=60) as response:
        next(response.iter_lines())
    begun = time.monotonic()
    assert target.chat(options={"num_predict": 1}).status == 200
    assert time.monotonic() - begun < 10


def test_two_at_once_are_one_after_the_other(target: Target) -> None:
    """By the host's own time stamps."""

    def one(_: int) -> tuple[str, str]:
        objects = target.chat(stream=True, options={"num_predict": 6}).objects
        return objects[0]["created_at"], objects[-1]["created_at"]

    with ThreadPoolExecutor(2) as threads:
        spans = sorted(threads.map(one, range(2)))
    assert all(datetime.fromisoformat(end) <= datetime.fromisoformat(begin) for (_, end), (begin, _) in pairwise(spans))


def test_the_catalogue_shows_what_is_pulled(target: Target) -> None:
    listed = next(model for model in target.get("/api/tags")["models"] if model["model"] == target.model)
    assert listed["name"] == target.model
    assert isinstance(listed["size"], int)
    assert listed["digest"]
    assert listed["modified_at"]
    assert set(listed["details"]) >= {"format", "family", "families", "parameter_size", "quantization_level"}
    assert isinstance(target.get("/api/version")["version"], str)


def test_show_tells_what_a_model_can_do(target: Target) -> None:
    shown = target.post("/api/show").last
    assert "completion" in shown["capabilities"]
    assert "thinking" not in shown["capabilities"]
    family = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{family}.context_length"] >= 2048
    assert set(shown["details"]) >= set(DETAILS)
    assert all(isinstance(shown[name], str) for name in ("modelfile", "template", "modified_at"))
    assert target.post("/api/show", model="no-such-model:1b").status == 404


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags"])
def test_a_probe_may_ask_for_the_head_only(target: Target, path: str) -> None:
    reply = httpx.head(f"{target.url}{path}", timeout=10)
    assert (reply.status_code, reply.content) == (200, b"")


def test_a_path_that_is_not_there_is_plain_text(target: Target) -> None:
    """Which is how a wrong base URL can be told from a missing model."""
    reply = httpx.post(f"{target.url}/v1/api/chat", json={"model": target.model}, timeout=10)
    assert (reply.status_code, reply.text.strip()) == (404, "404 page not found")
