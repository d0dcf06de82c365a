"""Connections and bodies that break, and headers and chunks that never come to an end, in every protocol."""

from __future__ import annotations

import httpx
import pytest

from tests.eventually import eventually
from tests.hosts import Host, Outcome
from tests.hosts.answers import TEXT
from tests.hosts.listener import endpoint_of, hear, question, read_until, send, stage


@pytest.mark.parametrize("past", ["", ":past"])
def test_a_late_cut_comes_after_all_of_the_text(host: Host, protocol: str, *, stream: bool, past: str) -> None:
    """Before the last mark, or between it and the end of the body, which is nobody's loss."""
    url = stage(host, protocol, f"late-cut{past}")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken) == (200, httpx.RemoteProtocolError)
    if stream:
        apart = protocol in {"openai", "anthropic"}
        assert (heard.text, heard.marked, heard.finish is not None) == (TEXT, bool(past), apart or bool(past))
    assert [call.outcome for call in host.calls(url)] == [Outcome.CUT]


def test_a_short_body_is_half_of_what_was_promised(host: Host, protocol: str, stream: bool) -> None:
    """And never its end."""
    url = stage(host, protocol, "short")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken, heard.finish) == (200, httpx.RemoteProtocolError, None)
    with send(url, protocol, stream=stream) as endpoint:
        head, _, body = read_until(endpoint, b"never").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(body) == int(heard.headers["content-length"]) // 2


def test_a_chunk_without_a_size_breaks_the_body(host: Host, protocol: str, stream: bool) -> None:
    """What came before it arrives."""
    url = stage(host, protocol, "bad-chunks:after=2")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken) == (200, httpx.RemoteProtocolError)
    assert heard.text == ("Hello from" if stream else "")
    eventually(lambda: [call.outcome for call in host.calls(url)] == [Outcome.CUT], "the host has cut")


def test_what_is_not_http_has_no_status(host: Host, protocol: str, stream: bool) -> None:
    """Another service listens there, which speaks first."""
    url = stage(host, protocol, "not-http,ok")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken) == (0, httpx.RemoteProtocolError)
    assert hear(url, protocol, stream=stream).text == TEXT
    assert [call.outcome for call in host.calls(url)] == [Outcome.CUT, Outcome.SERVED]


def test_headers_may_have_no_end(host: Host, protocol: str) -> None:
    """Byte by byte, so that each of them resets a clock that is wound by bytes."""
    url = stage(host, protocol, "head-drip:every=0.002")
    received = b""
    with send(url, protocol) as endpoint:
        while len(received) < 100:
            some = endpoint.recv(1)
            assert some
            received += some
    assert received.startswith(b"HTTP/1.1 200 OK\r\nX-Drop: drip\r\nX-Drop")
    assert b"\r\n\r\n" not in received
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED


@pytest.mark.parametrize("script", ["whitespace:every=0.001", "role-only:every=0.001"])
def test_chunks_without_a_word_never_end(
    host: Host, protocol: str, *, stream: bool, script: str, client: httpx.Client
) -> None:
    """They are of an answer, unlike a comment, and yet there is no answer in them."""
    url = stage(host, protocol, script)
    endpoint = url + endpoint_of(protocol, stream=stream)
    received = b""
    with client.stream("POST", endpoint, json=question(protocol, stream=stream)) as response:
        chunks = response.iter_raw()
        while received.count(b"\n") < 50:
            received += next(chunks)
    mark = {"openai": b'"delta"', "anthropic": b'"text_delta"', "gemini": b'"candidates"', "ollama": b'"message"'}
    assert received.count(mark[protocol]) > 3 or not stream
    assert b"Hello" not in received
    assert received.count(b"content_block_start\n") == int(stream and protocol == "anthropic")
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED
