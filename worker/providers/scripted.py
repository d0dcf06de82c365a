"""A provider that plays a script: the engine's double, and a stage for trying things out.

A script is a list of steps, one a call, the last one repeated. Its words: `ok`, `ok:some text`, `ok:some text:1.5`
(seconds before it), `status:500`, `refused`, `hang`, `stall` (one piece, then nothing), `cut`, `empty`, `length`,
`garbage`, `no-end`, `rejects:FIELD` (until the call comes without it).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, Words

FOREVER = 10 * 365 * 86_400.0


@dataclass(slots=True)
class Scripted:
    """Keeps the calls it got, so that a test can count them."""

    scripts: dict[str, Sequence[str]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        return {name: (name,) for name in ("temperature", "seed", "stop") if name not in call.dropped}

    async def stream(self, call: Call) -> AsyncIterator[Chunk]:
        script = self.scripts.get(call.stage.name) or call.stage.params.get("script") or ["ok"]
        call.sending()
        done = sum(earlier.stage.name == call.stage.name for earlier in self.calls)
        self.calls.append(call)
        word, _, rest = script[min(done, len(script) - 1)].partition(":")
        if word == "rejects" and rest in call.dropped:
            word, rest = "ok", ""
        async for chunk in _play(word, rest):
            yield chunk


async def _play(word: str, rest: str) -> AsyncIterator[Chunk]:
    if word == "ok":
        text, _, delay = rest.partition(":")
        if delay:
            await asyncio.sleep(float(delay))
        for part in (text or "scripted answer").split(" "):
            yield Piece(f"{part} ")
        yield End("stop", Usage(7, 3))
    elif word in {"hang", "stall"}:
        if word == "stall":
            yield Piece("half an ")
        await asyncio.sleep(FOREVER)
    elif word in {"length", "no-end", "cut"}:
        yield Piece("half an answer")
        if word == "cut":
            raise Fault(Kind.CUT)
        if word == "length":
            yield End("length", Usage(7, 3))
    elif word == "empty":
        yield End("stop", Usage(7, 0))
    else:
        raise _fault(word, rest)


def _fault(word: str, rest: str) -> Fault:
    if word == "refused":
        return Fault(Kind.CONNECT)
    if word == "garbage":
        return Fault(Kind.UNREADABLE)
    if word == "rejects":
        return Fault(Kind.STATUS, status=400, words=Words(("unsupported_parameter",), param=rest, formed=True))
    status, _, text = rest.partition(":")
    return Fault(Kind.STATUS, status=int(status), words=Words(text=text, formed=True))
