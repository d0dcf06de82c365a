"""What is Anthropic's own in the host's answers."""

from __future__ import annotations

import httpx

from tests.hosts import Host
from tests.hosts.answers import TEXT, THINKING
from tests.hosts.listener import hear, hear_at, question


def test_a_stream_is_events_that_name_themselves_twice(host: Host) -> None:
    """Blocks open and close, the reasoning is signed, what went in is counted first and what came out last."""
    heard = hear(host.anthropic("thinking:input=9:output=20"), "anthropic", stream=True)
    kinds = [item["type"] for item in heard.objects]
    named = [line.removeprefix("event: ") for line in heard.body.splitlines() if line.startswith("event: ")]
    assert named == kinds
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    started = [(i["index"], i["content_block"]["type"]) for i in heard.objects if i["type"] == "content_block_start"]
    assert started == [(0, "thinking"), (1, "text")]
    assert [item["index"] for item in heard.objects if item["type"] == "content_block_stop"] == [0, 1]
    assert [i["delta"]["type"] for i in heard.objects if i.get("index") == 0 and "delta" in i][-1] == "signature_delta"
    assert heard.objects[0]["message"]["usage"]["input_tokens"] == 9
    assert heard.objects[-2]["usage"] == {"output_tokens": 20}
    assert heard.objects[-2]["delta"]["stop_reason"] == "end_turn"


def test_a_whole_answer_has_a_block_for_each_kind(host: Host) -> None:
    """The reasoning first: a reader that takes the first block takes the wrong one."""
    (answer,) = hear(host.anthropic("thinking"), "anthropic", stream=False).objects
    assert [(block["type"], block.get("text", block.get("thinking"))) for block in answer["content"]] == [
        ("thinking", THINKING),
        ("text", TEXT),
    ]
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", "m")
    assert answer["usage"] == {"input_tokens": 7, "output_tokens": 11}


def test_the_finish_reasons_are_its_own_words(host: Host) -> None:
    """Any other is said as it is."""
    url = host.anthropic("ok,length,ok:finish=content_filter,ok:finish=pause_turn")
    heard = [hear(url, "anthropic", stream=False).objects[0]["stop_reason"] for _ in range(4)]
    assert heard == ["end_turn", "max_tokens", "refusal", "pause_turn"]


def test_the_base_url_may_bring_the_version(host: Host) -> None:
    """Some clients put /v1 before the path and some expect it of the base URL."""
    url = host.anthropic("ok")
    for endpoint in (f"{url}/v1/messages", f"{url}/messages", f"{url}/v1/messages?beta=true"):
        assert hear_at(endpoint, "anthropic", stream=True).text == TEXT
    assert [call.path for call in host.calls(url)] == ["/v1/messages", "/messages", "/v1/messages?beta=true"]


def test_the_system_text_counts_as_a_string_and_in_blocks(host: Host, client: httpx.Client) -> None:
    """It stands apart from the messages."""
    url = f"{host.anthropic()}/v1/messages"
    body = question("anthropic", stream=False)
    assert client.post(url, json=body | {"system": "Be very brief."}).json()["usage"]["input_tokens"] == 8
    assert client.post(url, json=body).json()["usage"]["input_tokens"] == 7


def test_an_error_has_a_request_id_and_an_event_of_its_own(host: Host) -> None:
    """The same object by status and in the stream."""
    url = host.anthropic("status:529,error-in-stream:529")
    refused, broken = (hear(url, "anthropic", stream=True) for _ in range(2))
    assert refused.objects == broken.objects[-1:]
    assert refused.objects[0] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "req_scripted",
    }
    assert "event: error\n" in broken.body
