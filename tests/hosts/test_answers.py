"""Answers that are well-formed and yet not what a caller hopes for, in every protocol."""

from __future__ import annotations

import httpx
import pytest

from tests.hosts import Host, Outcome, literal
from tests.hosts.answers import TEXT
from tests.hosts.listener import endpoint_of, hear, question, stage


def test_an_answer_may_have_any_content_type(host: Host, protocol: str, stream: bool) -> None:
    """The body is right, only its label is not."""
    heard = hear(stage(host, protocol, "ok:type=text/html"), protocol, stream=stream)
    assert heard.whole
    assert (heard.text, heard.headers["content-type"]) == (TEXT, "text/html")


def test_a_repeated_answer_ends_in_one_unit(host: Host, protocol: str, stream: bool) -> None:
    """It began well, and it ends as the protocol says."""
    heard = hear(stage(host, protocol, f"repeat:text={literal('ha, ')}:times=500"), protocol, stream=stream)
    assert heard.whole
    assert heard.text == f"{TEXT} {'ha, ' * 500}"
    assert hear(stage(host, protocol, "repeat"), protocol, stream=stream).text.count("and so on") == 200


def test_no_done_lacks_nothing_but_the_last_mark(host: Host, protocol: str, stream: bool) -> None:
    """Where finish reason and mark are one, it lacks both."""
    url = stage(host, protocol, "no-done")
    heard = hear(url, protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text) == (200, None, TEXT)
    apart = stream and protocol in {"openai", "anthropic"}
    assert (heard.finish, heard.marked) == ("stop" if apart else None, False)
    assert heard.usage == (7, 5) or not apart
    assert host.calls(url)[0].outcome is Outcome.SERVED


def test_a_body_may_be_compressed_though_nobody_asked(
    host: Host, protocol: str, stream: bool, client: httpx.Client
) -> None:
    """And small in its compressed form, whatever comes out of it."""
    heard = hear(stage(host, protocol, "gzip"), protocol, stream=stream)
    assert heard.whole
    assert (heard.text, heard.headers["content-encoding"]) == (TEXT, "gzip")
    url = stage(host, protocol, "gzip:mb=2") + endpoint_of(protocol, stream=stream)
    answer = client.post(url, json=question(protocol, stream=stream))
    assert len(answer.content) > 2 * 2**20 > 100 * int(answer.headers["content-length"])


def test_a_body_may_say_it_is_compressed_and_not_be(host: Host, protocol: str, stream: bool) -> None:
    """Nobody can read it then."""
    heard = hear(stage(host, protocol, "gzip:garbage"), protocol, stream=stream)
    assert (heard.status, heard.broken) == (200, httpx.DecodingError)


def test_a_header_may_be_longer_than_clients_take(host: Host, protocol: str, stream: bool) -> None:
    """By default longer than any does."""
    assert hear(stage(host, protocol, "long-header"), protocol, stream=stream).broken is httpx.RemoteProtocolError
    heard = hear(stage(host, protocol, "long-header:kb=4"), protocol, stream=stream)
    assert (heard.text, len(heard.headers["x-long"])) == (TEXT, 4096)


@pytest.mark.parametrize("script", ["null-choices", "empty-candidates"])
def test_an_answer_may_have_no_place_for_its_text(host: Host, protocol: str, *, stream: bool, script: str) -> None:
    """Status 200, well-formed JSON, no error, and null or nothing where the text should be."""
    heard = hear(stage(host, protocol, f"{script}:input=9"), protocol, stream=stream)
    assert (heard.status, heard.broken, heard.text, heard.error) == (200, None, "", None)
    place = {"openai": "choices", "anthropic": "content", "gemini": "candidates", "ollama": "message"}[protocol]
    answer = heard.objects[0]
    if stream and protocol == "anthropic":
        assert (answer["message"] is None) is (script == "null-choices")
    elif script == "null-choices":
        assert answer[place] is None
    else:
        assert not answer.get(place, [])
        assert heard.usage
    assert heard.marked or not stream or protocol == "gemini"
