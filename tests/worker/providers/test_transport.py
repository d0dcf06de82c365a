"""What a failed exchange is called, and how much of a body is read."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from config.stages import Stage
from tests.hosts import Host
from tests.worker.providers.asking import MESSAGES, place, provider_of, reply, stage_at
from tests.worker.providers.endless import CHUNKED, Endless, drip, struck
from tests.worker.providers.raw import STREAMS, Raw, heard, http, saying
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, Fault, Kind
from worker.failover.request import Request
from worker.providers.transport import client_arguments, error_body, fault_of


def kind(found: Reply) -> Kind | None:
    return found.fault.kind if found.fault else None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.PoolTimeout(""), Kind.OURS),
        (OSError(errno.EMFILE, "too many open files"), Kind.OURS),
        (MemoryError(), Kind.OURS),
        (httpx.ConnectError(""), Kind.CONNECT),
        (httpx.ConnectTimeout(""), Kind.CONNECT),
        (httpx.ProxyError(""), Kind.CONNECT),
        (httpx.UnsupportedProtocol(""), Kind.CONNECT),
        (httpx.InvalidURL(""), Kind.CONNECT),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), Kind.CONNECT),
        (httpx.ReadError(""), Kind.CUT),
        (httpx.WriteError(""), Kind.CUT),
        (httpx.ReadTimeout(""), Kind.CUT),
        (httpx.RemoteProtocolError(""), Kind.UNREADABLE),
        (httpx.DecodingError(""), Kind.UNREADABLE),
        (ssl.SSLError("?"), Kind.UNREADABLE),
        (ValueError("?"), Kind.UNREADABLE),
    ],
)
def test_each_exception_has_its_kind(error: Exception, expected: Kind) -> None:
    """Without its text: that may hold the endpoint."""
    fault = fault_of(error)
    assert (fault.kind, fault.words.text, fault.status) == (expected, "", None)


def test_a_fault_stays_what_it_is() -> None:
    """Whoever raised it knew more."""
    fault = Fault(Kind.STATUS, status=500)
    assert fault_of(fault) is fault


@contextmanager
def _no_more_files() -> Iterator[None]:
    """Not one more can be opened by this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno(), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_having_no_file_left_is_no_fault_of_the_hosts(host: Host, name: str) -> None:
    """Its breaker would open in all workers, for what one of them lacks."""
    url = place(host, "openai", "ok").replace("127.0.0.1", name)

    async def asking() -> Reply:
        async with provider_of("openai") as provider:
            with _no_more_files():
                return await read(provider, Call(stage_at(url, "openai"), Request(MESSAGES), 100), 30)

    assert kind(asyncio.run(asking())) is Kind.OURS
    assert host.calls(url) == []


def test_having_no_thread_left_is_no_fault_of_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is looked up on one."""

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stage = stage_at("http://somewhere.example", "openai")
    monkeypatch.setattr(threading.Thread, "start", full)
    assert kind(reply(stage)) is Kind.OURS


@pytest.mark.parametrize("url", ["http://127.1:9", "http://nowhere.invalid", "http://[::ffff:127.0.0.1%25lo]:9"])
def test_an_address_that_cannot_be_asked_is_no_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a connection that was cut: nothing was sent."""

    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert kind(reply(stage_at(url, "openai"))) is Kind.CONNECT


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n", b"hello\r\n\r\n", b""])
def test_a_proxy_that_refuses_is_no_connection(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told as an unreadable reply of the host, which has heard of nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def asking() -> Reply:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        found = await struck(stage_at("https://cloud.example/v1", "openai"))
        server.close()
        return found.reply

    assert kind(asyncio.run(asking())) is Kind.CONNECT


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"", Kind.CUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", Kind.CUT),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", Kind.CUT),
        (b"hello\r\n\r\n", Kind.UNREADABLE),
        (b"HTTP/9.9 200 OK\r\n\r\n", Kind.UNREADABLE),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Kind.UNREADABLE),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", Kind.UNREADABLE),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 10_000 + b"\r\n", Kind.UNREADABLE),
    ],
)
def test_what_is_no_whole_response_is_told_apart(response: bytes, expected: Kind) -> None:
    """A connection that ended too early, and one on which no HTTP is spoken."""
    (found,), _ = heard("openai", response, close=True)
    assert kind(found) is expected


@pytest.mark.parametrize("tail", [b"zz\r\n", b"-1\r\n", b"5\r\nabcdefgh\r\n"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_chunk_that_is_none_ends_the_reply(tail: bytes, stays: bool) -> None:
    """The parser closed the connection and told nobody: the call waited until a clock struck."""

    async def asking() -> Reply:
        seen = asyncio.Event()

        async def play(writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED + b"1\r\n\n\r\n")
            await seen.wait()
            writer.write(tail)
            if stays:
                await asyncio.Event().wait()

        async def head_is_read(response: httpx.Response) -> None:
            seen.set()

        async with Endless(play).serving() as url, provider_of("openai") as provider:
            stage = stage_at(url, "openai")
            provider._client(stage).event_hooks = {"response": [head_is_read]}
            return await read(provider, Call(stage, Request(MESSAGES), 100), 30)

    assert kind(asyncio.run(asking())) is Kind.UNREADABLE


@pytest.mark.parametrize(
    "body", [b"Content-Length: 100\r\n\r\noops", b"Transfer-Encoding: chunked\r\n\r\n4\r\noops\r\n"]
)
def test_an_error_that_is_cut_off_keeps_its_status(body: bytes) -> None:
    """It was told as a cut, and the walk did not know that it had been throttled."""
    (found,), _ = heard("openai", b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\n" + body, close=True)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.status, found.fault.retry_after_s) == (Kind.STATUS, 429, 7)
    assert found.fault.words.text == "oops"


def test_a_stage_says_how_much_is_read(protocol: str) -> None:
    """Of all answers, whatever they are."""
    size = 500_000
    response = http(saying(protocol, "x" * size), STREAMS[protocol])

    async def asking(most: int) -> Reply:
        async with Raw([response]) as raw:
            return (await struck(stage_at(raw.url, protocol, max_reply_bytes=most))).reply

    assert kind(asyncio.run(asking(size // 2))) is Kind.UNREADABLE
    assert len(asyncio.run(asking(size * 2)).text) == size


class _Body(httpx.AsyncByteStream):
    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            self.read += len(part)
            yield part


def test_an_error_is_read_as_far_as_a_person_would() -> None:
    """64 kB, and no part of the rest is asked for."""
    body = _Body(*[b"x" * 16_384] * 100)
    assert asyncio.run(error_body(httpx.Response(500, stream=body))) == "x" * 65_536
    assert body.read == 65_536


def test_a_large_request_arrives_whole(host: Host) -> None:
    """It goes out in slices: in one piece it would hold the loop."""
    text = "word " * 800_000
    url = place(host, "openai", "ok")

    async def asking() -> Reply:
        async with provider_of("openai") as provider:
            request = Request([{"role": "user", "content": text}])
            return await read(provider, Call(stage_at(url, "openai"), request, 100), 30)

    found = asyncio.run(asking())
    assert found.end is not None
    assert host.calls(url)[0].body["messages"][0]["content"] == text


def test_the_stages_own_clock_is_no_clock_of_httpx() -> None:
    """Two clocks for one thing strike at two times."""
    assert client_arguments(Stage("a", "openai", "http://127.0.0.1:9", "m"))["timeout"] == httpx.Timeout(None)


def test_an_early_no_to_a_large_request_keeps_its_status() -> None:
    """The host answers 413 and reads no further; the rest of the request must not keep the call waiting."""

    async def asking() -> None:
        no = drip(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", [b""])
        async with Endless(no, watches=False).serving() as url, provider_of("openai") as provider:
            call = Call(stage_at(url, "openai"), Request([{"role": "user", "content": "x" * 20_000_000}]), 100)
            found = await read(provider, call, 10)
        assert found.fault is not None
        assert (found.fault.kind, found.fault.status) == (Kind.STATUS, 413)

    asyncio.run(asking())
