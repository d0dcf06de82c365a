"""Ollama's native `/api/chat`, through the `ollama` package.

Native, because its OpenAI-compatible twin ignores `num_ctx`, `keep_alive` and errors in mid-stream. The package's
`chat()` knows no `truncate`, and without it a prompt that is too long is answered from half of itself with status
200 (ollama#17427); it also fails at a blank line and keeps no header of an error. So the request goes through the
package's own HTTP client, and its lines are read here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import ollama

from config.stages import Stage
from worker.failover.provider import Call, End, Fault, Kind, Piece, counted
from worker.providers.replies import error_words, failed
from worker.providers.transport import OK, client_arguments, error_body, fault_of, lines


class Ollama:
    """One client a stage; a client bound to the process's one event loop."""

    def __init__(self) -> None:
        self._clients: dict[str, ollama.AsyncClient] = {}

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        try:
            client = _inner(self._client(call.stage))
            async with client.stream("POST", "/api/chat", json=payload(call)) as response:
                if response.status_code != OK:
                    body = await error_body(response)
                    raise failed(response.status_code, response.headers, body, time.time())
                async for line in lines(response):
                    for chunk in _chunks(line):
                        yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise fault_of(error) from error

    def _client(self, stage: Stage) -> ollama.AsyncClient:
        if stage.name not in self._clients:
            headers = {"authorization": f"Bearer {stage.api_key.get_secret_value()}"} if stage.api_key else {}
            arguments: dict[str, Any] = {**client_arguments(stage), "headers": headers}
            self._clients[stage.name] = client = ollama.AsyncClient(stage.base_url, **arguments)
            if not stage.api_key:
                # The package sends $OLLAMA_API_KEY to any host.
                _inner(client).headers.pop("authorization", None)
        return self._clients[stage.name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()  # type: ignore[no-untyped-call]


def _inner(client: ollama.AsyncClient) -> httpx.AsyncClient:
    found: httpx.AsyncClient = client._client  # noqa: SLF001 - see the top of this file
    return found


def payload(call: Call) -> dict[str, Any]:
    """The body of one call, a request's own params on top of the stage's.

    None of them reaches the model, the messages, `truncate`, `num_ctx` or `num_predict`: another window would load the
    model anew, and without a limit an answer may never end.
    """
    request, stage = call.request, call.stage
    return {
        "think": request.reasoning if request.reasoning not in {None, "none"} else False,
        "keep_alive": stage.keep_alive,
        **stage.params,
        **request.params.get(stage.name, {}),
        "model": stage.model,
        "messages": list(request.messages),
        "truncate": False,
        "options": _options(call),
        "stream": True,
    }


def _options(call: Call) -> Any:  # noqa: ANN401 - whatever a caller put there, where it is no object
    request, stage = call.request, call.stage
    optional = {"temperature": request.temperature, "seed": request.seed, "stop": list(request.stop) or None}
    options: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    for params in (stage.params, request.params.get(stage.name, {})):
        given = params.get("options") or {}
        if not isinstance(given, Mapping):
            return given  # the host says what is wrong with it
        options |= given
    return {**options, "num_ctx": stage.num_ctx, "num_predict": min(call.max_output_tokens, stage.num_ctx)}


def _chunks(line: str) -> list[Piece | End]:
    """What one line says; only what an answer is made of is looked at.

    The package's own `ChatResponse` refuses the whole line for a date or a counter of another shape.
    """
    if not line.strip():
        return []
    part = json.loads(line)
    if not isinstance(part, Mapping):
        raise Fault(Kind.UNREADABLE)
    if part.get("error"):
        code, text = error_words(part)
        raise Fault(Kind.IN_STREAM, code=code, text=text)
    message = part.get("message")
    if not isinstance(message, Mapping) or not isinstance(content := message.get("content") or "", str):
        raise Fault(Kind.UNREADABLE)
    chunks: list[Piece | End] = []
    if message.get("thinking"):
        chunks.append(Piece(thought=True))
    if content:
        chunks.append(Piece(content))
    if part.get("done") in (True, "true"):
        usage = counted(part.get("prompt_eval_count"), part.get("eval_count"))
        chunks.append(End(str(part.get("done_reason") or ""), usage))
    return chunks
