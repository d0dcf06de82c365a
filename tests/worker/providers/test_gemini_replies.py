"""Gemini's protocol: what of a host's replies is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worker.providers.raw import frame, heard, http
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind


def read_of(*values: Any, kind: str = "text/event-stream") -> Reply:
    (found,), _ = heard("gemini", http("".join(frame("gemini", value) for value in values), kind))
    return found


def said(*parts: Any, finish: object = None, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [*parts]}, "index": 0, "finishReason": finish}
    return {"candidates": [{name: value for name, value in candidate.items() if value is not None}], **fields}


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def finish_of(found: Reply) -> str | None:
    assert found.fault is None, found.fault.words
    return found.end.finish_reason if found.end else None


LAST = said(finish="STOP")


def test_an_answer_is_whole_with_a_finish_reason() -> None:
    """There is no other mark; the counts may follow it, and some models give one in every chunk."""
    usage = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4}}
    found = read_of(said(text("Be"), finish="STOP"), said(text("cause."), finish="MAX_TOKENS"), usage)
    assert (found.text, finish_of(found)) == ("Because.", "MAX_TOKENS")
    assert found.usage == Usage(3, 6, 4)
    assert finish_of(read_of(said(text("Because.")))) is None
    assert finish_of(read_of(said(text("Because."), finish="FINISH_REASON_UNSPECIFIED"))) is None


def test_thinking_is_no_part_of_an_answer() -> None:
    """It stops the clocks, if there is any text in it."""
    found = read_of(said({"text": "Hm.", "thought": True}, text("Because."), {"thoughtSignature": "x"}), LAST)
    assert (found.text, finish_of(found)) == ("Because.", "STOP")
    only = read_of(said({"text": "Hm.", "thought": True}, finish="MAX_TOKENS"))
    assert (only.text, only.first_token_s is not None) == ("", True)
    assert read_of(said({"text": "\n", "thought": True}), LAST).first_token_s is None
    inside = read_of(said(text("<thou")), said(text("ght>Hm.</thought>Because.")), LAST)
    assert (inside.text, finish_of(inside)) == ("Because.", "STOP")


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "OTHER"])
def test_a_prompt_that_is_blocked_is_told_as_such(reason: str) -> None:
    """Without a candidate there is no finish reason: it looked like an answer that broke off."""
    found = read_of({"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}})
    assert (found.text, finish_of(found), found.usage) == ("", "blocked", Usage(3, 0))
    assert finish_of(read_of(said(text("Because.")), {"promptFeedback": {}}, LAST)) == "STOP"


@pytest.mark.parametrize("index", [0, None, "0"])
def test_of_several_answers_the_first_is_taken(index: object) -> None:
    """Also where the host does not number them."""
    both = said(text("Yes."), finish="STOP")
    both["candidates"][0]["index"] = index
    both["candidates"].append({"index": 1, "content": {"parts": [text("No.")]}, "finishReason": "SAFETY"})
    found = read_of(both)
    assert (found.text, finish_of(found)) == ("Yes.", "STOP")


@pytest.mark.parametrize("usage", [None, {}, {"totalTokenCount": 5}, {"promptTokenCount": None}, "five", [5]])
def test_tokens_that_nobody_counted_are_not_none(usage: object) -> None:
    """A cost of 0 would be a lie."""
    found = read_of(said(text("Because."), finish="STOP", usageMetadata=usage))
    assert (finish_of(found), found.usage) == ("STOP", None)


def test_tokens_of_an_answer_that_broke_off_are_not_known() -> None:
    """A host counts as far as it has come: that is not what the attempt costs."""
    found = read_of(said(text("Beca"), usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 1}))
    assert (found.end, found.usage) == (None, None)
    thought = {"promptTokenCount": 3, "thoughtsTokenCount": 9}
    assert read_of(said(finish="MAX_TOKENS", usageMetadata=thought)).usage == Usage(3, 9, 9)
    assert read_of(said(text("Because."), finish="STOP", usageMetadata={"promptTokenCount": 3})).usage is None


@pytest.mark.parametrize("odd", [7, "text", {"a": 1}, [7], [{"content": 7}], [{"content": {"parts": 7}}],
                                 [{"content": {"parts": [7]}}], [{"content": {"parts": [{"text": 7}]}}]])  # fmt: skip
def test_an_object_of_another_shape_is_unreadable(odd: object) -> None:
    """And never an exception that leaves the adapter."""
    found = read_of({"candidates": odd}, LAST)
    assert found.fault is not None
    assert found.fault.kind is Kind.UNREADABLE


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_that_streams_is_read_as_it_comes(indent: int | None) -> None:
    """Gateways drop `alt=sse`: then the same objects stand in one long list."""
    body = json.dumps([said(text("Be")), said(text("cause.")), LAST], indent=indent)
    (found,), _ = heard("gemini", http(body, "application/json"), slices=7)
    assert (found.text, finish_of(found)) == ("Because.", "STOP")


def test_an_error_in_a_list_is_understood_also_after_the_finish() -> None:
    """As Google writes it; there is no end mark that it could follow."""
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    for body in (json.dumps([error], indent=2), json.dumps([said(text("Because."), finish="STOP"), error])):
        (found,), _ = heard("gemini", http(body, "application/json"))
        assert found.fault is not None
        assert (found.fault.kind, found.fault.words.number) == (Kind.IN_STREAM, 503)
        assert found.fault.words.text == "The model is overloaded."
