"""Hosts that never come to an end, on bare sockets, and how late a clock strikes against them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from config.stages import Stage
from tests.worker.providers.asking import MESSAGES, provider_of
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call
from worker.failover.request import Request

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
BODY = HEAD + b"Connection: close\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ERROR = b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
_FLOOD = 65_536
_DRIP_S = 0.05
_TICK_S = 0.01


def _pem(kind: str, text: str) -> str:
    return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n"


# For `localhost`, signed by itself; it opens nothing but these tests. Put together here, because tools that look for
# leaked keys cannot know that.
CERTIFICATE = _pem(
    "EC PRIVATE KEY",
    """\
MHcCAQEEIJTa84O80kiaOdZiYW56V5kc/IW4e2WFvdg8kpF9n8hAoAoGCCqGSM49
AwEHoUQDQgAEHxjJm1xazhWZ+BrhFMW3XE9ACs/yXD3fHDZTedEBVmUnNTwnrKq2
ReIOFvIXZq/W9mdh7VJPf6hV0VrRJUJ2Fw==""",
) + _pem(
    "CERTIFICATE",
    """\
MIIBljCCATugAwIBAgIUCMqJapb57ANuJcdUdg3l7g+/GlYwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDE2MzIzMFoYDzIxMjYxMTA2
MTYzMjMwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQfGMmbXFrOFZn4GuEUxbdcT0AKz/JcPd8cNlN50QFWZSc1PCesqrZF
4g4W8hdmr9b2Z2HtUk9/qFXRWtElQnYXo2kwZzAdBgNVHQ4EFgQUFyYXM6WWSIhU
Z68hMSclnjFIHpYwHwYDVR0jBBgwFoAUFyYXM6WWSIhUZ68hMSclnjFIHpYwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
SQAwRgIhALaH3JtktiCWLGq1HYkrv0biS6DsqRrepRQ++6IK3cfTAiEAxi2ylg7K
1vRMbBy+OTKti0nleSOxtXht1Oh8zOz3U08=""",
)

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


def event(**delta: str) -> bytes:
    """One event of OpenAI's stream."""
    return f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode()


def flood(start: bytes, part: bytes) -> Play:
    """This part as fast as the socket takes it, for ever."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(part * max(1, _FLOOD // len(part)))
            await writer.drain()

    return play


def drip(start: bytes, parts: bytes | list[bytes]) -> Play:
    """One part after the other, of bytes each, for ever."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for part in itertools.cycle(parts):
            writer.write(bytes([part]) if isinstance(part, int) else part)
            await writer.drain()
            await asyncio.sleep(_DRIP_S)

    return play


SILENT: Mapping[str, Play] = MappingProxyType(
    {
        "silence": drip(b"", [b""]),
        "head, a byte at a time": drip(HEAD, b"X-A: b\r\n"),
        "head, one endless line, dripping": drip(HEAD + b"X-A: ", b"a"),
        "early hints, for ever": flood(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        "early hints, dripping": drip(b"", [b"HTTP/1.1 103 Early Hints\r\n\r\n"]),
        "blank lines, flood": flood(BODY, b"\n"),
        "comments, flood": flood(BODY, b": still here\n\n"),
        "comments, dripping": drip(BODY, [b": still here\n\n"]),
        "chunks of one byte, flood": flood(CHUNKED, b"1\r\n\n\r\n"),
        "half an event, dripping": drip(BODY + b'data: {"choices": "', b"x"),
        "one event without end, flood": flood(BODY + b'data: {"choices": "', b"x"),
        "role only, flood": flood(BODY, event(role="assistant")),
        "empty objects, flood": flood(BODY, b"data: {}\n\n"),
        "whitespace, flood": flood(BODY, event(content=" \n")),
        "whitespace, dripping": drip(BODY, [event(content=" "), event(content="\n")]),
        "white thinking, flood": flood(BODY, event(reasoning_content=" ")),
    }
)
"""What stops no clock."""

TALKING: Mapping[str, Play] = MappingProxyType(
    {
        "text, flood": flood(BODY, event(content="a")),
        "text, dripping": drip(BODY, [event(content="a")]),
        "thinking, flood": flood(BODY, event(reasoning_content="hm")),
    }
)
"""What stops all clocks but the whole attempt's."""

STALLING: Mapping[str, Play] = MappingProxyType(
    {
        "text, then silence": drip(BODY + event(content="a"), [b""]),
        "text, then blank lines": flood(BODY + event(content="a"), b"\n"),
        "text, then whitespace": flood(BODY + event(content="a"), event(content=" ")),
        "text, then roles": flood(BODY + event(content="a"), event(role="assistant")),
    }
)
"""What stops the first token's clock, and then none."""


@dataclass
class Endless:
    """A host that plays the same to each connection, before or after it has read the request's head."""

    play: Play
    reads: bool = True
    watches: bool = True
    """Whether it goes on reading, which is how it hears of the other side's end."""
    tls: ssl.SSLContext | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the other side of any connection has gone."""
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{self.port}"
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected.set()
        playing = asyncio.ensure_future(self._answer(reader, writer))
        self._tasks.add(playing)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await playing
        self.closed.set()
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.reads:
            await reader.readuntil(b"\r\n\r\n")
        if not self.watches:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        playing = asyncio.ensure_future(self.play(writer))
        gone = asyncio.ensure_future(_end(reader) if self.watches else asyncio.Event().wait())
        try:
            await asyncio.wait([playing, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            playing.cancel()
            gone.cancel()
            await asyncio.gather(playing, gone, return_exceptions=True)


async def _end(reader: asyncio.StreamReader) -> None:
    while await reader.read(_FLOOD):
        pass


def certified(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def deaf(addresses: tuple[str, ...] = ("127.0.0.1",)) -> Iterator[int]:
    """A port where no connection is ever taken: the queue of those that wait is full, at each of these addresses."""
    with contextlib.ExitStack() as stack:
        port = 0
        for address in addresses:
            listening = stack.enter_context(socket.socket())
            listening.bind((address, port))
            listening.listen(0)
            port = listening.getsockname()[1]
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((address, port))
        yield port


@dataclass(frozen=True, slots=True)
class Struck:
    """What a call came to, and how late (s) a sleeping timer of the same loop was meanwhile, at worst."""

    reply: Reply
    lag: float

    def overshoot(self, clock: float) -> float:
        return self.reply.duration_s - clock

    @property
    def allowed(self) -> float:
        return max(0.2, 3 * self.lag)


async def struck(stage: Stage, budget: float | None = None) -> Struck:
    """One call, with a sleeping timer beside it."""
    lags = [0.0]
    beside = asyncio.ensure_future(_lag(lags))
    await asyncio.sleep(0)  # so that it sleeps before the call begins
    async with provider_of(stage.provider) as provider:
        reply = await read(provider, Call(stage, Request(MESSAGES), 100), budget or stage.timeout)
    beside.cancel()
    await asyncio.wait([beside])
    return Struck(reply, max(lags))


async def _lag(lags: list[float]) -> None:
    now = asyncio.get_running_loop().time
    due = now()
    try:
        while True:
            due = now() + _TICK_S
            await asyncio.sleep(_TICK_S)
            lags.append(now() - due)
    finally:
        lags.append(now() - due)
