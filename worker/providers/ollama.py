"""Ollama's native `/api/chat`, through the `ollama` package.

Native, because its OpenAI-compatible twin ignores `num_ctx`, `keep_alive` and errors in mid-stream. The package's
`chat()` knows no `truncate`, and without it a prompt that is too long is answered from half of itself with status
200 (ollama#17427), so the request goes through the package's own `_request` underneath `chat()`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import ollama

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, End, Fault, Kind, Piece
from worker.providers.replies import error_words, failed
from worker.providers.transport import client_arguments, fault_of

_NO_STATUS = -1
"""What the package calls an error that came inside a stream."""


class Ollama:
    """One client a stage; a client bound to the process's one event loop."""

    def __init__(self) -> None:
        self._clients: dict[str, ollama.AsyncClient] = {}

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        try:
            replies = await self._client(call.stage)._request(  # noqa: SLF001 - see the top of this file
                ollama.ChatResponse, "POST", "/api/chat", json=payload(call), stream=True
            )
            async with aclosing(cast("AsyncGenerator[ollama.ChatResponse]", replies)):
                async for reply in replies:
                    for chunk in _chunks(reply):
                        yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise _fault(error) from error

    def _client(self, stage: Stage) -> ollama.AsyncClient:
        if stage.name not in self._clients:
            # The package sends $OLLAMA_API_KEY to any host unless the header is there.
            key = stage.api_key.get_secret_value() if stage.api_key else "none"
            headers = {"authorization": f"Bearer {key}"}
            arguments: dict[str, Any] = {**client_arguments(stage), "headers": headers}
            self._clients[stage.name] = ollama.AsyncClient(stage.base_url, **arguments)
        return self._clients[stage.name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()  # type: ignore[no-untyped-call]


def payload(call: Call) -> dict[str, Any]:
    """The body of one call: `num_ctx` is the stage's, since another one would load the model anew."""
    request, stage = call.request, call.stage
    options: dict[str, Any] = {"num_ctx": stage.num_ctx, "num_predict": min(call.max_output_tokens, stage.num_ctx)}
    optional = {"temperature": request.temperature, "seed": request.seed, "stop": list(request.stop) or None}
    options |= {name: value for name, value in optional.items() if value is not None}
    params = {**stage.params, **request.params.get(stage.name, {})}
    options |= params.pop("options", {})
    return {
        "model": stage.model,
        "messages": list(request.messages),
        "truncate": False,
        "think": request.reasoning if request.reasoning not in {None, "none"} else False,
        "keep_alive": stage.keep_alive,
        **params,
        "options": options,
        "stream": True,
    }


def _chunks(reply: ollama.ChatResponse) -> list[Piece | End]:
    chunks: list[Piece | End] = []
    if reply.message.thinking:
        chunks.append(Piece(thought=True))
    if reply.message.content:
        chunks.append(Piece(reply.message.content))
    if reply.done:
        usage = Usage(reply.prompt_eval_count or 0, reply.eval_count or 0)
        chunks.append(End(reply.done_reason or "", usage))
    return chunks


def _fault(error: Exception) -> Fault:
    if not isinstance(error, ollama.ResponseError):
        # A TypeError is how the package meets an error object inside a stream.
        return Fault(Kind.IN_STREAM) if isinstance(error, TypeError) else fault_of(error)
    code, text = error_words({"error": error.error})
    if error.status_code == _NO_STATUS:
        return Fault(Kind.IN_STREAM, code=code, text=text)
    found = failed(error.status_code, {}, str(error.error), time.time())
    return Fault(Kind.STATUS, status=error.status_code, code=found.code or code, text=text, html=found.html)
