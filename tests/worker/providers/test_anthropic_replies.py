"""Anthropic's protocol: what of a reply is an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.hosts import Host
from tests.worker.providers import raw
from tests.worker.providers.asking import reply
from tests.worker.providers.test_anthropic import PLAIN, stage
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind


def heard(body: str, kind: str = "text/event-stream") -> Reply:
    (found,), _ = raw.heard("anthropic", raw.http(body, kind))
    return found


def events(*found: Mapping[str, Any]) -> str:
    return "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in found)


def starting(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}


def saying(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def ending(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def finish_of(reply: Reply) -> str | None:
    assert reply.fault is None, reply.fault.words
    return reply.end.finish_reason if reply.end else None


@pytest.mark.parametrize("script", ["ok:text=Because.", "thinking:text=Because."])
@pytest.mark.parametrize("stream", [True, False])
def test_a_host_is_asked_and_read(host: Host, script: str, stream: bool) -> None:
    """In a stream and in one piece; its thinking is none of the answer."""
    url = host.anthropic(script)
    found = reply(stage(base_url=url, stream=stream))
    assert (found.text, finish_of(found)) == ("Because.", "end_turn")
    assert found.usage is not None
    (seen,) = host.calls(url)
    assert (seen.path, seen.body) == ("/v1/messages", {**PLAIN, "stream": stream})


def test_all_blocks_of_text_are_the_answer() -> None:
    """The first block of a new model is its thinking, and a signature or a tool is no text."""
    found = heard(
        events(
            starting(input_tokens=3),
            {"type": "ping"},
            {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "xx"}},
            {"type": "content_block_start", "content_block": {"type": "text", "text": "B"}},
            saying("e"),
            saying("cause"),
            {"type": "content_block_stop", "index": 1},
            {"type": "content_block_start", "content_block": {"type": "tool_use", "text": "no", "input": {}}},
            {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}},
            {"type": "an_event_of_tomorrow", "text": "no"},
            saying("."),
            *ending(),
        )
    )
    assert (found.text, finish_of(found)) == ("Because.", "end_turn")


def test_a_reply_in_one_piece_is_read_by_its_blocks() -> None:
    """Also from a host that was asked for a stream."""
    content = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Be"}, {"type": "text", "text": "so"}]
    whole = {
        "type": "message",
        "content": content,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 0, "output_tokens": 2},
    }
    found = heard(json.dumps(whole, indent=1), "application/json")
    assert (found.text, finish_of(found), found.usage) == ("Beso", "end_turn", Usage(0, 2))


def test_a_stream_without_its_last_event_has_no_end() -> None:
    """Nor one whose last event comes without a reason; OpenAI's mark is none here."""
    delta, stop = ending()
    for last in ([], [delta], [stop], [{"type": "message_delta", "delta": None}, stop]):
        assert finish_of(heard(events(saying("Beca"), *last))) is None
    assert finish_of(heard(events(saying("Beca"), delta) + "data: [DONE]\n\n")) is None


@pytest.mark.parametrize("event", [{"type": "error", "error": {"type": "overloaded_error"}}, {"type": "error"}])
def test_an_error_in_the_stream_is_one(event: Mapping[str, Any]) -> None:
    """Under status 200."""
    found = heard(events(saying("Beca"), event))
    assert found.fault is not None
    assert found.fault.kind is Kind.IN_STREAM


def test_thinking_inside_the_text_is_taken_out() -> None:
    """As other makers' models behind this protocol write it."""
    assert heard(events(saying("<think>H"), saying("m.</think>\nBecause."), *ending())).text == "Because."


def test_tokens_come_in_parts_and_caches_are_input() -> None:
    """They are known once the reason is: an attempt that failed after it was billed all the same. Before it the host
    counts only as far as it has come.
    """
    start = starting(input_tokens=3, cache_creation_input_tokens=10, cache_read_input_tokens=100, output_tokens=1)
    assert heard(events(start, saying("Beca"))).usage is None
    delta, _ = ending(output_tokens=7, input_tokens=None)
    broken = heard(events(start, saying("Because."), delta))
    assert (broken.end, broken.usage) == (None, Usage(113, 7))
    whole = heard(events(start, saying("Because."), *ending(output_tokens=7, input_tokens=None)))
    assert whole.end is not None
    assert whole.end.usage == Usage(113, 7)


@pytest.mark.parametrize("odd", ["x", -1, 1.5, [3], True, 10**400])
@pytest.mark.parametrize("name", ["input_tokens", "cache_read_input_tokens", "output_tokens"])
def test_a_count_that_nobody_can_believe_is_not_known(name: str, odd: object) -> None:
    """The answer it came with is as good as ever; so is one that was not counted at all."""
    found = heard(events(saying("Because."), *ending(**{"input_tokens": 1, "output_tokens": 2, name: odd})))
    assert (found.text, finish_of(found), found.usage) == ("Because.", "end_turn", None)
    assert heard(events(saying("Because."), *ending())).usage is None


@pytest.mark.parametrize(
    "odd",
    [
        {"unexpected": ["shape"]},
        {"type": 7},
        {"type": "message_start", "message": 7},
        {"type": "content_block_delta", "delta": "text"},
        {"type": "content_block_start", "content_block": [1]},
        {"type": "message_delta", "delta": 7},
        {"type": "message", "content": "text"},
        {"type": "message", "content": ["text"]},
    ],
)
def test_an_object_of_another_shape_is_unreadable(odd: Mapping[str, Any]) -> None:
    found = heard(events(odd, saying("Because."), *ending()))
    assert found.fault is not None
    assert found.fault.kind is Kind.UNREADABLE


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "message_start", "message": None},
        {"type": "message_start"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": 7}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": None}},
        {"type": "content_block_delta", "delta": None},
        {"type": "message_delta", "delta": {}, "usage": "many"},
    ],
)
def test_what_says_nothing_is_passed_over(odd: Mapping[str, Any]) -> None:
    found = heard(events(odd, saying("Because."), *ending()))
    assert (found.text, finish_of(found)) == ("Because.", "end_turn")
