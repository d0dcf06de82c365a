"""Ollama's native HTTP API before one model, one request at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

from aiohttp import web

from staffel.local_model.errors import GenerationFailed, RequestRefused
from staffel.local_model.guard import Handler, only_this_machine
from staffel.local_model.model import Facts, Finish, Model, Piece
from staffel.local_model.question import Named, Question, parsed

VERSION = "0.33.0+staffel"  # the Ollama whose API this is, and who gives it
_MOST_BYTES = 64 * 2**20
_FAMILY = "llama"
_NEVER = "2318-01-01T00:00:00Z"  # the model stays until the server stops

Chunk = dict[str, Any]


def application(model: Model, facts: Facts, name: str, *, guarded: bool) -> web.Application:
    """The routes. `guarded` is for a server on loopback: it then refuses what a web page sends."""
    api = _Api(model, facts, name)
    middlewares = [only_this_machine, _as_ollama_errs] if guarded else [_as_ollama_errs]
    app = web.Application(client_max_size=_MOST_BYTES, middlewares=middlewares)
    app.add_routes(
        [
            web.get("/", api.root),
            web.get("/api/version", api.version),
            web.get("/api/tags", api.tags),
            web.get("/api/ps", api.ps),
            web.post("/api/show", api.show),
            web.post("/api/chat", api.chat),
        ]
    )
    return app


class _Api:
    def __init__(self, model: Model, facts: Facts, name: str) -> None:
        self._model = model
        self._facts = facts
        self._name = name
        self._since = _now()
        self._calls = 0
        # First come, first served; who is cancelled while waiting is out of the queue.
        self._place = asyncio.Lock()

    async def root(self, _: web.Request) -> web.Response:
        return web.Response(text="Ollama is running")

    async def version(self, _: web.Request) -> web.Response:
        """As Ollama; `calls` counts what came to `/api/chat`: this host's own log, to be held against a ledger."""
        return web.json_response({"version": VERSION, "calls": self._calls})

    async def tags(self, _: web.Request) -> web.Response:
        return web.json_response({"models": [{**self._card(), "modified_at": self._since}]})

    async def ps(self, _: web.Request) -> web.Response:
        resident = {"expires_at": _NEVER, "size_vram": 0, "context_length": self._facts.window}
        return web.json_response({"models": [{**self._card(), **resident}]})

    async def show(self, request: web.Request) -> web.Response:
        parsed(Named, await request.read()).found(self._name)
        info = {
            "general.architecture": _FAMILY,
            "general.parameter_count": self._facts.parameters,
            f"{_FAMILY}.context_length": self._facts.trained_window,
        }
        shown = {"capabilities": ["completion"], "details": self._details(), "model_info": info}
        return web.json_response({**shown, "parameters": f"num_ctx {self._facts.window}", "modified_at": self._since})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        arrived = perf_counter_ns()
        self._calls += 1
        question = Question.parse(await request.read(), self._name)
        if not question.messages:
            end = {"done": True, "done_reason": "unload" if question.unload else "load"}
            return web.json_response({**_chunk(question.model, ""), **end})
        # Counted before the wait for the place: a prompt that cannot fit is told so at once.
        asked = question.limited_to(self._facts.window, await self._model.count(question.messages))
        loaded = perf_counter_ns()
        async with self._place, aclosing(self._model.generate(asked)) as generated:
            chunks = _chunks(question.model, generated, arrived, loaded)
            return await (_streamed(request, chunks) if question.stream else _whole(chunks))

    def _card(self) -> Chunk:
        named = {"name": self._name, "model": self._name}
        return {**named, "size": self._facts.size, "digest": self._facts.digest, "details": self._details()}

    def _details(self) -> Chunk:
        return {
            "parent_model": "",
            "format": "gguf",
            "family": _FAMILY,
            "families": [_FAMILY],
            "parameter_size": f"{self._facts.parameters / 1e6:.2f}M",
            "quantization_level": self._facts.quantization,
        }


async def _chunks(
    model: str, generated: AsyncIterator[Piece | Finish], arrived: int, loaded: int
) -> AsyncIterator[Chunk]:
    async for item in generated:
        if isinstance(item, Piece):
            yield {**_chunk(model, item.text), "done": False}
        else:
            yield {**_chunk(model, ""), **_end(item, perf_counter_ns() - arrived, loaded - arrived)}


async def _streamed(request: web.Request, chunks: AsyncIterator[Chunk]) -> web.StreamResponse:
    """One JSON line a chunk; the status goes out with the first one, so that an early error can still have its own."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    try:
        async for chunk in chunks:
            if not response.prepared:
                await response.prepare(request)
            await response.write(json.dumps(chunk).encode() + b"\n")
    except GenerationFailed as error:
        if not response.prepared:
            raise
        await response.write(json.dumps({"error": str(error)}).encode() + b"\n")
    return response


async def _whole(chunks: AsyncIterator[Chunk]) -> web.Response:
    texts: list[str] = []
    last: Chunk = {}
    async for last in chunks:
        texts.append(last["message"]["content"])
    return web.json_response({**last, "message": {"role": "assistant", "content": "".join(texts)}})


def _chunk(model: str, text: str) -> Chunk:
    return {"model": model, "created_at": _now(), "message": {"role": "assistant", "content": text}}


def _end(finish: Finish, total_ns: int, load_ns: int) -> Chunk:
    return {
        "done": True,
        "done_reason": finish.reason,
        "total_duration": total_ns,
        "load_duration": load_ns,
        "prompt_eval_count": finish.prompt_tokens,
        "prompt_eval_duration": finish.prompt_ns,
        "eval_count": finish.output_tokens,
        "eval_duration": finish.output_ns,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


@web.middleware
async def _as_ollama_errs(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RequestRefused as refused:
        return web.json_response({"error": refused.error}, status=refused.status)
    except GenerationFailed as failed:
        error = f"an error was encountered while running the model: {failed}"
        return web.json_response({"error": error}, status=500)
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found")
    except web.HTTPMethodNotAllowed:
        return web.Response(status=405, text="405 method not allowed")
    except web.HTTPRequestEntityTooLarge:
        return web.json_response({"error": f"the request is larger than {_MOST_BYTES} bytes"}, status=413)
