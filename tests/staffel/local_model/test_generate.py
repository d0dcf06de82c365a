"""`/api/generate`: one prompt, with the model's template around it or without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.staffel.local_model.served import MODEL, Served

FEW = {"num_predict": 4, "temperature": 0}


def generated(served: Served, **fields: object) -> dict[str, Any]:
    reply = served.post("/api/generate", **{"prompt": "Say hello.", "options": FEW, **fields})
    assert reply.status == 200, reply
    answer: dict[str, Any] = json.loads(reply.text)
    return answer


def test_a_prompt_is_a_chat_of_one_message(served: Served) -> None:
    """The same text comes of it, and the same count, with the system's message or without."""
    messages = [{"role": "system", "content": "You are a pirate."}, {"role": "user", "content": "Say hello."}]
    chat = json.loads(served.chat(messages=messages, options=FEW).text)
    answer = generated(served, system="You are a pirate.")
    assert answer["response"] == chat["message"]["content"]
    assert answer["prompt_eval_count"] == chat["prompt_eval_count"] > generated(served, raw=True)["prompt_eval_count"]


def test_a_context_goes_before_the_prompt(served: Served) -> None:
    """Tokens of an earlier turn, as Ollama takes them still."""
    assert generated(served, context=[28120, 665])["prompt_eval_count"] == generated(served)["prompt_eval_count"] + 2


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"raw": True, "system": "x"}, 400, "raw mode does not support template, system, or context"),
        ({"raw": True, "context": [1]}, 400, "raw mode does not support template, system, or context"),
        ({"suffix": "end"}, 400, f"{MODEL} does not support insert"),
        ({"images": ["aGVsbG8="]}, 400, f"{MODEL} does not support vision"),
        ({"template": "{{ .Prompt }}"}, 500, "template error"),
        ({"think": True}, 400, f'"{MODEL}" does not support thinking'),
        ({"prompt": 7}, 400, "prompt"),
    ],
)
def test_what_cannot_be_done_is_told(served: Served, fields: dict[str, object], status: int, error: str) -> None:
    reply = served.post("/api/generate", **{"prompt": "Hello", **fields})
    assert (reply.status, error in reply.error) == (status, True), reply


def test_only_what_asks_for_an_answer_is_a_call(served: Served) -> None:
    """The host's own log is held against a ledger, which knows nothing of a model that is loaded."""

    def calls() -> int:
        return int(json.loads(served.ask("GET", "/api/version").text)["calls"])

    before = calls()
    for path, empty in (("/api/chat", {"messages": []}), ("/api/generate", {"prompt": ""})):
        assert json.loads(served.post(path, **empty).text)["done_reason"] == "load"
        assert json.loads(served.post(path, **empty, keep_alive=0).text)["done_reason"] == "unload"
    assert calls() == before
    generated(served)
    served.chat(options={"temperature": "x"})
    assert calls() == before + 2
