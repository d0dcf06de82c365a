"""What each behaviour does with a call. The table of them stands in the package's docstring."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from tests.hosts.dialect import Said, to_json
from tests.hosts.exchange import Exchange

TEXT = "Hello from the scripted host."
THINKING = "Let me think about this first."
PAGE = "<!DOCTYPE html><html><head><title>Welcome</title></head><body><h1>Please log in</h1></body></html>"
HTML = "text/html; charset=utf-8"
_MOST_PIECES = 8
_MEGABYTE = 2**20
_BIG_PIECE = 2**16


def pieces(text: str, most: int = _MOST_PIECES) -> list[str]:
    """The text in a few parts that make it up again, cut at blanks."""
    words = text.split(" ")
    size = -(-len(words) // most)
    groups = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    return [group if index == 0 else f" {group}" for index, group in enumerate(groups)] if text else []


async def _answer(call: Exchange, text: str, *, thinking: str = "", finish: str | None = "stop") -> None:
    said = _said(call, text, thinking, finish, await _load(call))
    if not call.dialect.streams:
        await call.reply_json(call.dialect.whole(said))
        return
    await call.start()
    await call.send(call.dialect.opening())
    frames = [call.dialect.thought(part) for part in pieces(thinking)]
    for index, frame in enumerate([*frames, *(call.dialect.piece(part) for part in pieces(text))]):
        if index:
            await call.wait(call.step.number("every", 0))
        await call.send(frame)
    await call.finish(call.dialect.ending(said) if finish is not None else b"")


async def _load(call: Exchange) -> float:
    seconds = call.step.number("load", 0)
    if call.stage.resident or not seconds:
        return 0.0
    await call.wait(seconds)
    call.stage.resident = True
    return seconds


def _said(call: Exchange, text: str, thinking: str, finish: str | None, load: float) -> Said:
    asked = sum(len(words.split()) for _, words in call.dialect.messages())
    return Said(
        text=text,
        thinking=thinking,
        finish=finish,
        input_tokens=call.step.count("input", asked),
        output_tokens=call.step.count("output", len(text.split()) + len(thinking.split())),
        load=load,
    )


def _text(call: Exchange) -> str:
    if call.step.has("echo"):
        return next((text for role, text in reversed(call.dialect.messages()) if role == "user"), "")
    return call.step.text("text", TEXT)


async def ok(call: Exchange) -> None:
    await _answer(call, _text(call), finish=call.step.text("finish", "stop"))


async def thinking(call: Exchange) -> None:
    await _answer(call, _text(call), thinking=THINKING, finish=call.step.text("finish", "stop"))


async def length(call: Exchange) -> None:
    await _answer(call, _text(call), finish="length")


async def length_empty(call: Exchange) -> None:
    await _answer(call, "", thinking=THINKING if call.step.has("thinking") else "", finish="length")


async def empty(call: Exchange) -> None:
    await _answer(call, "")


async def no_end(call: Exchange) -> None:
    await _answer(call, _text(call), finish=None)


async def status(call: Exchange) -> None:
    step, number, headers = call.step, call.step.count("status", 500), call.step.headers()
    if step.has("html"):
        await call.reply(number, PAGE, HTML, headers)
    elif step.has("body"):
        await call.reply(number, step.text("body", ""), headers=headers)
    else:
        error = call.dialect.error(number, step.parameters.get("code"), step.parameters.get("message"))
        await call.reply_json(error, number, headers)


async def redirect(call: Exchange) -> None:
    location = call.step.text("to", f"{call.home}/elsewhere")
    await call.reply(call.step.count("status", 302), "", HTML, {"Location": location})


async def silent(call: Exchange) -> None:
    await call.wait(None)


async def head_only(call: Exchange) -> None:
    await call.start()
    await call.wait(None)


async def _some(call: Exchange, after: int) -> None:
    await call.start()
    await call.send(call.opening())
    for word in itertools.islice(itertools.cycle(pieces(TEXT)), after):
        await call.send(call.piece(word))


async def stall(call: Exchange) -> None:
    await _some(call, call.step.count("after", 2))
    await call.wait(None)


async def drip(call: Exchange) -> None:
    await _some(call, 0)
    for word in itertools.cycle(pieces(TEXT)):
        await call.send(call.piece(word))
        await call.wait(call.step.number("every", 0.3))


async def blanks(call: Exchange) -> None:
    await call.start()
    while True:
        await call.send(call.dialect.blank() if call.dialect.streams else b"\n")
        await call.wait(call.step.number("every", 0.1))


async def cut(call: Exchange) -> None:
    await _some(call, call.step.count("after", 2))
    call.cut(reset=call.step.has("reset"))


async def cut_head(call: Exchange) -> None:
    call.cut(reset=call.step.has("reset"))


async def error_in_stream(call: Exchange) -> None:
    error = call.dialect.error(500, call.step.parameters.get("code"), call.step.parameters.get("message"))
    if not call.dialect.streams:
        await call.reply_json(error)
        return
    await _some(call, 1)
    await call.finish(call.dialect.frame(error))


async def unreadable(call: Exchange) -> None:
    shape = {"unexpected": ["shape"]}
    if not (call.step.has("garbage") or call.step.has("shape")):
        await call.reply(200, PAGE, HTML)
    elif not call.dialect.streams:
        await call.reply(200, to_json(shape) if call.step.has("shape") else '{"unfinished": "')
    else:
        await call.start()
        await call.finish(call.dialect.frame(shape) if call.step.has("shape") else call.dialect.garbled())


async def big(call: Exchange) -> None:
    size = int(call.step.number("mb", 20) * _MEGABYTE)
    said = Said(text="x" * size, input_tokens=1, output_tokens=size)
    if not call.dialect.streams:
        await call.reply_json(call.dialect.whole(said))
        return
    await call.start()
    await call.send(call.dialect.opening())
    part = size if call.step.has("line") else _BIG_PIECE
    for start in range(0, size, part):
        await call.send(call.dialect.piece(said.text[start : start + part]))
    await call.finish(call.dialect.ending(said))


BEHAVIOURS: Mapping[str, Callable[[Exchange], Awaitable[None]]] = MappingProxyType(
    {
        play.__name__.replace("_", "-"): play
        for play in (
            *(ok, thinking, length, length_empty, empty, no_end, status, redirect, silent, head_only),
            *(stall, drip, blanks, cut, cut_head, error_in_stream, unreadable, big),
        )
    }
)
