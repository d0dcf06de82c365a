"""httpx over aiohttp, with the right exceptions, no cookies, no redirects, one connect clock, a bound on every body.

A reply is asked for as it is, and one that is packed all the same is unreadable: half a megabyte of it may become
half a gigabyte of memory, whatever bound there is on what comes off the socket.

httpx alone burns 25 ms of CPU a request once 100 share a pool (encode/httpx#3215); over aiohttp it is 1 ms. That
transport tells a refused connection as a connect timeout, so the exceptions are mapped again here, from their cause.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import io
import ipaddress
import urllib.request
from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from config.stages import Stage
from worker.failover.provider import Fault, Kind
from worker.providers.connector import Connector, Response, connected

OK = 200

SENDING = "sending"
"""The extension of a request that is called when it has its connection."""

_ERROR_BODY_BYTES = 65_536
_ERROR_BODY_S = 1.0
"""The status of an error is known at once; for what it says this is waited at most, and half of the shortest clock."""

_PATIENCE = "staffel.error_body_s"
_LONGEST_HEADER = 65_536
_SLICE = 262_144
_LARGE = 1_048_576
"""Bytes of a request from which aiohttp warns of sending it in one piece."""

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN})
"""Errors of a connect that are this machine's: no file descriptor, no memory, no thread."""

# Found now: a codec is a file, and a process may have none left to open.
_UTF_8 = codecs.getincrementaldecoder("utf-8-sig")


class BodyTooLong(httpx.DecodingError):
    """The host sent more than anyone should read."""


class _Stream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, encoding: str, most: int) -> None:
        self._inner = inner
        self._encoding = encoding
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in {"", "identity"}:
            raise httpx.DecodingError("a body in an encoding that was not asked for")
        read = 0
        try:
            async for chunk in self._inner:
                read += len(chunk)
                if read > self._most:
                    raise BodyTooLong(f"more than {self._most} bytes")
                yield chunk
                # A host that sends faster than we read never makes us wait, and no clock strikes in between.
                await asyncio.sleep(0)
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _mapped(error) from error

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Upload(httpx.AsyncByteStream):
    """A large request in slices, each sent when the one before is."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), _SLICE):
            yield self._body[start : start + _SLICE]


class Transport(AiohttpTransport):
    """One pool of connections to one stage's host; the stage's limits bound it, not the pool."""

    def __init__(self, stage: Stage) -> None:
        proxy = _proxy(stage)
        # Reading the certificates takes 25 ms, which a refused connection in the house must not.
        needs_tls = proxy is not None or stage.base_url.startswith("https:")
        super().__init__(verify=needs_tls, proxy=proxy, client=self._session)
        self._stage = stage
        self._error_body_s = min(_ERROR_BODY_S, stage.timeout / 2, (stage.first_token_timeout or stage.timeout) / 2)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(self.ssl_context, self._stage.connect_timeout),
            response_class=Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        if SENDING in request.extensions:
            connected.set(request.extensions[SENDING])
        try:
            response = await super().handle_async_request(_sliced(request))
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _mapped(error) from error
        encoding = response.headers.get("content-encoding", "").strip().lower()
        inner = cast("httpx.AsyncByteStream", response.stream)
        response.stream = _Stream(inner, encoding, self._stage.max_reply_bytes)
        response.extensions[_PATIENCE] = self._error_body_s
        return response


def _sliced(request: httpx.Request) -> httpx.Request:
    if len(request.content) <= _LARGE:
        return request
    stream, extensions = _Upload(request.content), request.extensions
    return httpx.Request(request.method, request.url, headers=request.headers, stream=stream, extensions=extensions)


def _mapped(error: Exception) -> Exception:
    """The httpx exception that a fault of the socket deserves, judged by aiohttp's own."""
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    if isinstance(cause, aiohttp.ClientConnectorError) and cause.errno in _NO_ROOM:
        return httpx.PoolTimeout("no room on this side")
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return httpx.ConnectError("cannot connect")
    if isinstance(cause, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return httpx.ConnectError("no address that can be asked")
    if isinstance(cause, aiohttp.ClientResponseError):
        return httpx.RemoteProtocolError("not HTTP")
    if isinstance(cause, aiohttp.ClientError):
        return httpx.ReadError("the connection was cut")
    return error


def _proxy(stage: Stage) -> httpx.Proxy | None:
    """The environment's proxy for a stage outside the house; a custom transport switches httpx's own look-up off.

    An Ollama host at an address of this network is in the house, whatever its stage says.
    """
    parts = urlsplit(stage.base_url)
    at_home = stage.provider == "ollama" and is_of_this_network(parts.hostname or "")
    if stage.local or at_home or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    url = urllib.request.getproxies().get(parts.scheme)
    return httpx.Proxy(url) if url else None


_HERE_ONLY = (".localhost", ".local", ".lan", ".internal", ".home.arpa")
"""Ends of names that no public name server knows: RFC 6761, 6762 and 8375, ICANN's `.internal`, and a habit."""


def is_of_this_network(name: str) -> bool:
    """Whether a host's name or address means nothing outside: loopback, private, link-local, or a bare name."""
    try:
        return not ipaddress.ip_address(name).is_global
    except ValueError:
        return "." not in name or name.lower().endswith(_HERE_ONLY)


def client_arguments(stage: Stage) -> dict[str, object]:
    """What every client of a stage is built with: its transport, and nothing from the environment.

    The connect clock is the transport's, all others are the engine's: httpx's are per read, and a host that drips
    never meets them.
    """
    return {
        "transport": Transport(stage),
        "timeout": httpx.Timeout(None),
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),
        "trust_env": False,
        "follow_redirects": False,
    }


async def texts(response: httpx.Response) -> AsyncIterator[str]:
    """The characters of a body as they come, without a mark at its start.

    Always UTF-8, whatever its head says: event streams and JSON know nothing else.
    """
    decoder = _UTF_8("replace")
    async for chunk in response.aiter_raw():
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


async def error_body(response: httpx.Response) -> str:
    """What a reply with an error status says, as far as it comes soon; its status counts in any case."""
    found = io.StringIO()
    try:
        async with asyncio.timeout(response.extensions.get(_PATIENCE, _ERROR_BODY_S)):
            async for text in texts(response):
                if found.write(text) and found.tell() >= _ERROR_BODY_BYTES:
                    break
    except (httpx.HTTPError, TimeoutError):
        pass
    return found.getvalue()[:_ERROR_BODY_BYTES]


def fault_of(error: Exception) -> Fault:
    """What a failed exchange was, in the engine's words; anything that is not a known fault is an unreadable reply."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, httpx.PoolTimeout | MemoryError) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return Fault(Kind.OURS)
    if isinstance(error, _UNCONNECTED):
        return Fault(Kind.CONNECT)
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.TimeoutException | httpx.CloseError):
        return Fault(Kind.CUT)
    return Fault(Kind.UNREADABLE)


_UNCONNECTED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    ConnectionError,
)
