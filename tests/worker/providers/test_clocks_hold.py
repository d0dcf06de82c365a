"""No host can make a clock strike late, wherever it stops, drips or floods; real sockets, real time."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually_async
from tests.hosts import Host
from tests.worker.providers.asking import MESSAGES, place, provider_of, stage_at
from tests.worker.providers.endless import (
    CERTIFICATE,
    ERROR,
    HEAD,
    SILENT,
    STALLING,
    TALKING,
    Endless,
    Play,
    Struck,
    certified,
    deaf,
    drip,
    flood,
    struck,
)
from worker.failover.clocks import read
from worker.failover.provider import Call, Kind
from worker.failover.request import Request

CLOCK = 0.4
LARGE = {"max_reply_bytes": 1_000_000_000}


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of TLS that our side believes."""
    path = tmp_path / "localhost.pem"
    path.write_text(CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return certified(path)


def against(play: Play, reads: bool = True, scheme: str = "http", **fields: object) -> Struck:
    async def asking() -> Struck:
        host = Endless(play, reads)
        async with host.serving() as url:
            return await struck(stage_at(url.replace("http", scheme), "openai", **fields))

    return asyncio.run(asking())


def check(found: Struck, kind: Kind, clock: float = CLOCK) -> None:
    assert found.reply.fault is not None
    assert found.reply.fault.kind is kind
    assert found.overshoot(clock) <= found.allowed, (found.reply.duration_s, found.lag)


@pytest.mark.parametrize("name", SILENT)
def test_the_first_tokens_clock_strikes_in_time(name: str) -> None:
    """A flood never made the reader wait, and no timer strikes between two waits."""
    check(against(SILENT[name], first_token_timeout=CLOCK, **LARGE), Kind.FIRST_TOKEN)


@pytest.mark.parametrize("name", [*SILENT, *STALLING, *TALKING])
def test_the_whole_attempts_clock_strikes_in_time(name: str) -> None:
    """Whatever stops or does not stop the others."""
    check(against({**SILENT, **STALLING, **TALKING}[name], timeout=CLOCK, **LARGE), Kind.SPENT)


@pytest.mark.parametrize("name", STALLING)
def test_the_idle_clock_strikes_in_time(name: str) -> None:
    """Blank text after the first word kept it from striking at all."""
    check(against(STALLING[name], idle_timeout=CLOCK, **LARGE), Kind.IDLE)


def test_one_character_just_within_the_idle_clock_is_a_slow_answer() -> None:
    """Until the whole attempt's time is spent."""
    found = against(TALKING["text, dripping"], idle_timeout=2, timeout=CLOCK)
    check(found, Kind.SPENT)
    assert set(found.reply.text) == {"a"}


@pytest.mark.parametrize("script", ["silent", "head-only", "head-drip", "blanks", "whitespace", "role-only"])
def test_no_protocol_lets_a_silent_host_stop_the_first_tokens_clock(host: Host, protocol: str, script: str) -> None:
    """Each has its own words for saying nothing."""
    url = place(host, protocol, script)
    check(asyncio.run(struck(stage_at(url, protocol, first_token_timeout=CLOCK))), Kind.FIRST_TOKEN)


CONNECTS = (0.4, 5.2)
"""The second one aiohttp rounds up to a whole second of the machine's clock."""


@pytest.mark.parametrize("clock", CONNECTS)
def test_the_connect_clock_covers_tcp(clock: float) -> None:
    """Also where a name has two addresses, both deaf: it is one clock for all of them."""
    with deaf() as port:
        stage = stage_at(f"http://127.0.0.1:{port}", "openai", connect_timeout=clock)
        check(asyncio.run(struck(stage)), Kind.CONNECT, clock)


def test_two_addresses_share_the_connect_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was one clock for each."""
    with deaf(("127.0.0.1", "127.0.0.2")) as port:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", port)) for last in (1, 2)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        stage = stage_at(f"http://twofold.example:{port}", "openai", connect_timeout=CLOCK)
        check(asyncio.run(struck(stage)), Kind.CONNECT)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A name server that never answers; set when it was asked."""
    asked, end = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        asked.set()
        end.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "temporary failure")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield asked
    end.set()


def test_the_connect_clock_covers_the_look_up_of_a_name(hanging: threading.Event) -> None:
    """It did not, and the end of the process waited for the name server too."""
    check(asyncio.run(struck(stage_at("http://nowhere.example", "openai", connect_timeout=CLOCK))), Kind.CONNECT)
    assert hanging.is_set()


def test_a_name_server_that_hangs_keeps_no_other_host_waiting(hanging: threading.Event, host: Host) -> None:
    """Look-ups had the loop's own few threads, and once all hung there nothing else got one."""

    async def asking() -> list[Struck]:
        slow = [stage_at(f"http://nowhere{n}.example", "openai", connect_timeout=5) for n in range(40)]
        calls = [asyncio.ensure_future(struck(stage)) for stage in slow]
        await eventually_async(hanging.is_set, "the name server was asked")
        await asyncio.wait_for(asyncio.to_thread(hanging.is_set), 4)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return [await struck(stage_at(place(host, "openai", "ok"), "openai", connect_timeout=CLOCK))]

    (found,) = asyncio.run(asking())
    assert found.reply.end is not None


def test_the_connect_clock_covers_the_handshake() -> None:
    """A host that takes the connection and says nothing to our hello."""
    check(against(SILENT["silence"], reads=False, scheme="https", connect_timeout=CLOCK), Kind.CONNECT)


@pytest.mark.parametrize("play", [drip(b"", [b""]), drip(b"HTTP/1.1 200 OK\r\nX: ", b"x")], ids=["silent", "drips"])
def test_the_connect_clock_covers_the_proxy(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes the connection and never says whether it has made ours."""

    async def asking() -> Struck:
        async with Endless(play).serving() as url:
            monkeypatch.setenv("https_proxy", url)
            return await struck(stage_at("https://cloud.example/v1", "openai", connect_timeout=CLOCK))

    check(asyncio.run(asking()), Kind.CONNECT)


@pytest.mark.parametrize(
    ("play", "start"), [(drip(ERROR, b"oops "), "o"), (flood(ERROR, b"oops "), "oops oops"), (drip(ERROR, [b""]), "")]
)
@pytest.mark.parametrize("clocks", [{}, {"timeout": 1.0}, {"first_token_timeout": 1.0}])
def test_an_error_costs_a_second_at_most_whatever_its_body_does(
    play: Play, start: str, clocks: dict[str, float]
) -> None:
    """Its status is known at once. It was told as a timeout, after all of the attempt's time."""
    found = against(play, **clocks)
    check(found, Kind.STATUS, 1.0)
    assert found.reply.fault is not None
    assert found.reply.fault.status == 500
    text = found.reply.fault.words.text
    assert text.startswith(start)
    assert text in "oops " * 20_000


@pytest.mark.parametrize("name", ["one event without end, flood", "text, flood", "blank lines, flood"])
def test_a_flood_is_unreadable_once_it_is_too_long(name: str) -> None:
    """Before any clock, and without keeping more than the stage allows."""
    found = against({**SILENT, **TALKING}[name], max_reply_bytes=100_000)
    check(found, Kind.UNREADABLE, 5.0)
    assert len(found.reply.text) <= 100_000


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (flood(HEAD + b"X-A: ", b"a"), Kind.UNREADABLE),
        (flood(HEAD, b"X-A: a\r\n"), Kind.UNREADABLE),
        (flood(b"", b"SSH-2.0-x\r\n"), Kind.UNREADABLE),
        (flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"), Kind.UNREADABLE),
    ],
)
def test_what_is_no_http_is_told_at_once(play: Play, kind: Kind) -> None:
    """No clock is needed for it."""
    check(against(play), kind, 5.0)


def test_a_certificate_that_nobody_signed_is_no_connection(tmp_path: Path) -> None:
    """Nothing was sent."""
    (tmp_path / "localhost.pem").write_text(CERTIFICATE)

    async def asking() -> Struck:
        host = Endless(SILENT["silence"], tls=certified(tmp_path / "localhost.pem"))
        async with host.serving():
            return await struck(stage_at(f"https://localhost:{host.port}", "openai"))

    check(asyncio.run(asking()), Kind.CONNECT, 5.0)


@pytest.mark.parametrize("play", [drip(b"", [b"no TLS"]), flood(b"", b"no TLS")])
def test_a_host_without_tls_is_no_connection(play: Play) -> None:
    """It may say anything to our hello."""
    check(against(play, reads=False, scheme="https"), Kind.CONNECT, 5.0)


async def _cancelled(host: Endless, url: str) -> None:
    """A call that is cancelled once it is under way; returns when our side of it is closed."""
    async with provider_of("openai") as provider:
        call = Call(stage_at(url, "openai"), Request(MESSAGES), 100)
        asking = asyncio.ensure_future(read(provider, call, 60))
        await asyncio.wait_for(host.connected.wait(), 10)
        await asyncio.wait([asking], timeout=0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await eventually_async(lambda: not _connected_to(host.port), "our side is closed", 2)


def _connected_to(port: int) -> list[int]:
    """The descriptors of this process that are connected to that port."""
    return [entry.fd for entry in psutil.Process().net_connections("tcp") if entry.raddr and entry.raddr.port == port]


@pytest.mark.parametrize("watches", [True, False])
def test_a_cancel_within_the_handshake_closes_the_socket(watches: bool) -> None:
    """Not when the handshake's own clock strikes, a minute later."""

    async def asking() -> None:
        host = Endless(SILENT["silence"], reads=False, watches=watches)
        async with host.serving() as url:
            await _cancelled(host, url.replace("http", "https"))

    asyncio.run(asking())


@pytest.mark.parametrize("watches", [True, False])
@pytest.mark.parametrize("name", ["silence", "blank lines, flood", "comments, dripping"])
def test_a_cancel_closes_a_tls_connection_without_a_goodbye(trusted: ssl.SSLContext, name: str, watches: bool) -> None:
    """TLS waits half a minute for the other side's, which a host that hangs never says."""

    async def asking() -> None:
        host = Endless(SILENT[name], watches=watches, tls=trusted)
        async with host.serving():
            await _cancelled(host, f"https://localhost:{host.port}")

    asyncio.run(asking())


def test_a_cancel_within_the_look_up_takes_no_time(hanging: threading.Event) -> None:
    """The name server is left to its thread."""

    async def asking() -> float:
        now = asyncio.get_running_loop().time
        async with provider_of("openai") as provider:
            call = Call(stage_at("http://nowhere.example", "openai"), Request(MESSAGES), 100)
            asking = asyncio.ensure_future(read(provider, call, 60))
            await eventually_async(hanging.is_set, "the name server was asked")
            asked = now()
            asking.cancel()
            await asyncio.wait([asking])
        return now() - asked

    assert asyncio.run(asking()) < 5


LARGE_REQUEST = [{"role": "user", "content": "x" * 20_000_000}]


def test_a_host_that_does_not_read_the_request_is_left_all_the_same() -> None:
    """What was still to be sent to it kept the socket open for ever."""

    async def asking() -> None:
        host = Endless(SILENT["silence"], reads=False, watches=False)
        async with host.serving() as url, provider_of("openai") as provider:
            call = Call(stage_at(url, "openai", first_token_timeout=CLOCK), Request(LARGE_REQUEST), 100)
            reply = await read(provider, call, 60)
            await eventually_async(lambda: not _connected_to(host.port), "our side is closed", 2)
        assert reply.fault is not None
        assert reply.fault.kind is Kind.FIRST_TOKEN

    asyncio.run(asking())
