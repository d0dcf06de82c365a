"""The real model answers in Ollama's shape, through Ollama's own Python package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import ollama

from tests.staffel.local_model.served import ENDLESS, MODEL, Served

T = TypeVar("T")
HELLO = [{"role": "user", "content": "Say hello."}]


def with_client(served: Served, use: Callable[[ollama.AsyncClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with ollama.AsyncClient(host=served.url, timeout=60) as client:
            return await use(client)

    return asyncio.run(run())


def whole(served: Served, messages: list[dict[str, str]] = HELLO, **fields: Any) -> ollama.ChatResponse:
    fields = {"model": MODEL, "messages": messages, "options": {"num_predict": 5}, **fields}
    return with_client(served, lambda client: client.chat(**fields))


def streamed(served: Served, **fields: Any) -> list[ollama.ChatResponse]:
    async def use(client: ollama.AsyncClient) -> list[ollama.ChatResponse]:
        stream = await client.chat(MODEL, HELLO, stream=True, **fields)
        return [chunk async for chunk in stream]

    return with_client(served, use)


def test_a_stream_is_pieces_and_then_one_end_with_counts_and_times(served: Served) -> None:
    """Every chunk but the last is a piece of text; the last says why it ended and what it took, in nanoseconds."""
    *pieces, end = streamed(served, options={"num_predict": 6, "temperature": 0})
    assert pieces
    assert all(piece.done is False and piece.message.content and piece.message.role == "assistant" for piece in pieces)
    assert (end.done, end.done_reason, end.message.content, end.model) == (True, "length", "", MODEL)
    assert end.eval_count == 6
    assert end.prompt_eval_count
    assert end.prompt_eval_count > 10
    assert end.prompt_eval_duration
    assert end.eval_duration
    assert end.load_duration
    assert end.total_duration
    assert end.total_duration >= end.prompt_eval_duration + end.eval_duration


def test_the_whole_answer_is_what_the_stream_would_have_said(served: Served) -> None:
    """The same seed gives the same words, in one piece or in many, and however often it is asked."""
    options = {"num_predict": 12, "temperature": 1.0, "seed": 7}
    pieces = streamed(served, options=options)
    answers = [whole(served, options=options) for _ in range(2)]
    assert "".join(piece.message.content or "" for piece in pieces) == answers[0].message.content
    assert answers[0].message.content == answers[1].message.content
    assert answers[0].done
    assert answers[0].eval_count == pieces[-1].eval_count


def test_another_seed_gives_other_words(served: Served) -> None:
    """Without this the test above would pass for a model that ignores its seed."""
    said = {
        whole(served, options={"num_predict": 12, "temperature": 1.5, "seed": seed}).message.content
        for seed in range(3)
    }
    assert len(said) > 1


def test_streaming_is_what_a_request_without_a_word_on_it_gets(served: Served) -> None:
    """Ollama streams by default; its Python package hides that by always sending the field."""
    body = {"model": MODEL, "messages": HELLO, "options": {"num_predict": 3}}
    reply = served.ask("POST", "/api/chat", json.dumps(body).encode())
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert [line["done"] for line in lines][-2:] == [False, True]


def test_a_stop_string_ends_the_answer_before_it(served: Served) -> None:
    """The list of numbers would go on; the stop string cuts it, is not shown, and the reason is `stop`."""
    answer = whole(served, format=ENDLESS, options={"num_predict": 300, "temperature": 0, "stop": [","]})
    assert answer.done_reason == "stop"
    assert answer.message.content
    assert "," not in answer.message.content


def test_a_schema_is_kept_to(served: Served) -> None:
    """llama.cpp's grammar lets the model say nothing else, so that even this one gives valid JSON."""
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"], "maxProperties": 1}
    answer = whole(served, format=schema, options={"num_predict": 60, "temperature": 0})
    assert answer.done_reason == "stop"
    assert isinstance(json.loads(answer.message.content or "")["age"], int)


def test_a_window_larger_than_the_model_learned_is_made_smaller_without_a_word(served: Served) -> None:
    """As Ollama does; `/api/ps` tells the window in use."""
    assert whole(served, options={"num_ctx": 1_000_000, "num_predict": 2}).eval_count == 2
    (loaded,) = with_client(served, lambda client: client.ps()).models
    assert loaded.context_length == 8192


def test_without_shift_a_full_window_ends_the_answer(served: Served) -> None:
    """Prompt and answer share the window; its end is the reason `length`."""
    prompt_tokens = whole(served).prompt_eval_count
    body = {"messages": HELLO, "format": ENDLESS, "options": {"num_ctx": prompt_tokens + 4}, "shift": False}
    answer = json.loads(served.chat(**body).text)
    assert (answer["done_reason"], answer["eval_count"]) == ("length", 4)


def test_with_shift_an_answer_goes_on_past_a_full_window(served: Served) -> None:
    """As Ollama does if not told otherwise: the start of the prompt is dropped, and the answer may be any length."""
    answer = whole(served, format=ENDLESS, options={"num_ctx": 256, "num_predict": 260})
    assert (answer.done_reason, answer.eval_count) == ("length", 260)


def test_a_system_message_and_a_dialogue_are_part_of_the_prompt(served: Served) -> None:
    """All messages reach the model, in whatever case their roles are written."""
    dialogue = [
        {"role": "SYSTEM", "content": "You are a pirate."},
        *HELLO,
        {"role": "assistant", "content": "Ahoy, landlubber, welcome aboard this fine old ship of ours."},
        {"role": "user", "content": "Again."},
    ]
    short, long = whole(served, dialogue[:2]), whole(served, dialogue)
    assert (long.prompt_eval_count or 0) > (short.prompt_eval_count or 0) + 10


def test_think_false_is_accepted(served: Served) -> None:
    """Whoever wants no reasoning may always say so, also to a model that has none."""
    assert whole(served, think=False).done


def test_the_reply_carries_the_name_as_it_was_asked_for(served: Served) -> None:
    """Names mean the same in any case."""
    assert whole(served, model="SmolLM2:135M").model == "SmolLM2:135M"


def test_the_catalogue_knows_one_resident_model_that_can_complete(served: Served) -> None:
    """tags, ps and show agree with each other, and give the window that is really in use."""

    whole(served)

    async def use(client: ollama.AsyncClient) -> tuple[Any, Any, Any]:
        return await client.list(), await client.ps(), await client.show(MODEL)

    tags, resident, shown = with_client(served, use)
    (listed,), (loaded,) = tags.models, resident.models
    assert listed.model == loaded.model == loaded.name == MODEL
    assert listed.digest == loaded.digest
    assert listed.details.quantization_level == "Q4_1"
    assert loaded.context_length == 4096
    assert loaded.size > 100_000_000
    assert loaded.size_vram == 0
    assert shown.capabilities == ["completion"]
    assert "<|im_start|>" in (shown.template or "")
    assert shown.details.parameter_size == "134.52M"
    assert shown.modelinfo["llama.context_length"] == 8192
