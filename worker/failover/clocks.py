"""Reading a provider's stream under its clocks; the event loop's own time is the clock."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from worker.failover.provider import Call, End, Fault, Kind, Piece, Provider, counted

MAX_TEXT = 8_000_000
"""Characters of an answer that are read at most; a host that sends more is not answering."""

Sink = Callable[[str], Awaitable[None]]
"""Takes the pieces of an answer as they come."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was read before the end, the fault or the last clock. Times in seconds from the start of the call."""

    text: str = ""
    end: End | None = None
    fault: Fault | None = None
    first_token_s: float | None = None
    duration_s: float = 0.0


async def read(provider: Provider, call: Call, budget: float, sink: Sink | None = None) -> Reply:
    """Ask once and read to the end; never raises for what a host does, only when the caller cancels.

    `budget` (s) is the whole attempt's clock. First token and idle clocks are stopped by content alone,
    so a host that sends blank lines meets them all the same. An exception of the provider's is an unreadable reply:
    one that left this function would leave the job running for ever. The sink's own exceptions do leave it.
    """
    now = asyncio.get_running_loop().time
    started, pieces, size, reply = now(), list[str](), 0, Reply()
    clocks, whole = _Clocks(call, started, budget), _Whole()
    try:
        async with aclosing(_chunks(provider, call)) as stream:
            while (chunk := await clocks.next(stream)) is not None:
                if isinstance(chunk, End):
                    reply = replace(reply, end=_credible(chunk))
                    break
                clocks.heard(now())
                if reply.first_token_s is None:
                    reply = replace(reply, first_token_s=now() - started)
                if not chunk.thought and (text := whole.take(chunk.text)):
                    pieces.append(text)
                    size += len(text)
                    if size > MAX_TEXT:
                        raise Fault(Kind.UNREADABLE)
                    if sink:
                        await sink(text)
    except Fault as fault:
        if reply.end is None:  # what fails after the end fails in closing: the answer is whole
            reply = replace(reply, fault=fault)
    return replace(reply, text="".join(pieces), duration_s=now() - started)


_Stream = AsyncGenerator[Piece | End, None]


async def _chunks(provider: Provider, call: Call) -> _Stream:
    try:
        async with aclosing(cast("_Stream", provider.stream(call))) as stream:
            async for chunk in stream:
                yield chunk
    except Fault:
        raise
    except Exception as error:
        raise Fault(Kind.UNREADABLE) from error


def _credible(end: End) -> End:
    usage = end.usage
    return (
        end
        if usage is None
        else replace(end, usage=counted(usage.input_tokens, usage.output_tokens, usage.reasoning_tokens))
    )


class _Whole:
    """Text in whole characters: JSON can spell half of one, which nothing can print or store.

    Two halves that come in two pieces are joined, a lone one is replaced, and one at the very end is dropped.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def take(self, text: str) -> str:
        return self._decoder.decode(text.encode("utf-16-le", "surrogatepass"))


class _Clocks:
    """Which clock would strike first, and what it is called."""

    def __init__(self, call: Call, started: float, budget: float) -> None:
        self._ends = started + budget
        self._waits = call.stage.first_token_timeout
        self._kind = Kind.FIRST_TOKEN
        self._idle = call.stage.idle_timeout
        self._since = started

    def heard(self, now: float) -> None:
        self._since, self._waits, self._kind = now, self._idle, Kind.IDLE

    async def next(self, stream: _Stream) -> Piece | End | None:
        own = self._since + self._waits if self._waits is not None else self._ends
        try:
            async with asyncio.timeout_at(min(own, self._ends)):
                return await anext(stream, None)
        except TimeoutError:
            raise Fault(self._kind if own < self._ends else Kind.SPENT) from None
