"""A prompt that is longer than the window, when nobody asked for a refusal."""

from __future__ import annotations

import json

import pytest

from staffel.local_model.prompt import cut
from tests.staffel.local_model.served import Served

SYSTEM = {"role": "system", "content": "You are a parrot."}
LONG = {"role": "user", "content": "word " * 400}
SHORT = {"role": "user", "content": "Hello"}


def read(served: Served, *messages: dict[str, str], **options: int) -> int:
    """How many tokens of the prompt the model has read."""
    reply = served.chat(messages=list(messages), options={"num_ctx": 256, "num_predict": 1, **options})
    assert reply.status == 200, reply
    return int(json.loads(reply.text)["prompt_eval_count"])


def test_the_oldest_messages_go_and_the_systems_stays(served: Served) -> None:
    """The model reads what it would have read without them."""
    assert read(served, SYSTEM, LONG, LONG, SHORT) == read(served, SYSTEM, SHORT)


def test_a_last_message_that_is_too_long_is_cut_to_half_a_window(served: Served) -> None:
    """With status 200 and nothing but the count to show it: 256 - (256 - 4) / 2 tokens."""
    assert read(served, LONG) == 130
    assert read(served, LONG, num_keep=100) == 178


def test_a_raw_prompt_is_cut_in_the_same_way(served: Served) -> None:
    """There are no messages that could go."""
    fields = {"prompt": "word " * 400, "raw": True, "options": {"num_ctx": 256, "num_predict": 1}}
    assert json.loads(served.post("/api/generate", **fields).text)["prompt_eval_count"] == 130
    assert served.post("/api/generate", **fields, truncate=False).status == 400


def test_a_schema_is_kept_to_also_after_a_cut(served: Served) -> None:
    """llama.cpp is asked in another way there."""
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": 2}
    options = {"num_ctx": 256, "num_predict": 60, "temperature": 0}
    answer = json.loads(served.chat(messages=[LONG], format=schema, options=options).text)
    assert all(isinstance(number, int) for number in json.loads(answer["message"]["content"]))
    assert served.chat(messages=[LONG], format={"type": "nonsense"}, options=options).status == 400


@pytest.mark.parametrize(
    ("window", "keep", "length"), [(4096, 4, 2050), (32768, 4, 16386), (256, 255, 255), (256, 1000, 255), (4, 0, 2)]
)
def test_what_is_kept_is_the_start_and_the_end(window: int, keep: int, length: int) -> None:
    """The numbers are Ollama's (ollama#17427)."""
    tokens = list(range(50_000))
    short = cut(tokens, window, keep)
    assert len(short) == length
    kept = min(keep, window - 1)
    assert short[:kept] == tokens[:kept]
    assert short[kept:] == tokens[len(tokens) - (length - kept) :]
