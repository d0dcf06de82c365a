"""Ollama's native HTTP API before one model, one request at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter_ns
from typing import Protocol

from aiohttp import web

from staffel.local_model.body import Named, parsed
from staffel.local_model.errors import GenerationFailed, RequestRefused
from staffel.local_model.facts import Facts
from staffel.local_model.guard import Handler, only_this_machine
from staffel.local_model.model import Piece
from staffel.local_model.prompt import fitted
from staffel.local_model.question import Question, chat_question, generate_question
from staffel.local_model.replies import (
    Chunk,
    Wrap,
    as_message,
    as_response,
    chunk,
    counted,
    done,
    streamed,
    whole,
)
from staffel.local_model.residence import Held, Residence

VERSION = "0.33.0+staffel"  # the Ollama whose API this is, and who gives it
_MOST_BYTES = 64 * 2**20


class _Read(Protocol):
    def __call__(self, raw: bytes, facts: Facts, num_ctx: int) -> Question: ...


def application(residence: Residence, facts: Facts, num_ctx: int, *, guarded: bool) -> web.Application:
    """The routes; `num_ctx` is the window where a request names none.

    `guarded` is for a server on loopback: it then refuses what a web page sends.
    """
    api = _Api(residence, facts, num_ctx)
    middlewares = [only_this_machine, _as_ollama_errs] if guarded else [_as_ollama_errs]
    app = web.Application(client_max_size=_MOST_BYTES, middlewares=middlewares)
    app.add_routes(
        [
            web.get("/", api.root),
            web.get("/api/version", api.version),
            web.get("/api/tags", api.tags),
            web.get("/api/ps", api.ps, allow_head=False),
            web.post("/api/show", api.show),
            web.post("/api/chat", api.chat),
            web.post("/api/generate", api.generate),
        ]
    )
    return app


class _Api:
    def __init__(self, residence: Residence, facts: Facts, num_ctx: int) -> None:
        self._residence = residence
        self._facts = facts
        self._num_ctx = num_ctx
        self._adds_bos = facts.metadata.get("tokenizer.ggml.add_bos_token") is True
        self._calls = 0

    async def root(self, _: web.Request) -> web.Response:
        return web.Response(text="Ollama is running")

    async def version(self, _: web.Request) -> web.Response:
        """As Ollama; `calls` counts what asked for an answer, whatever came of it: this host's own log, to be held
        against a ledger. To load or unload the model is no call.
        """
        return web.json_response({"version": VERSION, "calls": self._calls})

    async def tags(self, _: web.Request) -> web.Response:
        return web.json_response({"models": [{**self._facts.card(), "modified_at": self._facts.modified_at}]})

    async def ps(self, _: web.Request) -> web.Response:
        resident = await self._residence.resident()
        if resident is None:
            return web.json_response({"models": []})
        size = resident.size or self._facts.size
        more = {"size_vram": 0, "expires_at": resident.expires_at, "context_length": resident.loading.num_ctx}
        return web.json_response({"models": [{**self._facts.card(), "size": size, **more}]})

    async def show(self, request: web.Request) -> web.Response:
        parsed(Named, await request.read()).found(self._facts.name)
        return web.json_response(self._facts.shown())

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._reply(request, chat_question, as_message)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        return await self._reply(request, generate_question, as_response)

    async def _reply(self, request: web.Request, read: _Read, wrap: Wrap) -> web.StreamResponse:
        arrived = perf_counter_ns()
        raw = await request.read()
        self._calls += 1
        question = read(raw, self._facts, self._num_ctx)
        if question.empty:
            self._calls -= 1
            return await self._prepare(question, wrap)
        async with self._residence.hold(question.loading, question.stay) as held:
            chunks = self._chunks(question, held, arrived, wrap)
            async with aclosing(chunks):
                return await (streamed(request, chunks) if question.stream else whole(chunks, wrap))

    async def _prepare(self, question: Question, wrap: Wrap) -> web.Response:
        """Load the model, or unload it."""
        if question.unloads:
            self._residence.unload()
        else:
            await self._residence.load(question.loading, question.stay)
        return web.json_response(done(question.model, wrap(""), "unload" if question.unloads else "load"))

    async def _chunks(self, question: Question, held: Held, arrived: int, wrap: Wrap) -> AsyncGenerator[Chunk, None]:
        prompt, limit = await fitted(held.model, question, adds_bos=self._adds_bos)
        settings = {**question.settings, "n_keep": question.num_keep, "max_tokens": limit}
        async with aclosing(held.model.generate(prompt, settings)) as generated:
            async for item in generated:
                if isinstance(item, Piece):
                    yield chunk(question.model, wrap(item.text))
                else:
                    counts = counted(item, perf_counter_ns() - arrived, held.ready_ns - arrived)
                    yield {**done(question.model, wrap(""), item.reason), **counts}


@web.middleware
async def _as_ollama_errs(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RequestRefused as refused:
        return web.json_response({"error": refused.error}, status=refused.status)
    except GenerationFailed as failed:
        return web.json_response({"error": str(failed)}, status=500)
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found")
    except web.HTTPMethodNotAllowed:
        return web.Response(status=405, text="405 method not allowed")
    except web.HTTPRequestEntityTooLarge:
        return web.json_response({"error": f"the request is larger than {_MOST_BYTES} bytes"}, status=413)
