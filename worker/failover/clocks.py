"""Reading a provider's stream under its clocks; the event loop's own time is the clock."""

from __future__ import annotations

import asyncio
import codecs
import io
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, Provider, counted

_REST_S = 0.005
"""A stream that never makes us wait gives way to the loop after so long: to other calls, and to their clocks."""

# Found now: a codec is a file, and a process may have none left to open.
_UTF_16 = codecs.getincrementaldecoder("utf-16-le")

_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
"""Anything but blanks, and characters that have neither width nor shape."""

Sink = Callable[[str], Awaitable[None]]
"""Takes the pieces of an answer as they come."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was read before the end, the fault or the last clock. Times in seconds from the start of the call."""

    text: str = ""
    end: End | None = None
    usage: Usage | None = None
    fault: Fault | None = None
    first_token_s: float | None = None
    duration_s: float = 0.0
    shown: bool = False
    """Whether the sink has got a piece of it."""
    asked: bool = True
    """False where no host has heard of it: its time was over before its turn came, or it is to be admitted `anew`."""
    anew: bool = False


async def read(provider: Provider, call: Call, budget: float, sink: Sink | None = None) -> Reply:
    """Ask once and read to the end; never raises for what a host does, only when the caller cancels.

    `budget` (s) is the whole attempt's clock. Of a call that is `cold` it is all the time that there is: the stage's
    `timeout` starts with the first content, and its `cold_load_timeout` takes the place of `first_token_timeout`.

    First token and idle clocks are stopped by content alone, so a host that sends blank lines meets them all the same;
    they stand still while the sink works. An exception of the provider's is an unreadable reply: one that left this
    function would leave the job running for ever. The sink's own exceptions do leave it.
    """
    now = asyncio.get_running_loop().time
    started, text = now(), _Text(call.stage.max_reply_bytes)
    clocks, reply = _Clocks(call, started, budget), Reply()
    try:
        async with aclosing(_chunks(provider, replace(call, sending=clocks.start))) as stream:
            while (chunk := await clocks.next(stream)) is not None:
                if isinstance(chunk, Usage):
                    reply = replace(reply, usage=_credible(chunk))
                    continue
                if isinstance(chunk, End):
                    reply = replace(reply, end=chunk, usage=_credible(chunk.usage) or reply.usage)
                    break
                if _bears_content(chunk):
                    clocks.heard()
                    if reply.first_token_s is None:
                        reply = replace(reply, first_token_s=now() - started)
                if not chunk.thought and (piece := text.take(chunk.text)) and sink:
                    reply = replace(reply, shown=True)
                    await clocks.wait_for(sink(piece))
    except Fault as fault:
        if reply.end is None:  # what fails after the end fails in closing: the answer is whole
            reply = replace(reply, fault=fault)
    return replace(reply, text=text.whole(), duration_s=now() - started)


_Stream = AsyncGenerator[Chunk, None]


async def _chunks(provider: Provider, call: Call) -> _Stream:
    try:
        async with aclosing(cast("_Stream", provider.stream(call))) as stream:
            async for chunk in stream:
                yield chunk
    except Fault:
        raise
    except Exception as error:
        raise Fault(Kind.UNREADABLE) from error


def _credible(usage: Usage | None) -> Usage | None:
    return usage and counted(usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)


def _bears_content(piece: Piece) -> bool:
    """Whether anything can be seen of it; thinking whose text is not kept was seen by the provider."""
    if piece.thought and not piece.text:
        return True
    return _VISIBLE.search(piece.text) is not None


class _Text:
    """An answer in whole characters: JSON can spell half of one, which nothing can print or store.

    Two halves that come in two pieces are joined, a lone one is replaced, and one at the very end is dropped.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._decoder = _UTF_16("replace")
        self._text = io.StringIO()
        self._shown = 0

    def take(self, piece: str) -> str:
        """The characters to show by now: none before there is one that can be seen, since what is shown ends the
        walk, and a host that begins with blanks may never come to say anything. Raises `Fault` where they are too many.

        Memory is not a clock: a fast host could send gigabytes within its time.
        """
        whole = self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))
        if self._text.tell() + len(whole) > self._most:
            raise Fault(Kind.UNREADABLE)
        self._text.write(whole)
        if not self._shown and _VISIBLE.search(whole) is None:
            return ""
        first = "" if self._shown else self._text.getvalue()
        self._shown = self._text.tell()
        return first or whole

    def whole(self) -> str:
        return self._text.getvalue()


class _Clocks:
    """Which clock would strike first, and what it is called."""

    def __init__(self, call: Call, started: float, budget: float) -> None:
        self._ends = started + budget
        self._first = call.stage.cold_load_timeout if call.cold else call.stage.first_token_timeout
        self._once_loaded = call.stage.timeout if call.cold else None
        self._idle = call.stage.idle_timeout
        self._waits: float | None = None
        self._kind = Kind.FIRST_TOKEN
        self._since = self._rested = started
        self._now = asyncio.get_running_loop().time
        self._running: asyncio.Timeout | None = None

    def start(self) -> None:
        """The call goes out: from now on the first token is waited for. Until then there is the connect clock."""
        self._since, self._waits = self._now(), self._first
        if self._running is not None:
            self._running.reschedule(self._strikes())

    def _strikes(self) -> float:
        return min(self._since + self._waits if self._waits is not None else self._ends, self._ends)

    def heard(self) -> None:
        self._since, self._waits, self._kind = self._now(), self._idle, Kind.IDLE
        if self._once_loaded is not None:
            self._ends, self._once_loaded = min(self._ends, self._since + self._once_loaded), None

    async def next(self, stream: _Stream) -> Chunk | None:
        """The next chunk in time; None after the last one. An end is taken at any time: it is the answer."""
        try:
            async with asyncio.timeout_at(self._strikes()) as self._running:
                await self._give_way()
                chunk = await anext(stream, None)
        except TimeoutError:
            raise self._struck() from None
        finally:
            self._running = None
        # A timer strikes only while its task waits, which a host that floods it never makes it do.
        if self._now() > self._strikes() and not isinstance(chunk, End):
            raise self._struck()
        return chunk

    def _struck(self) -> Fault:
        return Fault(self._kind if self._strikes() < self._ends else Kind.SPENT)

    async def wait_for(self, work: Awaitable[None]) -> None:
        """Work of our own, on the whole attempt's clock alone."""
        began = self._now()
        clock = asyncio.timeout_at(self._ends)
        try:
            async with clock:
                await work
        except TimeoutError:
            if clock.expired():
                raise Fault(Kind.SPENT) from None
            raise
        self._since += self._now() - began

    async def _give_way(self) -> None:
        if self._now() - self._rested >= _REST_S:
            await asyncio.sleep(0)
            self._rested = self._now()
