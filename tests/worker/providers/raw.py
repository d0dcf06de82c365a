"""A host that sends any bytes, for what the scripted one does not do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.eventually import eventually_async
from tests.worker.providers.asking import MESSAGES, provider_of, stage_at
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call
from worker.failover.request import Request

STREAMS = {
    "openai": "text/event-stream",
    "anthropic": "text/event-stream",
    "gemini": "text/event-stream",
    "ollama": "application/x-ndjson",
}

FINISHED = {"openai": "stop", "anthropic": "end_turn", "gemini": "STOP", "ollama": "stop"}
"""By which word each protocol says that an answer is whole."""


def http(body: str | bytes, kind: str, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole response; `headers` are lines of their own, each with its end."""
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def frame(protocol: str, value: object) -> str:
    """One object as the protocol streams it, its text as it is."""
    text = json.dumps(value, ensure_ascii=False)
    return f"{text}\n" if protocol == "ollama" else f"data: {text}\n\n"


def begun(protocol: str, text: str) -> str:
    """The start of an answer, with all of its text in one piece."""
    return "".join(frame(protocol, value) for value in _STARTS[protocol](text))


def saying(protocol: str, text: str) -> str:
    """The body of an answer in one piece."""
    ends = "".join(frame(protocol, value) for value in _ENDS[protocol])
    return begun(protocol, text) + ends + ("data: [DONE]\n\n" if protocol == "openai" else "")


_STARTS: Mapping[str, Callable[[str], list[Any]]] = {
    "openai": lambda text: [{"choices": [{"delta": {"content": text}}]}],
    "anthropic": lambda text: [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    ],
    "gemini": lambda text: [{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}],
    "ollama": lambda text: [{"message": {"role": "assistant", "content": text}, "done": False}],
}
_ENDS: Mapping[str, list[Any]] = {
    "openai": [{"choices": [{"delta": {}, "finish_reason": "stop"}]}],
    "anthropic": [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "gemini": [{"candidates": [{"content": {}, "finishReason": "STOP"}]}],
    "ollama": [{"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}],
}


@dataclass
class Raw:
    """One response a request, the last one repeated; each in slices, closed after it if it is to be."""

    responses: Sequence[bytes]
    slices: int = 1 << 20
    close: bool = False
    heads: list[str] = field(default_factory=list)
    """What the requests' heads were, in lower case."""
    closed: int = 0
    """Connections that were closed after their response."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
                await reader.readexactly(int(length.partition(":")[2]))
                self.heads.append(head)
                response = self.responses[min(len(self.heads), len(self.responses)) - 1]
                for start in range(0, len(response), self.slices):
                    writer.write(response[start : start + self.slices])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.closed += 1


def heard(
    protocol: str, *responses: bytes, slices: int = 1 << 20, close: bool = False
) -> tuple[list[Reply], list[str]]:
    """What was read of each of these responses, one call after the other, and the heads of the requests."""

    async def asking() -> tuple[list[Reply], list[str]]:
        async with Raw(responses, slices, close) as raw, provider_of(protocol) as provider:
            call, found = Call(stage_at(raw.url, protocol), Request(MESSAGES), 100), list[Reply]()
            for number in range(1, len(responses) + 1):
                found.append(await read(provider, call, 30))
                if close:
                    await eventually_async(lambda: raw.closed == number, "the host has closed the connection")  # noqa: B023
                    for _ in range(5):  # until the client's side of the same loop has heard of it
                        await asyncio.sleep(0)
            return found, raw.heads

    return asyncio.run(asking())
