"""Connections are used again, refused at once, closed when nobody listens, and carry nothing of the environment."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from config.stages import Stage
from tests.eventually import eventually, eventually_async
from tests.hosts import Host, Outcome
from tests.worker.providers.asking import MESSAGES, place, provider_of, replies, reply, stage_at, walked
from tests.worker.providers.raw import saying
from worker.failover import accept, judge
from worker.failover.chain import Stop
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, End, Kind
from worker.failover.request import Request
from worker.providers.transport import Transport, _proxy, client_arguments


def reason(found: Reply) -> str | None:
    call = Call(Stage("first", "openai"), Request(MESSAGES), 100)
    reply = accept.of_reply(call, found.text, found.end, found.usage)
    verdict = judge.of_fault(found.fault) if found.fault else reply
    return verdict and str(verdict.reason)


def test_a_refused_connection_is_told_at_once(host: Host, protocol: str) -> None:
    """Not when the connect clock strikes, which would be a minute later."""
    clocks = {"timeout": 90, "first_token_timeout": 90, "connect_timeout": 60}
    found = replies(stage_at(host.refused(), protocol, **clocks), times=3)
    assert [reply.fault and reply.fault.kind for reply in found] == [Kind.CONNECT] * 3
    assert max(reply.duration_s for reply in found) < 30


@pytest.fixture
def deaf() -> Iterator[str]:
    """An address where the connection is never taken: the queue of those that wait is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(endpoint := socket.socket())
            endpoint.setblocking(False)
            endpoint.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        for endpoint in waiting:
            endpoint.close()


def test_the_connect_clock_strikes_where_nobody_takes_the_connection(deaf: str, protocol: str) -> None:
    """Long before the others."""
    found = reply(stage_at(deaf, protocol, connect_timeout=0.3))
    assert (reason(found), found.text) == ("connect", "")
    assert 0.25 < found.duration_s < 5


def test_calls_one_after_the_other_share_a_connection(host: Host, protocol: str) -> None:
    """Also after a failure that was told in full; only a cut needs a new one."""
    url = place(host, protocol, "ok,thinking,status:500,length,empty,error-in-stream,ok")
    replies(stage_at(url, protocol), times=7)
    assert len({call.connection for call in host.calls(url)}) == 1


@pytest.mark.parametrize(
    ("script", "reasons"),
    [
        ("ok,cut-head,ok", [None, "cut_off", None]),
        ("ok,cut-head:reset,ok", [None, "cut_off", None]),
        ("ok,cut,ok", [None, "cut_off", None]),
        ("ok,status:500,ok", [None, "server_error", None]),
        ("status:529,status:529,ok", ["overloaded", "overloaded", None]),
        ("status:429:retry-after=0,ok", ["throttled", None]),
    ],
)
def test_no_call_is_made_twice_by_any_layer(host: Host, protocol: str, script: str, reasons: list[str | None]) -> None:
    """A connection that was used before and breaks is what HTTP clients like to retry unasked."""
    url = place(host, protocol, script)
    found = replies(stage_at(url, protocol), times=len(reasons))
    assert [reason(reply) for reply in found] == reasons
    assert len(host.calls(url)) == len(reasons)


@pytest.mark.parametrize("script", ["silent", "head-only", "stall", "blanks", "drip:every=0.1"])
def test_a_cancel_closes_the_socket_at_once(host: Host, protocol: str, script: str) -> None:
    """The host stops working for it; no further stage is asked."""
    url = place(host, protocol, script)
    stop, asked = Stop(), []

    async def cancel() -> None:
        await eventually_async(lambda: host.in_flight(url), "the call is in flight")
        asked.append(time.monotonic())
        stop.ask()

    shown = walked(stage_at(url, protocol), stop, cancel)
    assert shown["status"] == "cancelled"
    assert [(row["stage"], row["outcome"]) for row in shown["attempts"]] == [("first", "cancelled")]
    call = eventually(lambda: [call for call in host.calls(url) if call.ended], "the host saw the close")[0]
    assert (call.outcome, len(host.calls(url))) == (Outcome.ABORTED, 1)
    assert call.closed_at is not None
    assert call.closed_at - asked[0] < 1


def test_a_cancelled_call_leaves_the_provider_as_it_was(host: Host, protocol: str) -> None:
    """The next call gets a connection that works."""

    async def asking() -> list[Reply]:
        url = place(host, protocol, "ok,stall,ok")
        call = Call(stage_at(url, protocol), Request(MESSAGES), 100)
        async with provider_of(protocol) as provider:
            first = await read(provider, call, 30)
            broken = asyncio.ensure_future(read(provider, call, 30))
            await eventually_async(lambda: host.in_flight(url), "the second call is in flight")
            broken.cancel()
            with pytest.raises(asyncio.CancelledError):
                await broken
            return [first, await read(provider, call, 30)]

    assert [reason(reply) for reply in asyncio.run(asking())] == [None, None]


def test_a_hundred_and_twenty_calls_are_in_flight_together(host: Host, protocol: str) -> None:
    """The pool has no bound of its own, where HTTP clients stop at 100; all are closed in the end."""
    url = place(host, protocol, "silent")

    async def asking() -> None:
        call = Call(stage_at(url, protocol), Request(MESSAGES), 100)
        async with provider_of(protocol) as provider:
            calls = [asyncio.ensure_future(read(provider, call, 30)) for _ in range(120)]
            await eventually_async(lambda: host.in_flight(url) == 120, "all calls are in flight")
            for under_way in calls:
                under_way.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(asking())
    eventually(lambda: host.in_flight(url) == 0, "all sockets are closed")
    assert {call.outcome for call in host.calls(url)} == {Outcome.ABORTED}


KEYS = {
    "openai": {"authorization": "Bearer canary"},
    "anthropic": {"x-api-key": "canary"},
    "gemini": {"x-goog-api-key": "canary"},
    "ollama": {"authorization": "Bearer canary"},
}


def test_a_key_is_sent_in_its_header_and_nowhere_else(host: Host, protocol: str) -> None:
    """As each protocol wants it; never in the address, which proxies write down."""
    url = place(host, protocol, "ok")
    reply(stage_at(url, protocol, api_key=SecretStr("canary")))
    (sent,) = host.calls(url)
    assert {name: value for name, value in sent.headers.items() if "canary" in value} == KEYS[protocol]
    assert "canary" not in f"{sent.body} {sent.path}"


def test_without_a_key_none_is_sent(host: Host, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of the environment: the packages of the providers send theirs to any host."""
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    url = place(host, protocol, "ok")
    assert reply(stage_at(url, protocol)).text
    (sent,) = host.calls(url)
    assert sent.headers.keys().isdisjoint({"authorization", "x-api-key", "x-goog-api-key"})
    assert "canary" not in f"{sent.headers} {sent.body}"


def test_a_login_of_the_users_own_files_is_not_sent(
    host: Host, protocol: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """HTTP clients read ~/.netrc on their own account."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login canary password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    url = place(host, protocol, "ok")
    reply(stage_at(url, protocol))
    assert "authorization" not in host.calls(url)[0].headers


def test_the_environments_proxy_is_for_stages_outside_the_house(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport of one's own switches the client's look-up off: a cloud behind a proxy was out of reach."""
    monkeypatch.setenv("https_proxy", "http://proxy.lan:3128")
    monkeypatch.setenv("no_proxy", "api.inside.example")
    cloud = stage_at("https://api.example.com/v1", "openai")
    proxy = _proxy(cloud)
    assert proxy is not None
    assert str(proxy.url) == "http://proxy.lan:3128"
    for inside in (
        stage_at("https://api.example.com/v1", "openai", local=True),
        stage_at("https://api.inside.example/v1", "openai"),
        stage_at("http://api.example.com/v1", "openai"),
    ):
        assert _proxy(inside) is None
    assert client_arguments(cloud)["trust_env"] is False


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        *((name, True) for name in ("127.0.0.1", "10.1.2.3", "192.168.0.9", "172.20.0.2", "100.64.3.4", "169.254.1.1")),
        *((name, True) for name in ("[::1]", "[fd00::1]", "[fe80::1]", "gpu", "localhost", "gpu.local", "gpu.LAN")),
        *((name, True) for name in ("host.docker.internal", "gpu.home.arpa", "gpu.localhost")),
        *((name, False) for name in ("8.8.8.8", "[2606:4700::1]", "ollama.com", "gpu.example.com", "local.example")),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_ollama_host_of_this_network_is_asked_without_the_proxy(
    name: str, inside: bool, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is on its way out of the house; Ollama's own cloud is there, and is asked through it."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", "http://proxy.example:3128")
    assert (_proxy(stage_at(f"{scheme}://{name}:11434", "ollama")) is None) is inside
    assert _proxy(stage_at(f"{scheme}://{name}:11434", "ollama", local=True)) is None
    assert _proxy(stage_at(f"{scheme}://{name}:11434/v1", "openai")) is not None


@pytest.mark.parametrize(("base_url", "checked"), [("https://api.example.com/v1", True), ("http://gpu.lan", False)])
def test_certificates_are_read_where_there_are_any(base_url: str, checked: bool) -> None:
    """25 ms that a refused connection in the house must not cost; and never spared where they count."""
    context = Transport(stage_at(base_url, "openai")).ssl_context
    assert context.check_hostname is checked


class _Lingering(httpx.AsyncBaseTransport):
    """Answers, and keeps the body open; knows when it was asked for more."""

    def __init__(self, answer: str) -> None:
        self.answer, self.lingers = answer.encode(), False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:  # noqa: ARG002 - any is answered so
        return httpx.Response(200, content=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        yield self.answer
        self.lingers = True
        await asyncio.sleep(3600)


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "ollama"])
def test_an_answer_that_is_whole_is_not_lost_to_its_clock(protocol: str) -> None:
    """The end was given out only after the body's own end, up to 50 ms later: a clock that struck meanwhile took it.

    Gemini has no mark but the body's end.
    """
    transport = _Lingering(saying(protocol, "Because."))
    stage = stage_at("http://127.0.0.1:1", protocol)

    async def lingers_at_the_end() -> bool:
        async with provider_of(protocol) as provider:
            provider._clients[stage.name] = httpx.AsyncClient(transport=transport)
            async for chunk in provider.stream(Call(stage, Request(MESSAGES), 100)):
                if isinstance(chunk, End):
                    return transport.lingers
        raise AssertionError("no end")

    assert not asyncio.run(lingers_at_the_end())
    assert transport.lingers, "the connection can be used again"


def test_a_host_that_takes_no_connection_is_not_told_as_silent(host: Host, protocol: str) -> None:
    """The first token's clock ran from the start of the call, and struck first."""
    stage = stage_at(host.unaccepting(), protocol, connect_timeout=0.5, first_token_timeout=0.2)
    found = reply(stage).fault
    assert found is not None
    assert found.kind is Kind.CONNECT
