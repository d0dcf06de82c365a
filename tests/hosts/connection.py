"""HTTP/1.1 by hand, on one connection, with an eye on the client's side of the socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

_LARGEST_HEAD = 2**20
_SLICE = 2**18
_PHRASES = {int(status): status.phrase for status in HTTPStatus}


class ClientGone(Exception):
    """The client has closed its side."""


class WatchedReader(asyncio.StreamReader):
    """Tells at once when the client closes or resets, also while nobody reads.

    `on_gone` is called in the very loop cycle in which the close arrives, thus before any request that the same
    client sends afterwards on another connection is looked at: a log of calls in flight stays exact.
    """

    def __init__(self) -> None:
        super().__init__(limit=_LARGEST_HEAD)
        self.gone = asyncio.Event()
        self.on_gone: Callable[[], None] = _ignore

    def feed_eof(self) -> None:
        super().feed_eof()
        self._tell()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._tell()

    def _tell(self) -> None:
        if not self.gone.is_set():
            self.gone.set()
            self.on_gone()


def _ignore() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    keep_alive: bool


class Connection:
    def __init__(self, number: int, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer

    async def read_request(self) -> Request | None:
        """None when the client has closed, or sent something that is not HTTP."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, version = head.split("\r\n", 1)[0].split(" ")
            headers = _read_headers(head)
            body = await self._read_body(headers)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            return None
        keep_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        return Request(method, target, headers, body, keep_alive)

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        while (await self._reader.readline()).strip():
            pass
        return bytes(body)

    def when_gone(self, tell: Callable[[], None] | None) -> None:
        """Call `tell` as soon as the client closes, at once if it has; None calls nothing any more."""
        self._reader.on_gone = tell or _ignore
        if self._reader.gone.is_set():
            self._reader.on_gone()

    async def write(self, data: bytes, *, before_last: Callable[[], None] = _ignore) -> None:
        """Send all, calling `before_last` just before the last bytes go out. Raises ClientGone."""
        for start in range(0, max(len(data), 1), _SLICE):
            if self._reader.gone.is_set():
                raise ClientGone
            if start + _SLICE >= len(data):
                before_last()
            self._writer.write(data[start : start + _SLICE])
            try:
                await self._writer.drain()
            except ConnectionError as error:
                raise ClientGone from error

    async def wait(self, seconds: float | None) -> None:
        """Sleep, for ever with None. Raises ClientGone at once when the client closes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.gone.wait()
            raise ClientGone

    async def close(self) -> None:
        """Send what is left, then close."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Drop the connection with what is left to be sent; nothing happens if it is closed."""
        self._writer.transport.abort()

    def reset(self) -> None:
        """The same, and the client sees a reset."""
        endpoint = self._writer.get_extra_info("socket")
        if endpoint is not None and endpoint.fileno() >= 0:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()


def _read_headers(head: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.split("\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def render_head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and headers, up to the empty line."""
    phrase = _PHRASES.get(status, "Unheard Of")
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
