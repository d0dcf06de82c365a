"""Calls that get no answer and no end: nothing at all, or for ever something that is no answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.hosts.answers import TEXT, pieces, some
from tests.hosts.exchange import Exchange

_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEADER = b"X-Drop: drip\r\n"


async def silent(call: Exchange) -> None:
    await call.wait(None)


async def head_only(call: Exchange) -> None:
    await call.start()
    await call.wait(None)


async def head_drip(call: Exchange) -> None:
    for byte in itertools.chain(_STATUS_LINE, itertools.cycle(_HEADER)):
        await call.raw(bytes([byte]))
        await call.wait(call.step.number("every", 0.1))


async def stall(call: Exchange) -> None:
    await some(call, call.step.count("after", 2))
    await call.wait(None)


async def drip(call: Exchange) -> None:
    await _endless(call, (call.piece(word) for word in itertools.cycle(pieces(TEXT))), 0.3)


async def whitespace(call: Exchange) -> None:
    await _endless(call, (call.piece(blank) for blank in itertools.cycle((" ", "\n", "  \t"))), 0.1)


async def role_only(call: Exchange) -> None:
    if not call.dialect.streams:
        await blanks(call)
        return
    turns = itertools.cycle((True, False))
    await _endless(call, (call.dialect.hollow() if role else call.dialect.piece("") for role in turns), 0.1)


async def _endless(call: Exchange, chunks: Iterator[bytes], every: float) -> None:
    """Chunk by chunk, each made when its turn comes: a dialect remembers where it is."""
    await some(call, 0)
    for chunk in chunks:
        await call.send(chunk)
        await call.wait(call.step.number("every", every))


async def blanks(call: Exchange) -> None:
    await call.start()
    while True:
        await call.send(call.dialect.blank() if call.dialect.streams else b"\n")
        await call.wait(call.step.number("every", 0.1))
