"""Ollama's models come and go: what loads one, how long it stays, and what of it is no call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.eventually import eventually
from tests.hosts import Host

MODEL = "scripted:latest"
OTHER = "other:1b"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "Why?"}], "stream": False}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(clock: Clock) -> Iterator[Host]:
    """Its clock is wound by hand."""
    with Host(clock=clock) as host:
        yield host


def post(client: httpx.Client, url: str, path: str = "/api/chat", **fields: Any) -> dict[str, Any]:
    reply = client.post(f"{url}{path}", json={**ASKED, **fields})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def resident(client: httpx.Client, url: str) -> list[str]:
    return [model["name"] for model in client.get(f"{url}/api/ps").json()["models"]]


def test_to_load_and_unload_is_no_call(host: Host, client: httpx.Client) -> None:
    """It stands among the other requests, and takes no step of the script."""
    url = host.ollama("ok:load=0.01,status:500")
    assert post(client, url, messages=[])["done_reason"] == "load"
    assert resident(client, url) == [MODEL]
    assert post(client, url, messages=[], keep_alive=0)["done_reason"] == "unload"
    assert post(client, url, "/api/generate", prompt="")["response"] == ""
    assert resident(client, url) == [MODEL]
    assert post(client, url)["done_reason"] == "stop"
    assert len(host.calls(url)) == 1
    posted = [other for other in host.others(url) if other.startswith("POST")]
    assert posted == ["POST /api/chat load", "POST /api/chat unload", "POST /api/generate load"]


def test_who_leaves_during_a_load_throws_it_away(host: Host, client: httpx.Client) -> None:
    url = host.ollama("ok:load=60")
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{url}/api/chat", json={**ASKED, "messages": []}, timeout=0.1)
    eventually(lambda: host.others(url), "the load is noted")
    assert resident(client, url) == []


def test_a_model_stays_as_long_as_the_last_request_says(host: Host, client: httpx.Client, clock: Clock) -> None:
    """From the end of the call; one that says nothing leaves it as it is; below 0 is for ever."""
    url = host.ollama("ok:load=0.01")
    post(client, url, keep_alive="1m")
    clock.now += 59
    assert resident(client, url) == [MODEL]
    post(client, url)
    clock.now += 59
    assert resident(client, url) == [MODEL]
    clock.now += 2
    assert resident(client, url) == []
    post(client, url, keep_alive=-1)
    clock.now += 1e6
    assert resident(client, url) == [MODEL]
    post(client, url, keep_alive=0)
    assert resident(client, url) == []


def test_another_model_and_another_window_are_loads_of_their_own(host: Host, client: httpx.Client) -> None:
    """And each takes the seconds that the script says."""
    url = host.ollama("ok:load=0.01", models=(MODEL, OTHER))
    small = {"num_ctx": 512}
    cold = 10_000_000
    durations = [
        post(client, url, **fields)["load_duration"]
        for fields in ({}, {}, {"options": small}, {"options": small}, {"model": OTHER}, {})
    ]
    assert [duration == cold for duration in durations] == [True, False, True, False, True, False]
    assert resident(client, url) == [MODEL, OTHER]
    assert client.get(f"{url}/api/ps").json()["models"][0]["context_length"] == 512


def test_a_prompt_is_a_call_like_a_chat(host: Host, client: httpx.Client) -> None:
    """With Ollama's other place for the text, whatever the script does with calls."""
    url = host.ollama("ok:echo,thinking,status:500")
    assert post(client, url, "/api/generate", prompt="Why not?", system="Be brief.")["response"] == "Why not?"
    thought = post(client, url, "/api/generate", prompt="Why not?")
    assert thought["thinking"]
    assert thought["prompt_eval_count"] == 2
    assert client.post(f"{url}/api/generate", json={**ASKED, "prompt": "Why?"}).status_code == 500
    assert [call.path for call in host.calls(url)] == ["/api/generate"] * 3


def test_a_strict_stages_refusals_are_no_calls(host: Host, client: httpx.Client) -> None:
    """A stage that is not strict takes them all, as it always did."""
    strict, lenient = host.ollama(strict=True), host.ollama()
    wrong = {**ASKED, "model": "no-such-model"}
    assert [client.post(f"{url}/api/chat", json=wrong).status_code for url in (strict, lenient)] == [404, 200]
    assert (len(host.calls(strict)), len(host.calls(lenient))) == (0, 1)
    assert host.others(strict) == ["POST /api/chat refused"]


def test_who_leaves_a_strict_stages_queue_is_never_served(host: Host, client: httpx.Client) -> None:
    """One is served and never ends, one waits and leaves; when the first leaves too, the third is next."""
    url = host.ollama("drip,ok", strict=True)
    with client.stream("POST", f"{url}/api/chat", json={**ASKED, "stream": True}) as response:
        pieces = response.iter_raw()  # once it is nobody's any more, the connection closes
        next(pieces)
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"{url}/api/chat", json=ASKED, timeout=0.1)
    assert post(client, url)["done"]
    assert (len(host.calls(url)), host.most_at_once(url)) == (2, 1)
