"""httpx over aiohttp, with the right exceptions, no cookies, no redirects and a bound on every body.

A reply is asked for as it is, and one that is packed all the same is unreadable: half a megabyte of it may become
half a gigabyte of memory, whatever bound there is on what comes off the socket.

httpx alone burns 25 ms of CPU a request once 100 share a pool (encode/httpx#3215); over aiohttp it is 1 ms. That
transport tells a refused connection as a connect timeout, so the exceptions are mapped again here, from their cause.
"""

from __future__ import annotations

import codecs
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

OK = 200

MAX_BODY = 8_000_000
"""Bytes of one reply that are read at most."""

_LONGEST_HEADER = 65_536
_KEEP_ALIVE_S = 10.0


class BodyTooLong(httpx.DecodingError):
    """The host sent more than anyone should read."""


class _Stream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, encoding: str) -> None:
        self._inner = inner
        self._encoding = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in {"", "identity"}:
            raise httpx.DecodingError("a body in an encoding that was not asked for")
        read = 0
        try:
            async for chunk in self._inner:
                read += len(chunk)
                if read > MAX_BODY:
                    raise BodyTooLong(f"more than {MAX_BODY} bytes")
                yield chunk
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _mapped(error) from error

    async def aclose(self) -> None:
        await self._inner.aclose()


class Transport(AiohttpTransport):
    """One pool of connections to one stage's host; the stage's limits bound it, not the pool."""

    def __init__(self, stage: Stage) -> None:
        proxy = _proxy(stage)
        # Reading the certificates takes 25 ms, which a refused connection in the house must not.
        needs_tls = proxy is not None or stage.base_url.startswith("https:")
        super().__init__(verify=needs_tls, proxy=proxy, client=self._session)

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, ssl=self.ssl_context, keepalive_timeout=_KEEP_ALIVE_S)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        try:
            response = await super().handle_async_request(request)
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _mapped(error) from error
        encoding = response.headers.get("content-encoding", "").strip().lower()
        response.stream = _Stream(cast("httpx.AsyncByteStream", response.stream), encoding)
        return response


def _mapped(error: Exception) -> Exception:
    """The httpx exception that a fault of the socket deserves, judged by aiohttp's own."""
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return httpx.ConnectError("cannot connect")
    if isinstance(cause, aiohttp.ClientResponseError):
        return httpx.RemoteProtocolError("not HTTP")
    if isinstance(cause, aiohttp.ClientError):
        return httpx.ReadError("the connection was cut")
    return error


def _proxy(stage: Stage) -> httpx.Proxy | None:
    """The environment's proxy for a stage outside the house; a custom transport switches httpx's own look-up off."""
    parts = urlsplit(stage.base_url)
    if stage.local or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    url = urllib.request.getproxies().get(parts.scheme)
    return httpx.Proxy(url) if url else None


def client_arguments(stage: Stage) -> dict[str, object]:
    """What every client of a stage is built with: its transport, its connect clock, nothing from the environment.

    All other clocks are the engine's: httpx's are per read, and a host that drips never meets them.
    """
    return {
        "transport": Transport(stage),
        "timeout": httpx.Timeout(None, connect=stage.connect_timeout),
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),
        "trust_env": False,
        "follow_redirects": False,
    }


async def texts(response: httpx.Response) -> AsyncIterator[str]:
    """The characters of a body as they come, without a mark at its start.

    Always UTF-8, whatever its head says: event streams and JSON know nothing else.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    async for chunk in response.aiter_raw():
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


async def error_body(response: httpx.Response) -> str:
    """What a reply with an error status says, as far as it can be read; its status counts in any case."""
    found: list[str] = []
    try:
        async for text in texts(response):
            found.append(text)  # noqa: PERF401 - what came before the error is kept
    except httpx.DecodingError:
        pass
    return "".join(found)


async def lines(response: httpx.Response) -> AsyncIterator[str]:
    """The lines of a body as they come; httpx's own also break at U+2028 and the like, which JSON may hold."""
    begun: list[str] = []
    async for text in texts(response):
        *ends, rest = text.split("\n")
        for end in ends:
            yield "".join([*begun, end]).removesuffix("\r")
            begun = []
        begun.append(rest)
    if any(begun):
        yield "".join(begun)


def fault_of(error: Exception) -> Fault:
    """What a failed exchange was, in the engine's words; anything that is not a known fault is an unreadable reply."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | ConnectionError):
        return Fault(Kind.CONNECT)
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.TimeoutException | httpx.CloseError):
        return Fault(Kind.CUT)
    return Fault(Kind.UNREADABLE)
