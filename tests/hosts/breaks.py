"""Connections that break, and bodies that break the rules of HTTP or of the protocol."""

from __future__ import annotations

from tests.hosts.answers import TEXT, rendered, said, some, tell
from tests.hosts.dialect import to_json
from tests.hosts.errors import HTML, PAGE
from tests.hosts.exchange import Exchange

_NO_SIZE = b"chunk\r\n"
_GREETING = b"220 mail.example ESMTP ready\r\n\r\n"


async def cut(call: Exchange) -> None:
    await some(call, call.step.count("after", 2))
    call.cut(reset=call.step.has("reset"))


async def cut_head(call: Exchange) -> None:
    call.cut(reset=call.step.has("reset"))


async def late_cut(call: Exchange) -> None:
    answer, past = said(call), call.step.has("past")
    if call.dialect.streams:
        await tell(call, answer)
        ending = call.dialect.ending(answer)
        await call.send(ending.all if past else ending.closing)
    else:
        body = to_json(call.dialect.whole(answer)).encode()
        await call.start()
        await call.send(body if past else body[:-1])
    call.cut(reset=call.step.has("reset"))


async def short(call: Exchange) -> None:
    body = rendered(call, said(call))
    await call.start(length=len(body))
    await call.raw(body[: len(body) // 2])
    call.cut(reset=False)


async def bad_chunks(call: Exchange) -> None:
    await some(call, call.step.count("after", 2))
    await call.raw(_NO_SIZE + call.piece(TEXT))
    call.cut(reset=False)


async def not_http(call: Exchange) -> None:
    await call.raw(_GREETING)
    call.cut(reset=False)


async def unreadable(call: Exchange) -> None:
    shape = {"unexpected": ["shape"]}
    if not (call.step.has("garbage") or call.step.has("shape")):
        await call.reply(200, PAGE, HTML)
    elif not call.dialect.streams:
        await call.reply(200, to_json(shape) if call.step.has("shape") else '{"unfinished": "')
    else:
        await call.start()
        await call.finish(call.dialect.frame(shape) if call.step.has("shape") else call.dialect.garbled())
