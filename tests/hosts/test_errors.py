"""The errors a host tells, in every protocol."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.eventually import eventually
from tests.hosts import Host, Outcome, literal
from tests.hosts.answers import TEXT
from tests.hosts.listener import MARKS, QUESTION, endpoint_of, hear, hear_at, question, stage

KEYS = {
    "openai": ("Authorization", "Bearer key-7"),
    "anthropic": ("x-api-key", "key-7"),
    "gemini": ("x-goog-api-key", "key-7"),
    "ollama": ("Authorization", "Bearer key-7"),
}


def message_of(error: Any) -> str:
    return str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("behaviour", ["status:400", "error-200:400", "error-in-stream:400", "late-error:400"])
def test_code_type_and_parameter_stand_where_the_vendor_puts_them(
    host: Host, protocol: str, *, stream: bool, behaviour: str
) -> None:
    """In whichever way the error comes."""
    script = f"{behaviour}:code=too_long:type=bad:param=messages:message=No"
    error = hear(stage(host, protocol, script), protocol, stream=stream).error
    place = "type.googleapis.com/google.rpc."
    details = [
        {"@type": f"{place}ErrorInfo", "reason": "too_long", "domain": "googleapis.com"},
        {"@type": f"{place}BadRequest", "fieldViolations": [{"field": "messages", "description": "No"}]},
    ]
    assert (
        error
        == {
            "openai": {"message": "No", "type": "bad", "param": "messages", "code": "too_long"},
            "anthropic": {"type": "bad", "message": "No", "details": {"error_code": "too_long"}},
            "gemini": {"code": 400, "message": "No", "status": "bad", "details": details},
            "ollama": "No",
        }[protocol]
    )


@pytest.mark.parametrize("behaviour", ["ok", "status:429", "error-200", "error-in-stream", "stall:after=0"])
def test_any_answer_may_say_when_to_come_back(host: Host, protocol: str, client: httpx.Client, behaviour: str) -> None:
    """In each spelling there is, a date included."""
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    script = f"{behaviour}:retry-after={literal(date)}:retry-after-ms=1500:x-ms-retry-after-ms=20:x-should-retry=true"
    url = stage(host, protocol, script) + endpoint_of(protocol, stream=True)
    with client.stream("POST", url, json=question(protocol, stream=True)) as response:
        headers = response.headers
    names = ("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-should-retry")
    assert [headers[name] for name in names] == [date, "1500", "20", "true"]


def test_an_error_with_status_200_is_all_there_is(host: Host, protocol: str, stream: bool) -> None:
    """One JSON body, also for a call that streams; a code of digits is a number where the vendor has one."""
    heard = hear(stage(host, protocol, "error-200:code=429:message=Slow down"), protocol, stream=stream)
    assert (heard.status, heard.text, heard.finish) == (200, "", None)
    assert heard.headers["content-type"] == "application/json"
    assert json.loads(heard.body) == heard.objects[0]
    assert message_of(heard.error) == "Slow down"
    if protocol in {"openai", "gemini"}:
        assert heard.error["code"] == 429


@pytest.mark.parametrize("behaviour", ["status:400", "error-200"])
def test_an_error_may_come_in_a_list(host: Host, protocol: str, behaviour: str) -> None:
    """Gemini does that."""
    heard = hear(stage(host, protocol, f"{behaviour}:list"), protocol, stream=True)
    assert json.loads(heard.body) == heard.objects
    assert heard.error


@pytest.mark.parametrize("code", ["429", "503"])
def test_an_error_in_the_stream_is_as_one_by_status(host: Host, protocol: str, code: str) -> None:
    """The same object, whatever the status of the stream; it may be the first thing in it."""
    url = stage(host, protocol, f"status:{code},error-in-stream:{code}:after=0,error-in-stream:code={code}")
    refused, first, numbered = (hear(url, protocol, stream=True) for _ in range(3))
    assert (first.status, first.text, first.error) == (200, "", refused.error)
    assert message_of(numbered.error) == message_of(refused.error)


@pytest.mark.parametrize("past", ["", ":past"])
def test_a_late_error_comes_after_all_of_the_text(host: Host, protocol: str, *, stream: bool, past: str) -> None:
    """Before the last mark, after it, or in its place where nothing else tells the end."""
    heard = hear(stage(host, protocol, f"late-error:message=Lost{past}"), protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text, message_of(heard.error)) == (200, None, TEXT, "Lost")
    if not stream:
        assert heard.finish == "stop"
        return
    one = protocol in {"gemini", "ollama"}
    assert (heard.finish is None, heard.marked) == (one and not past, not one or bool(past))
    if heard.marked:
        assert (heard.body.index("Lost") > heard.body.index(MARKS[protocol].decode())) is bool(past)


@pytest.mark.parametrize("behaviour", ["quote", "quote:401", "error-in-stream:quote", "error-200:quote"])
def test_a_quote_gives_away_all_that_the_caller_sent(
    host: Host, protocol: str, *, stream: bool, behaviour: str
) -> None:
    """Key, address and question, and characters that do things to a terminal."""
    url = stage(host, protocol, behaviour) + endpoint_of(protocol, stream=stream)
    heard = hear_at(url, protocol, stream=stream, headers=dict([KEYS[protocol]]))
    assert heard.status == {"quote": 400, "quote:401": 401}.get(behaviour, 200)
    message = message_of(heard.error)
    assert all(text in message for text in (KEYS[protocol][1], url, QUESTION, "\x1b[31m", "\r\n", "\x07", "\x00"))


def test_a_page_may_quote_as_well(host: Host, protocol: str) -> None:
    """A gateway's, which knows no protocol."""
    url = stage(host, protocol, "quote:502:html") + endpoint_of(protocol, stream=True)
    heard = hear_at(url, protocol, stream=True, headers=dict([KEYS[protocol]]))
    assert (heard.status, heard.headers["content-type"][:9]) == (502, "text/html")
    assert all(text in heard.body for text in ("<html>", "key-7", url, QUESTION))


def test_an_errors_body_may_have_no_end(host: Host, protocol: str, stream: bool, client: httpx.Client) -> None:
    """Who reads errors without a clock reads this one for ever."""
    url = stage(host, protocol, "status:503:drip:every=0.01")
    endpoint = url + endpoint_of(protocol, stream=stream)
    with client.stream("POST", endpoint, json=question(protocol, stream=stream)) as response:
        assert response.status_code == 503
        chunks, received = response.iter_raw(), b""
        while received.count(b"No. ") < 3:
            received += next(chunks)
    call = eventually(lambda: [c for c in host.calls(url) if c.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED


def test_an_errors_body_may_be_huge(host: Host, protocol: str, stream: bool) -> None:
    """In the protocol's shape all the same."""
    heard = hear(stage(host, protocol, "status:500:mb=1.5"), protocol, stream=stream)
    assert heard.status == 500
    assert len(message_of(heard.error)) == 1.5 * 2**20
