"""OpenAI's protocol: what of a reply is an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.hosts import Host
from tests.worker.providers import raw
from tests.worker.providers.asking import reply
from tests.worker.providers.raw import frame
from tests.worker.providers.test_openai import PLAIN, stage
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind


def heard(body: str, kind: str = "text/event-stream") -> Reply:
    (found,), _ = raw.heard("openai", raw.http(body, kind))
    return found


def test_what_is_built_is_what_is_sent(host: Host) -> None:
    """To the one path, word for word."""
    url = host.openai("ok")
    found = reply(stage(url), temperature=0.5)
    (seen,) = host.calls(url)
    assert (seen.path, seen.body) == ("/v1/chat/completions", {**PLAIN, "temperature": 0.5})
    assert found.end is not None


def events(*choices: Any, usage: Any = None, done: bool = True) -> str:
    """A stream with one choice an event."""
    frames = [frame("openai", {"choices": [{"index": 0, **choice}]}) for choice in choices]
    if usage is not None:
        frames.append(frame("openai", {"choices": [], "usage": usage}))
    return "".join(frames) + ("data: [DONE]\n\n" if done else "")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"delta": fields, "finish_reason": finish}


STOP = delta("stop")


def finish_of(reply: Reply) -> str | None:
    assert reply.fault is None, reply.fault.words
    return reply.end.finish_reason if reply.end else None


def test_a_stream_is_whole_with_its_finish_reason_and_its_mark() -> None:
    """Gateways end a stream that broke behind them as cleanly as any other."""
    text = delta(content="Because.")
    assert finish_of(heard(events(text, STOP))) == "stop"
    assert finish_of(heard(events(text, STOP, done=False))) is None
    assert finish_of(heard(events(text))) is None


@pytest.mark.parametrize("more", [{}, {"object": "chat.completion"}])
def test_a_reply_in_one_piece_is_whole_with_its_finish_reason(more: Mapping[str, Any]) -> None:
    """There is no mark in it; hosts that ignore `stream` answer so too."""
    message = {"role": "assistant", "content": "Because.", "refusal": None}
    whole = {**more, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    found = heard(json.dumps(whole, indent=1), "application/json")
    assert (found.text, finish_of(found)) == ("Because.", "stop")
    open_end = {"choices": [{"index": 0, "message": message, "finish_reason": None}]}
    assert finish_of(heard(json.dumps(open_end), "application/json")) is None


def test_text_may_come_in_parts() -> None:
    """Mistral's models with thinking answer in lists; the thinking in them is none of the answer."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thinking, {"type": "text", "text": "Be"}, {"type": "image_url"}, "cause", {"type": "text", "text": None}]
    found = heard(events(delta(content=parts), delta(content="."), STOP))
    assert (found.text, finish_of(found)) == ("Because.", "stop")


@pytest.mark.parametrize(
    "thought",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}]},
    ],
)
def test_thinking_beside_the_text_stops_clocks_and_is_no_answer(thought: Mapping[str, Any]) -> None:
    found = heard(events(delta(**thought), delta("length")))
    assert (found.text, finish_of(found)) == ("", "length")
    assert found.first_token_s is not None


def test_a_stretch_of_blanks_is_no_thought() -> None:
    """A host could hold every clock off with them."""
    found = heard(events(delta(reasoning_content="\n"), delta(reasoning_details=[{"data": "xx"}]), STOP))
    assert found.first_token_s is None


def test_thinking_inside_the_text_is_taken_out() -> None:
    """vLLM without a reasoning parser writes it there, in pieces that tear its marks."""
    pieces = ["\n<th", "ink>\nHm. </thi", "s> a < b </th", "ink>", "\n\n", "Because", " <think> is a tag."]
    found = heard(events(*[delta(content=piece) for piece in pieces], STOP))
    assert (found.text, finish_of(found)) == ("Because <think> is a tag.", "stop")


def test_a_refusal_is_filtered_content() -> None:
    """Its own text is no answer, and the finish reason beside it is `stop`."""
    found = heard(events(delta(refusal="I can't."), STOP))
    assert (found.text, finish_of(found)) == ("", "content_filter")


def test_a_choice_with_an_error_is_a_fault() -> None:
    """OpenRouter tells there what went wrong behind it, under status 200."""
    wrong = {"delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "Upstream down"}}
    found = heard(events(delta(content="Beca"), wrong))
    assert found.fault is not None
    assert (found.fault.kind, found.fault.words.text) == (Kind.IN_STREAM, "Upstream down")
    assert finish_of(heard(events(delta(content="Beca"), delta("error")))) == "error"


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}


def test_tokens_are_known_before_the_end_mark() -> None:
    """An attempt that failed after them was billed all the same. Moonshot tells them within the choice.

    Before the finish reason a host counts only as far as it has come: that is not what the attempt costs.
    """
    found = heard(events(delta(content="Beca"), STOP, usage=USAGE, done=False))
    assert (found.end, found.usage) == (None, Usage(3, 2, 1))
    assert heard(events(delta(content="Beca"), usage=USAGE, done=False)).usage is None
    whole = heard(events(delta(content="Because."), STOP, usage=USAGE))
    assert whole.end is not None
    assert whole.end.usage == Usage(3, 2, 1)
    assert heard(events(delta(content="Because."), {**STOP, "usage": USAGE})).usage == Usage(3, 2, 1)


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": 5}, {"prompt_tokens": None}, "five", [5]])
def test_tokens_that_nobody_counted_are_not_none(usage: object) -> None:
    """A cost of 0 would be a lie."""
    found = heard(events(delta(content="Because."), STOP, usage=usage))
    assert (finish_of(found), found.usage) == ("stop", None)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": "none"},
        {"choices": {"0": {}}},
        {"choices": ["text"]},
        {"choices": [{"delta": "text"}]},
        {"choices": [{"delta": [1]}]},
        {"choices": [{"message": 7}]},
    ],
)
def test_an_object_of_another_shape_is_unreadable(odd: Mapping[str, Any]) -> None:
    found = heard(frame("openai", odd) + events(STOP))
    assert found.fault is not None
    assert found.fault.kind is Kind.UNREADABLE


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [{"index": "x", "delta": {"content": "No."}}]},
        {"choices": [{"index": [0], "delta": {"content": "No."}}]},
        {"choices": [{"index": 0, "delta": {"content": 7}}]},
        {"choices": [{"index": 0, "delta": {"content": {"text": "No."}}}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "finish_reason": ""}]},
    ],
)
def test_what_says_nothing_is_passed_over(odd: Mapping[str, Any]) -> None:
    """Azure begins with a choice of no content, OpenRouter keeps a stream alive with empty ones."""
    found = heard(frame("openai", odd) + events(delta(content="Yes."), STOP))
    assert (found.text, finish_of(found)) == ("Yes.", "stop")
