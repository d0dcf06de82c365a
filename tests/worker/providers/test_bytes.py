"""What is read off the socket: lines, characters, heads, and bodies of any size."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from tests.worker.providers.raw import STREAMS, begun, frame, heard, http, saying
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind


def kind(found: Reply) -> Kind | None:
    return found.fault.kind if found.fault else None


def text(found: Reply) -> str:
    assert found.fault is None, (found.fault.kind, found.fault.words)
    assert found.end is not None
    return found.text


@pytest.mark.parametrize(
    "odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "😀", "é", "\x00"]
)
def test_every_character_comes_through(protocol: str, odd: str) -> None:
    """HTTP clients break lines at U+2028, U+0085 and others; JSON may hold them, and such answers were unreadable."""
    said = f"one{odd}two"
    (found,), _ = heard(protocol, http(saying(protocol, said), STREAMS[protocol]))
    assert text(found) == said


def test_characters_and_lines_may_come_in_any_slices(protocol: str) -> None:
    """One byte at a time, and with the line ends of another system."""
    said = "Weil’s so ist. 😀"
    (found,), _ = heard(protocol, http(saying(protocol, said), STREAMS[protocol]), slices=1)
    assert text(found) == said
    (found,), _ = heard(protocol, http(saying(protocol, said).replace("\n", "\r\n"), STREAMS[protocol]), slices=3)
    assert text(found) == said


def test_a_last_line_without_an_end_is_read_too(protocol: str) -> None:
    """Not every host ends its body with a line break."""
    (found,), _ = heard(protocol, http(saying(protocol, "Because.").rstrip("\n"), STREAMS[protocol]))
    assert text(found) == "Because."


def test_a_host_that_does_not_stream_is_read_as_a_whole() -> None:
    """Some endpoints ignore the wish; its answer and its errors look different then."""
    message = {"choices": [{"message": {"content": "Because."}, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 3, "completion_tokens": 2}}  # fmt: skip
    error = {"error": {"message": "no", "code": "insufficient_quota"}}
    (whole, failed), _ = heard(
        "openai", http(json.dumps(message), "application/json"), http(json.dumps(error), "application/json")
    )
    assert text(whole) == "Because."
    assert whole.end is not None
    assert whole.end.usage == Usage(3, 2)
    assert kind(failed) is Kind.IN_STREAM
    assert failed.fault is not None
    assert failed.fault.words.codes == ("insufficient_quota",)


def test_no_cookie_is_ever_sent_back(protocol: str) -> None:
    """A balancer's cookie would tie all of a worker's calls to one broken machine. The second call had it."""
    response = http(saying(protocol, "a"), STREAMS[protocol], headers="Set-Cookie: machine=7; Path=/\r\n")
    found, heads = heard(protocol, response, response)
    assert [text(reply) for reply in found] == ["a", "a"]
    assert len(heads) == 2
    assert "cookie" not in "".join(heads)


@pytest.mark.parametrize(
    "status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
)
def test_a_redirect_is_a_wrong_address(protocol: str, status: str) -> None:
    """The request and its key stay where they were sent."""
    response = http("", "text/html", status, "Location: /elsewhere\r\n")
    (found,), heads = heard(protocol, response)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.status) == (Kind.STATUS, int(status[:3]))
    assert len(heads) == 1


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"hello\r\n\r\n", Kind.UNREADABLE),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", Kind.CUT),
        (b"", Kind.CUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", Kind.CUT),
    ],
)
def test_what_is_no_whole_response_is_told_apart(protocol: str, response: bytes, expected: Kind) -> None:
    """Not as a connection that could not be made, which is what the transport calls all of them."""
    (found,), heads = heard(protocol, response, close=True)
    assert kind(found) is expected
    assert len(heads) == 1


@pytest.mark.parametrize(("length", "expected"), [(20_000, None), (200_000, Kind.UNREADABLE)])
def test_long_heads_are_taken_and_endless_ones_are_not(protocol: str, length: int, expected: Kind | None) -> None:
    """Some gateways send a policy of many kilobytes; the transport's own limit is 8."""
    response = http(saying(protocol, "Because."), STREAMS[protocol], headers=f"X-Policy: {'x' * length}\r\n")
    (found,), _ = heard(protocol, response)
    assert kind(found) is expected


@pytest.mark.parametrize("status", ["500 Oops", "400 Bad Request"])
def test_an_error_is_read_no_further_than_any_body(protocol: str, status: str) -> None:
    """Twelve megabytes of an error page are not read to the end; a wrong key was told as an unreadable reply."""
    (found,), _ = heard(protocol, http(b"x" * 12_000_000, "text/plain", status))
    assert found.fault is not None
    assert (found.fault.kind, found.fault.status) == (Kind.STATUS, int(status[:3]))
    assert set(found.fault.words.text) == {"x"}


def test_a_connection_that_the_host_closed_meanwhile_is_made_anew(protocol: str) -> None:
    """Nothing had been sent on it: this is no second call."""
    response = http(saying(protocol, "Because."), STREAMS[protocol])
    found, heads = heard(protocol, response, response, response, close=True)
    assert [text(reply) for reply in found] == ["Because."] * 3
    assert len(heads) == 3


@pytest.mark.parametrize(
    "value",
    [[1], "text", 7, {"choices": [7]}, {"choices": 7}, {"choices": [{"delta": 7}]}],
)
def test_an_object_of_another_shape_is_unreadable(value: object) -> None:
    """And never an exception that leaves the adapter."""
    (found,), _ = heard("openai", http(frame("openai", value), STREAMS["openai"]))
    assert kind(found) is Kind.UNREADABLE


@pytest.mark.parametrize("value", [[1], "text", 7, None, {"message": 7}, {"done": True}, {"message": {"content": 7}}])
def test_an_object_of_another_shape_is_unreadable_for_ollama_too(value: object) -> None:
    """A line without a message is none of an answer."""
    (found,), _ = heard("ollama", http(frame("ollama", value), STREAMS["ollama"]))
    assert kind(found) is Kind.UNREADABLE


@pytest.mark.parametrize(
    "error", ["out of memory", {"message": "out of memory"}, '{"error": {"message": "out of memory"}}']
)
def test_an_error_in_a_stream_is_understood_in_any_shape(protocol: str, error: object) -> None:
    """Text, an object, or JSON in a text, as llama.cpp's is handed through."""
    body = begun(protocol, "Because.") + frame(protocol, {"error": error})
    (found,), _ = heard(protocol, http(body, STREAMS[protocol]))
    assert found.fault is not None
    assert (found.fault.kind, found.fault.words.text, found.text) == (Kind.IN_STREAM, "out of memory", "Because.")


def test_a_refusal_is_a_filter() -> None:
    """OpenAI says it in a field of its own, with a finish like any other."""
    body = frame("openai", {"choices": [{"delta": {"refusal": "I cannot"}}]}) + saying("openai", "")
    (found,), _ = heard("openai", http(body, STREAMS["openai"]))
    assert found.end is not None
    assert found.end.finish_reason == "content_filter"


def test_a_page_in_place_of_a_stream_is_seen_at_its_first_line() -> None:
    """A login page of a proxy, with status 200."""
    (found,), _ = heard("openai", http("\n  <!DOCTYPE html>\n<html></html>", "text/html"))
    assert found.fault is not None
    assert (found.fault.kind, found.fault.words.html) == (Kind.UNREADABLE, True)


def test_a_date_says_when_to_try_again(protocol: str) -> None:
    """HTTP allows it in place of seconds; one that has passed says nothing."""
    responses = [
        http("", "text/plain", "503 Busy", f"Retry-After: {formatdate(time.time() + seconds, usegmt=True)}\r\n")
        for seconds in (100, -100)
    ]
    (later, passed), _ = heard(protocol, *responses)
    assert later.fault is not None
    assert passed.fault is not None
    assert later.fault.retry_after_s == pytest.approx(100, abs=20)
    assert passed.fault.retry_after_s is None
