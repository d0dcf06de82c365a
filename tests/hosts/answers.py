"""Answers: good ones, and those whose text, length or wrapping is not what a caller hopes for."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import replace

from tests.hosts.dialect import Said, to_json
from tests.hosts.exchange import Exchange

TEXT = "Hello from the scripted host."
THINKING = "Let me think about this first."
_UNIT = "and so on "
_MOST_PIECES = 8
_KILOBYTE = 2**10
_MEGABYTE = 2**20
_BIG_PIECE = 2**16
_GZIP = 31
"""What zlib calls gzip's wrapping."""


def pieces(text: str, most: int = _MOST_PIECES) -> list[str]:
    """The text in a few parts that make it up again, cut at blanks."""
    words = text.split(" ")
    size = -(-len(words) // most)
    groups = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    return [group if index == 0 else f" {group}" for index, group in enumerate(groups)] if text else []


def said(call: Exchange, text: str | None = None, *, thinking: str = "", finish: str | None = "stop") -> Said:
    """The answer that the script asks for; words are tokens where it gives no number."""
    answer = _text(call) if text is None else text
    if call.dialect.most_output is not None and len(words := answer.split(" ")) > call.dialect.most_output:
        answer, finish = " ".join(words[: call.dialect.most_output]), "length"
    return Said(
        text=answer,
        thinking=thinking,
        finish=call.step.text("finish", finish) if finish is not None else None,
        input_tokens=call.dialect.input_tokens,
        output_tokens=call.step.count("output", len(answer.split()) + len(thinking.split())),
    )


def rendered(call: Exchange, answer: Said) -> bytes:
    """The whole body at once."""
    dialect = call.dialect
    if not dialect.streams:
        return to_json(dialect.whole(answer)).encode()
    texts = [dialect.opening(), *_frames(call, answer)]
    return b"".join([*texts, dialect.ending(answer).all, dialect.close()])


async def tell(call: Exchange, answer: Said) -> None:
    """Stream an answer's text, and nothing of its end."""
    await call.start()
    await call.send(call.dialect.opening())
    for index, frame in enumerate(_frames(call, answer)):
        if index:
            await call.wait(call.step.number("every", 0))
        await call.send(frame)


async def some(call: Exchange, after: int) -> None:
    """Begin an answer and send so many chunks of its text."""
    await call.start()
    await call.send(call.opening())
    for word in itertools.islice(itertools.cycle(pieces(TEXT)), after):
        await call.send(call.piece(word))


def _frames(call: Exchange, answer: Said) -> list[bytes]:
    thoughts = [call.dialect.thought(part) for part in pieces(answer.thinking)]
    return thoughts + [call.dialect.piece(part) for part in pieces(answer.text)]


def _text(call: Exchange) -> str:
    return call.question if call.step.has("echo") else call.step.text("text", TEXT)


async def _answer(call: Exchange, answer: Said) -> None:
    answer = replace(answer, load=await _load(call))
    if call.step.has("type"):
        call.headers["Content-Type"] = call.step.text("type", "")
    if not call.dialect.streams:
        await call.reply_json(call.dialect.whole(answer))
        return
    await tell(call, answer)
    await call.finish(b"" if answer.finish is None else call.dialect.ending(answer).all)


async def _load(call: Exchange) -> float:
    memory, dialect = call.stage.memory, call.dialect
    seconds = 0.0 if memory.has(dialect.model, dialect.window) else call.step.number("load", 0)
    if seconds:
        memory.unload(dialect.model)
        await call.wait(seconds)
    if not memory.has(dialect.model, dialect.window):
        memory.load(dialect.model, dialect.window, dialect.stay)
    return seconds


async def ok(call: Exchange) -> None:
    await _answer(call, said(call))


async def thinking(call: Exchange) -> None:
    await _answer(call, said(call, thinking=THINKING))


async def length(call: Exchange) -> None:
    await _answer(call, said(call, finish="length"))


async def length_empty(call: Exchange) -> None:
    thought = THINKING if call.step.has("thinking") else ""
    await _answer(call, said(call, "", thinking=thought, finish="length"))


async def empty(call: Exchange) -> None:
    await _answer(call, said(call, ""))


async def repeat(call: Exchange) -> None:
    unit = call.step.text("text", _UNIT)
    await _answer(call, said(call, f"{TEXT} {unit * call.step.count('times', 200)}"))


async def no_end(call: Exchange) -> None:
    await _answer(call, said(call, finish=None))


async def no_done(call: Exchange) -> None:
    if not call.dialect.streams:
        await no_end(call)
        return
    answer = said(call)
    await tell(call, answer)
    await call.finish(call.dialect.ending(answer).closing)


async def big(call: Exchange) -> None:
    answer = _giant(call, 20)
    if not call.dialect.streams:
        await call.reply_json(call.dialect.whole(answer))
        return
    await call.start()
    await call.send(call.dialect.opening())
    part = len(answer.text) if call.step.has("line") else _BIG_PIECE
    for start in range(0, len(answer.text), part):
        await call.send(call.dialect.piece(answer.text[start : start + part]))
    await call.finish(call.dialect.ending(answer).all)


def _giant(call: Exchange, megabytes: float) -> Said:
    size = int(call.step.number("mb", megabytes) * _MEGABYTE)
    return Said(text="x" * size, input_tokens=1, output_tokens=size)


async def gzip(call: Exchange) -> None:
    call.headers |= {"Content-Type": call.kind, "Content-Encoding": "gzip"}
    body = rendered(call, _giant(call, 0) if call.step.has("mb") else said(call))
    await call.reply(200, body if call.step.has("garbage") else zlib.compress(body, wbits=_GZIP))


async def long_header(call: Exchange) -> None:
    call.headers["X-Long"] = "x" * int(call.step.number("kb", 1024) * _KILOBYTE)
    await _answer(call, said(call))


async def null_choices(call: Exchange) -> None:
    await _unanswered(call, None)


async def empty_candidates(call: Exchange) -> None:
    await _unanswered(call, [])


async def _unanswered(call: Exchange, gap: list[object] | None) -> None:
    answer = said(call, "")
    objects = call.dialect.unanswered(answer, gap)
    if call.step.has("block"):
        objects = [{**value, "promptFeedback": {"blockReason": call.step.text("block", "")}} for value in objects]
    if not call.dialect.streams:
        await call.reply_json(objects[0])
        return
    await call.start()
    frames = b"".join(call.dialect.frame(value) for value in objects)
    ending = call.dialect.ending(answer)
    # Where finish and last mark are one, that one is among the objects, if the answer has it at all.
    await call.finish(frames + (ending.mark if ending.closing else b""))
