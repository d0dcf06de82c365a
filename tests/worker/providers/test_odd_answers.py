"""Answers that are whole although something beside their text is odd."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.worker.providers.raw import FINISHED, STREAMS, frame, heard, http, saying
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind


def answer(found: Reply) -> tuple[str, Usage | None]:
    assert found.fault is None, (found.fault.kind, found.fault.words)
    assert found.end is not None
    assert found.end.finish_reason in FINISHED.values()
    return found.text, found.end.usage


def counting(protocol: str, given: object, wrote: object, **more: Any) -> str:
    """The body of an answer with these counts, and more fields beside them."""
    if protocol == "openai":
        usage = {"prompt_tokens": given, "completion_tokens": wrote, **more}
        return frame(protocol, {"choices": [], "usage": usage}) + saying(protocol, "Because.")
    if protocol == "anthropic":
        usage = {"input_tokens": given, "output_tokens": wrote, **more}
        return frame(protocol, {"type": "message_start", "message": {"usage": usage}}) + saying(protocol, "Because.")
    if protocol == "gemini":
        usage = {"promptTokenCount": given, "candidatesTokenCount": wrote, **more}
        return saying(protocol, "Because.") + frame(protocol, {"usageMetadata": usage})
    last = {"message": {"content": "Because."}, "done": True, "done_reason": "stop"}
    return frame(protocol, {**last, "prompt_eval_count": given, "eval_count": wrote, **more})


@pytest.mark.parametrize(
    "odd", ["x", "3", -1, True, 1.5, float("nan"), float("inf"), [3], {"n": 3}, 2**53, 10**400], ids=repr
)
def test_a_count_that_nobody_can_believe_is_not_known(protocol: str, odd: object) -> None:
    """The answer was thrown away for it; 10**400 tokens with a price left the job running for ever."""
    bodies = [counting(protocol, odd, 2), counting(protocol, 3, odd)]
    found, _ = heard(protocol, *[http(body, STREAMS[protocol]) for body in bodies])
    assert [answer(reply) for reply in found] == [("Because.", None)] * 2


def test_half_a_count_is_none(protocol: str) -> None:
    """Its cost would be half of the truth. Only Ollama leaves one out that is 0: of a prompt in its cache."""
    bodies = [counting(protocol, None, 2), counting(protocol, 3, None)]
    found, _ = heard(protocol, *[http(body, STREAMS[protocol]) for body in bodies])
    known = Usage(0, 2) if protocol == "ollama" else None
    assert [answer(reply) for reply in found] == [("Because.", known), ("Because.", None)]


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        ({"reasoning_tokens": 1}, Usage(3, 2, 1)),
        ({"reasoning_tokens": None}, Usage(3, 2)),
        ({"reasoning_tokens": "many"}, None),
        ([1], Usage(3, 2)),
        ("none", Usage(3, 2)),
        (None, Usage(3, 2)),
    ],
)
def test_details_of_any_shape_cost_no_answer(details: object, usage: Usage | None) -> None:
    """What is no object has no reasoning in it."""
    body = counting("openai", 3, 2, completion_tokens_details=details)
    (found,), _ = heard("openai", http(body, STREAMS["openai"]))
    assert answer(found) == ("Because.", usage)


@pytest.mark.parametrize(
    "more",
    [
        {"created_at": 1_700_000_000},
        {"logprobs": "none"},
        {"total_duration": "long"},
        {"model": None},
        {"message": {"content": "Because.", "role": 7, "tool_calls": "none", "images": 7}},
        {"message": {"content": "Because.", "thinking": {"text": "hm"}}},
    ],
)
def test_a_line_of_ollama_is_read_for_its_answer_alone(more: dict[str, Any]) -> None:
    """The package's own type refused the whole line for a date in numbers."""
    (found,), _ = heard("ollama", http(counting("ollama", 3, 2, **more), STREAMS["ollama"]))
    assert answer(found) == ("Because.", Usage(3, 2))


@pytest.mark.parametrize("index", [0, None, "0"])
def test_of_several_answers_the_first_is_taken(index: object) -> None:
    """A second one came out glued into the first, word by word, and its end ended both."""
    pieces: list[Any] = [
        {"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": "content_filter"}]},
        {"choices": [{"index": index, "delta": {"content": "Yes."}}, {"index": 1, "delta": {"content": "Never."}}]},
        {"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]},
    ]
    body = "".join(frame("openai", piece) for piece in pieces) + "data: [DONE]\n\n"
    (found,), _ = heard("openai", http(body, STREAMS["openai"]))
    assert answer(found) == ("Yes.", None)


def test_of_several_answers_in_one_piece_the_first_is_taken() -> None:
    """Also where the host does not number them."""
    whole = {"choices": [{"message": {"content": text}, "finish_reason": "stop"} for text in ("Yes.", "No.")]}
    (found,), _ = heard("openai", http(json.dumps(whole), "application/json"))
    assert answer(found) == ("Yes.", None)


@pytest.mark.parametrize("charset", ["", "; charset=latin-1", "; charset=utf-16", "; charset=nonsense"])
def test_a_stream_is_utf_8_whatever_its_head_says(protocol: str, charset: str) -> None:
    """A gateway's default charset turned every accent into two characters."""
    response = http(saying(protocol, "Weil’s so ist. é"), STREAMS[protocol] + charset)
    (found,), _ = heard(protocol, response)
    assert answer(found)[0] == "Weil’s so ist. é"


@pytest.mark.parametrize("slices", [1, 1 << 20])
def test_a_mark_at_the_start_of_a_body_is_none_of_it(protocol: str, slices: int) -> None:
    """A byte order mark hid the first piece of an answer, or made all of it unreadable."""
    response = http("\ufeff" + saying(protocol, "\ufeffBecause."), STREAMS[protocol])
    (found,), _ = heard(protocol, response, slices=slices)
    assert answer(found)[0] == "\ufeffBecause."


def test_a_mark_and_a_charset_of_a_whole_reply_are_ignored_too() -> None:
    """JSON is UTF-8 as well."""
    whole = {"choices": [{"message": {"content": "é"}, "finish_reason": "stop"}]}
    body = "\ufeff" + json.dumps(whole, ensure_ascii=False)
    (found,), _ = heard("openai", http(body, "application/json; charset=latin-1"))
    assert answer(found)[0] == "é"


def test_bytes_that_are_no_characters_are_replaced(protocol: str) -> None:
    """The rest of the answer is as good as ever."""
    body = saying(protocol, "a~b").encode().replace(b"~", b"\xff")
    (found,), _ = heard(protocol, http(body, STREAMS[protocol]))
    assert answer(found)[0] == "a\ufffdb"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate", "br", "identity, gzip"])
def test_a_packed_reply_is_not_unpacked(protocol: str, encoding: str) -> None:
    """583 kB of gzip became 600 MB in memory. None is asked for; of an error only its status is left."""
    packed = gzip.compress(saying(protocol, "Because.").encode())
    headers = f"Content-Encoding: {encoding}\r\nRetry-After: 7\r\n"
    ok, error = (http(packed, STREAMS[protocol], status, headers) for status in ("200 OK", "429 Too Many"))
    (first, second, third), heads = heard(protocol, ok, error, http(saying(protocol, "Because."), STREAMS[protocol]))
    assert first.fault is not None
    assert first.fault.kind is Kind.UNREADABLE
    assert second.fault is not None
    assert (second.fault.kind, second.fault.status, second.fault.words.text) == (Kind.STATUS, 429, "")
    assert second.fault.retry_after_s == 7
    assert answer(third)[0] == "Because."
    assert all(head.count("accept-encoding") == head.count("accept-encoding: identity\r\n") == 1 for head in heads)


def test_a_reply_that_says_it_is_not_packed_is_read(protocol: str) -> None:
    """It is what was asked for."""
    response = http(saying(protocol, "Because."), STREAMS[protocol], headers="Content-Encoding: identity\r\n")
    (found,), _ = heard(protocol, response)
    assert answer(found)[0] == "Because."


@pytest.mark.parametrize("parts", ["[{}]", '[{"index":1}]'])
def test_a_list_that_no_answer_has_is_unreadable(parts: str) -> None:
    """Eight megabytes of empty parts kept all other calls of the worker waiting for ten seconds."""
    many = f"[{','.join([parts[1:-1]] * 10_001)}]"
    bodies = {
        "openai": [f'{{"choices":{many}}}', f'{{"choices":[{{"delta":{{"content":{many}}}}}]}}'],
        "anthropic": [f'{{"type":"message","content":{many}}}'],
        "gemini": [f'{{"candidates":{many}}}', f'{{"candidates":[{{"content":{{"parts":{many}}}}}]}}'],
    }
    for protocol, told in bodies.items():
        found, _ = heard(protocol, *[http(body, "application/json") for body in told])
        assert [reply.fault and reply.fault.kind for reply in found] == [Kind.UNREADABLE] * len(told), protocol
