"""What a host is sent: exactly this, and nothing of the environment."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from config.stages import Stage
from tests.hosts import Host
from tests.worker.providers.asking import MESSAGES, place, reply, stage_at
from worker.failover.provider import Call
from worker.failover.request import Request
from worker.providers import ollama, openai
from worker.providers.ollama import Ollama
from worker.providers.transport import Transport, _proxy, client_arguments


def stage(provider: str, **fields: Any) -> Stage:
    return Stage("s", provider, **{"base_url": "http://h/v1", "model": "m", **fields})


def call(of: Stage, tokens: int = 100, **request: Any) -> Call:
    return Call(of, Request(MESSAGES, **request), tokens)


OPENAI = {
    "model": "m",
    "messages": MESSAGES,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 100,
}
OLLAMA = {
    "model": "m",
    "messages": MESSAGES,
    "stream": True,
    "truncate": False,
    "think": False,
    "keep_alive": "30m",
    "options": {"num_ctx": 4096, "num_predict": 100},
}


def test_a_plain_question_to_openai() -> None:
    """Streamed, with the usage that only comes when it is asked for."""
    assert openai.payload(call(stage("openai"))) == OPENAI


def test_a_plain_question_to_ollama() -> None:
    """A prompt is never cut to half, the window is fixed, an answer has an end, and nothing is thought about."""
    assert ollama.payload(call(stage("ollama"))) == OLLAMA


def test_everything_a_request_may_ask_of_openai() -> None:
    """By the names of its interface."""
    asked = call(stage("openai"), temperature=0.0, stop=("a", "b"), seed=0, reasoning="low")
    more = {"temperature": 0.0, "stop": ["a", "b"], "seed": 0, "reasoning_effort": "low"}
    assert openai.payload(asked) == {**OPENAI, **more}


def test_everything_a_request_may_ask_of_ollama() -> None:
    """By the names of its interface; a model that cannot think refuses to be asked."""
    asked = call(stage("ollama", num_ctx=8192, keep_alive=-1), temperature=0.0, stop=("a",), seed=0, reasoning="high")
    options = {"num_ctx": 8192, "num_predict": 100, "temperature": 0.0, "stop": ["a"], "seed": 0}
    assert ollama.payload(asked) == {**OLLAMA, "keep_alive": -1, "think": "high", "options": options}


@pytest.mark.parametrize("reasoning", [None, "none"])
def test_no_reasoning_is_the_least_that_a_host_can_be_asked(reasoning: str | None) -> None:
    """Ollama thinks unless it is told not to; OpenAI's older models refuse the word."""
    assert openai.payload(call(stage("openai"), reasoning=reasoning)) == OPENAI
    assert ollama.payload(call(stage("ollama"), reasoning=reasoning)) == OLLAMA


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
        ("https://openai.com.example.com/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_the_host_knows(base_url: str, name: str) -> None:
    """OpenAI's newer models refuse the old name, those who imitate it know only that one."""
    sent = openai.payload(call(stage("openai", base_url=base_url)))
    assert {key: value for key, value in sent.items() if "max" in key} == {name: 100}


def test_an_answer_of_ollama_is_never_longer_than_its_window() -> None:
    """The host would take it for endless."""
    sent = ollama.payload(call(stage("ollama", num_ctx=512), tokens=2000))
    assert sent["options"] == {"num_ctx": 512, "num_predict": 512}


def test_a_requests_own_params_go_on_top_of_the_stages() -> None:
    """Only those for this stage; and nothing makes it stop streaming, for then no clock could run."""
    own = {"s": {"top_p": 0.2, "stream": False}, "other": {"top_p": 0.9}}
    of = stage("openai", params={"top_p": 0.1, "user": "u", "stream": False})
    assert openai.payload(call(of, params=own)) == {**OPENAI, "top_p": 0.2, "user": "u"}


@pytest.mark.parametrize("base_url", ["http://h/v1", "https://api.openai.com/v1"])
def test_no_param_reaches_what_a_stage_of_openai_is_for(base_url: str) -> None:
    """A request could pick a dearer model, other messages, ten answers, or no limit by the limit's other spelling."""
    bad = {"model": "dear", "messages": [], "max_tokens": 9999, "max_completion_tokens": 9999, "stream": False, "n": 10}
    plain = openai.payload(call(stage("openai", base_url=base_url)))
    assert openai.payload(call(stage("openai", base_url=base_url), params={"s": bad})) == plain
    assert openai.payload(call(stage("openai", base_url=base_url, params={**bad, "user": "u"}))) == {
        **plain,
        "user": "u",
    }


def test_params_of_ollama_reach_its_options_too() -> None:
    """Those of stage and request are merged one by one: the request's replaced all of the stage's."""
    of = stage("ollama", params={"keep_alive": "5m", "options": {"top_k": 1, "top_p": 0.1}})
    own = {"s": {"format": "json", "options": {"top_p": 0.2}}}
    options = {"num_ctx": 4096, "num_predict": 100, "top_k": 1, "top_p": 0.2}
    assert ollama.payload(call(of, params=own)) == {**OLLAMA, "keep_alive": "5m", "format": "json", "options": options}
    assert of.params["options"] == {"top_k": 1, "top_p": 0.1}


def test_no_param_reaches_what_keeps_ollama_in_order() -> None:
    """A request's could cut its prompt, load the model anew for a window of its own, or ask for an endless answer."""
    other = {"model": "large", "messages": []}
    own = {"s": {**other, "truncate": True, "stream": False, "options": {"num_ctx": 65_536, "num_predict": -1}}}
    assert ollama.payload(call(stage("ollama"), params=own)) == OLLAMA


@pytest.mark.parametrize("options", [7, "text", [1]])
def test_options_that_are_none_are_for_the_host_to_refuse(options: object) -> None:
    """It was an error of ours, told as the host's."""
    assert ollama.payload(call(stage("ollama"), params={"s": {"options": options}}))["options"] == options
    assert ollama.payload(call(stage("ollama"), params={"s": {"options": None}})) == OLLAMA


def test_what_is_built_is_what_is_sent(host: Host, protocol: str) -> None:
    """To the one path of each protocol, word for word."""
    url = place(host, protocol, "ok")
    reply(stage_at(url, protocol), temperature=0.5)
    (sent,) = host.calls(url)
    expected = {**OPENAI, "temperature": 0.5}
    if protocol == "ollama":
        expected = {**OLLAMA, "options": {"num_ctx": 4096, "num_predict": 100, "temperature": 0.5}}
    assert sent.body == expected
    assert sent.path == ("/v1/chat/completions" if protocol == "openai" else "/api/chat")


def test_a_key_is_sent_in_its_header_and_nowhere_else(host: Host, protocol: str) -> None:
    """As both protocols want it."""
    url = place(host, protocol, "ok")
    reply(stage_at(url, protocol, api_key=SecretStr("canary")))
    (sent,) = host.calls(url)
    assert sent.headers["authorization"] == "Bearer canary"
    rest = {name: value for name, value in sent.headers.items() if name != "authorization"}
    assert "canary" not in f"{rest} {sent.body} {sent.path}"


def test_without_a_key_none_is_sent(host: Host, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of the environment: the package for Ollama sends it to any host."""
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    url = place(host, protocol, "ok")
    assert reply(stage_at(url, protocol)).text
    (sent,) = host.calls(url)
    assert "authorization" not in sent.headers
    assert "canary" not in f"{sent.headers} {sent.body}"


def test_a_login_of_the_users_own_files_is_not_sent(
    host: Host, protocol: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """HTTP clients read ~/.netrc on their own account."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login canary password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    url = place(host, protocol, "ok")
    reply(stage_at(url, protocol))
    assert "authorization" not in host.calls(url)[0].headers


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/api/chat"),
        ("http://[::1]:11434", "http://[::1]:11434/api/chat"),
        ("http://gpu.lan", "http://gpu.lan/api/chat"),
        ("https://gpu.lan/ollama", "https://gpu.lan/ollama/api/chat"),
    ],
)
def test_an_ollama_host_is_asked_where_the_configuration_says(base_url: str, expected: str) -> None:
    """The package has ideas of its own about ports; http means 80 here as everywhere."""
    inner = ollama._inner(Ollama()._client(stage("ollama", base_url=base_url)))
    assert str(inner.build_request("POST", "/api/chat").url) == expected


def test_the_environments_proxy_is_for_stages_outside_the_house(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport of one's own switches the client's look-up off: a cloud behind a proxy was out of reach."""
    monkeypatch.setenv("https_proxy", "http://proxy.lan:3128")
    monkeypatch.setenv("no_proxy", "api.inside.example")
    cloud = stage("openai", base_url="https://api.example.com/v1")
    proxy = _proxy(cloud)
    assert proxy is not None
    assert str(proxy.url) == "http://proxy.lan:3128"
    for inside in (
        stage("openai", base_url="https://api.example.com/v1", local=True),
        stage("openai", base_url="https://api.inside.example/v1"),
        stage("openai", base_url="http://api.example.com/v1"),
    ):
        assert _proxy(inside) is None
    assert client_arguments(cloud)["trust_env"] is False


@pytest.mark.parametrize(("base_url", "checked"), [("https://api.example.com/v1", True), ("http://gpu.lan", False)])
def test_certificates_are_read_where_there_are_any(base_url: str, checked: bool) -> None:
    """25 ms that a refused connection in the house must not cost; and never spared where they count."""
    context = Transport(stage("openai", base_url=base_url)).ssl_context
    assert context.check_hostname is checked
