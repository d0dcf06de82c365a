"""Ollama's replies: one object, or one JSON line a chunk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from staffel.local_model.errors import GenerationFailed
from staffel.local_model.model import Finish

Chunk = dict[str, Any]
Wrap = Callable[[str], Chunk]
"""Where an endpoint puts the text of its answer."""


def as_message(text: str) -> Chunk:
    return {"message": {"role": "assistant", "content": text}}


def as_response(text: str) -> Chunk:
    return {"response": text}


def chunk(model: str, said: Chunk) -> Chunk:
    return {"model": model, "created_at": now(), **said, "done": False}


def done(model: str, said: Chunk, reason: str) -> Chunk:
    return {**chunk(model, said), "done": True, "done_reason": reason}


def counted(finish: Finish, total_ns: int, load_ns: int) -> dict[str, int]:
    """Nanoseconds and tokens; what is zero is left out, as Ollama does."""
    counters = {
        "total_duration": total_ns,
        "load_duration": load_ns,
        "prompt_eval_count": finish.prompt_tokens,
        "prompt_eval_duration": finish.prompt_ns,
        "eval_count": finish.output_tokens,
        "eval_duration": finish.output_ns,
    }
    return {name: value for name, value in counters.items() if value}


async def streamed(request: web.Request, chunks: AsyncIterator[Chunk]) -> web.StreamResponse:
    """The status goes out with the first chunk, so that an early error can still have its own."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    try:
        async for piece in chunks:
            if not response.prepared:
                await response.prepare(request)
            await response.write(json.dumps(piece).encode() + b"\n")
    except GenerationFailed as error:
        if not response.prepared:
            raise
        await response.write(json.dumps({"error": str(error)}).encode() + b"\n")
    return response


async def whole(chunks: AsyncIterator[Chunk], wrap: Wrap) -> web.Response:
    texts: list[str] = []
    last: Chunk = {}
    async for last in chunks:
        texts.append(last["message"]["content"] if "message" in last else last["response"])
    return web.json_response({**last, **wrap("".join(texts))})


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
