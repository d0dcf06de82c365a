"""What each behaviour sends, in every protocol, streaming and in one piece."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.eventually import eventually
from tests.hosts import Host, Outcome, literal
from tests.hosts.answers import TEXT, THINKING, pieces
from tests.hosts.errors import PAGE
from tests.hosts.listener import QUESTION, endpoint_of, hear, question, read_until_silence, send, stage

#: How long to wait for what must not come, in seconds.
IN_VAIN = 0.05


def test_ok_is_a_whole_answer_with_its_usage(host: Host, protocol: str, stream: bool) -> None:
    """Words are the tokens: two of the system's message and five of the question went in."""
    url = stage(host, protocol, "ok")
    heard = hear(url, protocol, stream=stream)
    assert heard.whole
    assert (heard.text, heard.thinking, heard.finish, heard.usage) == (TEXT, "", "stop", (7, 5))
    assert [call.outcome for call in host.calls(url)] == [Outcome.SERVED]


@pytest.mark.parametrize("text", ["Straße 5/7: 100 %, \\o/", "one\ntwo"])
def test_the_text_and_the_counts_can_be_given(host: Host, protocol: str, stream: bool, text: str) -> None:
    """Also a text with the script's own marks, on its way through a URL."""
    url = stage(host, protocol, f"ok:text={literal(text)}:input=1000:output=500:finish=other")
    heard = hear(url, protocol, stream=stream)
    assert (heard.text, heard.usage, heard.finish) == (text, (1000, 500), "other")


def test_echo_answers_with_the_last_user_message(host: Host, protocol: str, stream: bool, client: httpx.Client) -> None:
    """So that a test can tell whose answer it got, also where the text holds what no encoding takes."""
    heard = hear(stage(host, protocol, "ok:echo"), protocol, stream=stream, text=f"{QUESTION}  ja")
    assert heard.text == f"{QUESTION}  ja"
    url = stage(host, protocol, "ok:echo")
    body = question(protocol, stream=False)
    parts = [{"type": "text", "text": "a\ud800b"}]
    body |= {"messages": [{"role": "user", "content": parts}], "contents": [{"role": "user", "parts": parts}]}
    answer = client.post(url + endpoint_of(protocol, stream=False), content=json.dumps(body))
    assert "a?b" in answer.text


def test_thinking_comes_before_the_answer(host: Host, protocol: str, stream: bool) -> None:
    """Reasoning has a place of its own in each protocol and counts as output."""
    heard = hear(stage(host, protocol, "thinking"), protocol, stream=stream)
    assert heard.whole
    assert (heard.thinking, heard.text, heard.usage) == (THINKING, TEXT, (7, 11))
    assert heard.body.index("Let") < heard.body.index("Hello") or not stream


@pytest.mark.parametrize(
    ("script", "text", "thinking", "finish"),
    [
        ("length", TEXT, "", "length"),
        ("length-empty", "", "", "length"),
        ("length-empty:thinking", "", THINKING, "length"),
        ("empty", "", "", "stop"),
    ],
)
def test_an_answer_may_be_cut_by_its_length_or_empty(
    host: Host, protocol: str, *, stream: bool, script: str, text: str, thinking: str, finish: str
) -> None:
    """All of them end as the protocol says."""
    heard = hear(stage(host, protocol, script), protocol, stream=stream)
    assert heard.whole
    assert (heard.text, heard.thinking, heard.finish) == (text, thinking, finish)


def test_no_end_is_all_of_the_text_without_an_end_marker(host: Host, protocol: str, stream: bool) -> None:
    """The body ends cleanly: only the missing marker tells."""
    url = stage(host, protocol, "no-end")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text) == (200, None, TEXT)
    assert (heard.finish, heard.marked) == (None, False)
    assert host.calls(url)[0].outcome is Outcome.SERVED


def test_a_status_has_the_protocols_error_and_its_headers(host: Host, protocol: str, stream: bool) -> None:
    """Each vendor has a place of its own for the code; Ollama's error is a string."""
    heard = hear(
        stage(host, protocol, "status:429:code=out:message=No more:retry-after=7:x-tries=0"), protocol, stream=stream
    )
    assert (heard.status, heard.headers["retry-after"], heard.headers["x-tries"]) == (429, "7", "0")
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "out", "domain": "googleapis.com"}
    wanted = {
        "openai": {"message": "No more", "type": "rate_limit_error", "param": None, "code": "out"},
        "anthropic": {"type": "rate_limit_error", "message": "No more", "details": {"error_code": "out"}},
        "gemini": {"code": 429, "message": "No more", "status": "RESOURCE_EXHAUSTED", "details": [info]},
        "ollama": "No more",
    }
    assert heard.error == wanted[protocol]


@pytest.mark.parametrize("code", [400, 401, 404, 429, 500, 503, 529])
def test_each_status_has_an_error_of_its_own(host: Host, protocol: str, code: int) -> None:
    """Also one that has no name."""
    heard = hear(stage(host, protocol, f"status:{code}"), protocol, stream=True)
    assert heard.status == code
    assert heard.error


def test_a_status_may_have_a_page_or_any_body(host: Host, protocol: str, stream: bool) -> None:
    """A proxy's error page, and the body of a host that is none of ours."""
    page = hear(stage(host, protocol, "status:502:html"), protocol, stream=stream)
    assert (page.status, page.headers["content-type"], page.body) == (502, "text/html; charset=utf-8", f"{PAGE}\n")
    body = '{"error": {"code": 8, "list": [1, 2]}}'
    other = hear(stage(host, protocol, f"status:200:body={literal(body)}"), protocol, stream=stream)
    assert (other.status, other.body) == (200, f"{body}\n")
    assert hear(stage(host, protocol, "status:500:body="), protocol, stream=stream).body == ""


def test_a_redirect_leads_to_a_page_that_is_no_call(host: Host, protocol: str, client: httpx.Client) -> None:
    """A client that follows shows it in the stage's other requests."""
    url = stage(host, protocol, "redirect")
    answer = client.post(
        url + endpoint_of(protocol, stream=True), json=question(protocol, stream=True), follow_redirects=True
    )
    assert [step.status_code for step in answer.history] == [302]
    assert answer.text == PAGE
    assert (len(host.calls(url)), host.others(url)) == (1, ["GET /elsewhere"])


def test_a_redirect_may_lead_anywhere(host: Host, protocol: str) -> None:
    """Another place, another status."""
    target = host.openai()
    heard = hear(stage(host, protocol, f"redirect:307:to={literal(target)}"), protocol, stream=True)
    assert (heard.status, heard.headers["location"]) == (307, target)


@pytest.mark.parametrize(
    ("script", "mark", "times"),
    [
        ("silent", b"", 0),
        ("head-only", b"\r\n\r\n", 1),
        ("stall:after=0", b"\r\n\r\n", 1),
        ("stall:after=2", b" from", 1),
        ("stall:after=7", b" from", 2),
    ],
)
def test_nothing_more_comes_after_a_point(
    host: Host, protocol: str, *, stream: bool, script: str, mark: bytes, times: int
) -> None:
    """The client waits in vain and gives up, and the host logs that it did."""
    url = stage(host, protocol, script)
    received = b""
    with send(url, protocol, stream=stream) as endpoint:
        while received.count(mark) < times:
            received += endpoint.recv(65536)
        received += read_until_silence(endpoint, IN_VAIN)
    assert received.count(mark) == times or not mark
    assert received.count(b" the") == max(times - 1, 0)
    assert received or script == "silent"
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert (call.outcome, call.closed_at) == (Outcome.ABORTED, call.ended)


@pytest.mark.parametrize("script", ["drip:every=0.005", "blanks:every=0.005"])
def test_a_drip_and_blanks_never_end(
    host: Host, protocol: str, stream: bool, script: str, client: httpx.Client
) -> None:
    """They go on until the client leaves; only a drip has text."""
    url = stage(host, protocol, script)
    mark, other = (b"Hello", b": keep-alive") if script.startswith("drip") else (b"\n", b"Hello")
    received = b""
    with client.stream(
        "POST", url + endpoint_of(protocol, stream=stream), json=question(protocol, stream=stream)
    ) as response:
        chunks = response.iter_raw()
        while received.count(mark) < 4:
            received += next(chunks)
    assert other not in received
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED


@pytest.mark.parametrize(
    ("script", "status", "text"),
    [("cut:after=2", 200, "Hello from"), ("cut:after=0", 200, ""), ("cut-head", 0, "")],
)
@pytest.mark.parametrize("how", ["", ":reset"])
def test_a_cut_is_a_broken_body(
    host: Host, protocol: str, *, stream: bool, script: str, status: int, text: str, how: str
) -> None:
    """What was sent before arrives; a reset looks different from a close."""
    url = stage(host, protocol, script + how)
    heard = hear(url, protocol, stream=stream)
    if not how:
        assert (heard.status, heard.text) == (status, text if stream else "")
    assert heard.broken is (httpx.ReadError if how else httpx.RemoteProtocolError)
    assert [call.outcome for call in host.calls(url)] == [Outcome.CUT]


def test_an_error_in_the_stream_comes_after_some_text(host: Host, protocol: str, stream: bool) -> None:
    """The status was 200 long ago, and the body ends cleanly."""
    heard = hear(stage(host, protocol, "error-in-stream:message=out of memory"), protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text) == (200, None, "Hello" if stream else "")
    assert "out of memory" in str(heard.error)
    assert (heard.finish, heard.marked) == (None, False)


@pytest.mark.parametrize("kind", ["", ":garbage", ":shape"])
def test_an_unreadable_body_has_status_200_and_no_answer(host: Host, protocol: str, stream: bool, kind: str) -> None:
    """A page, half an object, or an object that the protocol does not have."""
    heard = hear(stage(host, protocol, f"unreadable{kind}"), protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text, heard.finish) == (200, None, "", None)
    assert heard.body
    assert bool(heard.objects) is (kind == ":shape")


@pytest.mark.parametrize("how", ["", ":line"])
def test_big_is_as_big_as_was_asked(host: Host, protocol: str, stream: bool, how: str) -> None:
    """Megabytes of text with a proper end."""
    heard = hear(stage(host, protocol, f"big:mb=1.5{how}"), protocol, stream=stream)
    assert heard.whole
    assert len(heard.text) == 1.5 * 2**20
    assert (max(map(len, heard.body.splitlines())) > 2**20) is (how == ":line" or not stream)


def test_leaving_a_big_answer_half_way_is_logged_as_aborted(
    host: Host, protocol: str, stream: bool, client: httpx.Client
) -> None:
    """The host was held up by a full socket then, not by a clock."""
    url = stage(host, protocol, "big:mb=40")
    with client.stream(
        "POST", url + endpoint_of(protocol, stream=stream), json=question(protocol, stream=stream)
    ) as response:
        chunks = response.iter_raw()
        next(chunks)
        assert host.in_flight(url) == 1
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED


def test_a_delay_goes_with_any_behaviour(host: Host, protocol: str, stream: bool) -> None:
    """Nothing is sent before it is over."""
    for script in ("ok:delay=0.05", "status:500:delay=0.05", "cut-head:delay=0.05"):
        url = stage(host, protocol, script)
        hear(url, protocol, stream=stream)
        call = host.calls(url)[0]
        assert call.ended is not None
        assert call.ended - call.started >= 0.045


def test_chunks_can_be_spread_over_time(host: Host, protocol: str) -> None:
    """Five chunks have four gaps."""
    url = stage(host, protocol, "ok:every=0.05")
    assert hear(url, protocol, stream=True).text == TEXT
    call = host.calls(url)[0]
    assert call.ended is not None
    assert call.ended - call.started >= 0.19


@pytest.mark.parametrize("text", ["", "one", "a  b ", "word " * 1000, "\n"])
def test_pieces_make_up_the_text_and_are_few(text: str) -> None:
    """Blanks are neither lost nor added."""
    assert "".join(pieces(text)) == text
    assert len(pieces(text)) <= 8
