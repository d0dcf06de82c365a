"""How a connection to a host is made and left: under one clock, without waiting for anybody after it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from ssl import SSLContext
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection

_KEEP_ALIVE_S = 10.0

_LOOKUP_S = 5.0
"""A look-up that takes longer, and longer than the connect clock, is given up: a call that comes later must not wait
for the same dead server."""


connected: ContextVar[Callable[[], None]] = ContextVar("connected", default=lambda: None)
"""Called when the call that is under way here has its connection. aiohttp hands nothing of a request on to there."""


class _Resolver(AbstractResolver):
    """Looks each name up on a thread of its own, for which nobody has to wait.

    The loop's own threads are few and shared: one resolver that hangs would keep every other host and the end of the
    process waiting.
    """

    def __init__(self, patience: float) -> None:
        self._patience = max(_LOOKUP_S, patience)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        answer: concurrent.futures.Future[Sequence[Any]] = concurrent.futures.Future()

        def look_up() -> None:
            try:
                answer.set_result(_entries(host, port, family))
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                answer.set_exception(error)

        answer.set_running_or_notify_cancel()  # so that nobody's cancel takes it from the thread
        try:
            threading.Thread(target=look_up, daemon=True, name="staffel-lookup").start()
        except RuntimeError:
            raise OSError(errno.EAGAIN, "no thread for a look-up") from None
        async with asyncio.timeout(self._patience):
            return [_found(host, entry) for entry in await asyncio.wrap_future(answer)]

    async def close(self) -> None:
        pass


def _entries(host: str, port: int, family: socket.AddressFamily) -> Sequence[Any]:
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except socket.gaierror:
        # Where it can open no file the system's resolver knows no name; this raises what is the matter then.
        socket.socket().close()
        raise


def _found(name: str, entry: Sequence[Any]) -> ResolveResult:
    family, _, proto, _, (host, port, *scope) = entry
    zone = f"%{scope[1]}" if scope and scope[1] else ""  # a link-local address is one of a network card
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=name, host=host + zone, port=port, family=family, proto=proto, flags=numeric)


class _Connection(Connection):
    """Is closed at once: aiohttp waits for a host to take what was sent, and over TLS 30 s for its goodbye."""

    def close(self) -> None:
        if self.protocol is not None:
            self.protocol.abort()
        super().close()

    def release(self) -> None:
        if self.protocol is not None and self.protocol.should_close:
            self.protocol.abort()
        super().release()


class Response(aiohttp.ClientResponse):
    """Ends with its connection: of a chunk whose size is no number aiohttp tells nobody who waits for the body."""

    async def start(self, connection: Connection) -> Response:
        await super().start(connection)
        closed = None if connection.protocol is None else connection.protocol.closed
        if closed is not None and not self.content.is_eof():
            closed.remove_done_callback(_heard)
            closed.add_done_callback(_heard)
            closed.add_done_callback(self._lost)
            self.content.on_eof(partial(_forget, closed, self._lost))
        return self

    def _lost(self, _: asyncio.Future[None]) -> None:
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientResponseError(self.request_info, (), message="not HTTP"))


def _forget(closed: asyncio.Future[None], callback: Callable[[asyncio.Future[None]], None]) -> None:
    closed.remove_done_callback(callback)


def _heard(closed: asyncio.Future[None]) -> None:
    """So that asyncio does not complain of an exception which nobody has looked at."""
    if not closed.cancelled():
        closed.exception()


class Connector(aiohttp.TCPConnector):
    """One clock on look-up, TCP, proxy and TLS together; aiohttp's own leave the first out and are rounded up."""

    def __init__(self, tls: SSLContext, patience: float) -> None:
        super().__init__(limit=0, ssl=tls, keepalive_timeout=_KEEP_ALIVE_S, resolver=_Resolver(patience))
        self._patience = patience

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        try:
            async with asyncio.timeout(self._patience):
                found = await super().connect(req, traces, timeout)
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError from None
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL):
            raise
        except aiohttp.ClientError as error:  # what a proxy said or did in place of connecting
            reason = OSError(errno.ECONNABORTED, "no way through the proxy")
            raise aiohttp.ClientProxyConnectionError(req.connection_key, reason) from error
        found.__class__ = _Connection  # aiohttp has no place to name the class
        connected.get()()
        return found
