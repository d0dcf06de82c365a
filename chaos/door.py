"""A small TCP proxy: a door on a line, which may be cut, slow, or a black hole."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
_CHUNK = 65_536
_LOW = range(20_000, 32_000)
"""Below the ports that the system gives to outgoing connections: a port that is closed for a while is not taken."""


def low_port() -> int:
    """A loopback port that nobody listens on."""
    while True:
        port = random.choice(_LOW)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                return port


class Door:
    """Listens on a port of its own and speaks to `target`; may be told what to do from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Callable[[], int]) -> None:
        """`target` tells the port on loopback that the door leads to now."""
        self.port = 0
        self._loop, self._target = loop, target
        self._server: asyncio.Server | None = None
        self._passing = asyncio.Event()
        self._delay_s = 0.0
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._told(self.close())

    def slow(self, seconds: float) -> None:
        """Hold back whatever passes for so long, either way."""
        self._told(self._set(seconds, passing=True))

    def swallow(self) -> None:
        """Pass nothing on, take everything: who speaks hears nothing. What was held back arrives at the end."""
        self._told(self._set(0, passing=False))

    def restore(self) -> None:
        """Be a line like any other again."""
        self._told(self._restore())

    def _told(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, delay_s: float, *, passing: bool) -> None:
        self._delay_s = delay_s
        (self._passing.set if passing else self._passing.clear)()

    async def _restore(self) -> None:
        await self._set(0, passing=True)
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, LOOPBACK, self.port or low_port(), backlog=512)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """As `cut`, on the door's own loop."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        beyond = None
        try:
            await self._passing.wait()
            there, beyond = await asyncio.open_connection(LOOPBACK, self._target())
            self._open.add(beyond)
            ways = [asyncio.ensure_future(self._pass(reader, beyond)), asyncio.ensure_future(self._pass(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # nobody is behind the door: neither is anybody at it
        finally:
            for one in (writer, beyond):
                if one is not None:
                    self._open.discard(one)
                    one.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
            await self._passing.wait()  # nor does an end come out of a black hole


class Doors:
    """All doors of a house, on one loop in a thread of its own; leaving the context closes them."""

    def __init__(self) -> None:
        self._doors: list[Door] = []

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="doors", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def made(self, target: Callable[[], int]) -> Door:
        """A new door, open."""
        door = Door(self._loop, target)
        self._doors.append(door)
        door.restore()
        return door

    async def _close(self) -> None:
        for door in self._doors:
            await door.close()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.05)  # the transports close themselves in the loop's next cycles
