"""OpenAI's chat completions: OpenAI itself, and every endpoint that speaks like it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, End, Fault, Kind, Piece, counted
from worker.providers.replies import error_words, failed
from worker.providers.transport import OK, client_arguments, error_body, fault_of, lines, texts

_DRAIN_S = 0.05
"""After the end mark the body's own end is awaited this long, so that the connection can be used again."""


_NEVER_PARAMS = frozenset({"max_tokens", "max_completion_tokens", "n"})


class OpenAI:
    """Streams every call, also where the caller wants one piece: only then can first token and idle clocks run."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        try:
            async with self._client(call.stage).stream(
                "POST", f"{call.stage.base_url}/chat/completions", json=payload(call), headers=_headers(call.stage)
            ) as response:
                if response.status_code != OK:
                    body = await error_body(response)
                    raise failed(response.status_code, response.headers, body, time.time())
                async for chunk in _chunks(response):
                    yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise fault_of(error) from error

    def _client(self, stage: Stage) -> httpx.AsyncClient:
        if stage.name not in self._clients:
            self._clients[stage.name] = httpx.AsyncClient(**client_arguments(stage))  # type: ignore[arg-type]
        return self._clients[stage.name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


def payload(call: Call) -> dict[str, Any]:
    """The body of one call; a request's own params for this stage go on top of the stage's.

    None of them reaches the model, the messages, the output limit in either spelling, or the number of answers:
    each of these is what the stage is for, or what bounds its cost.
    """
    request, stage = call.request, call.stage
    ours: dict[str, Any] = {
        "model": stage.model,
        "messages": list(request.messages),
        "stream": True,
        _limit_name(stage): call.max_output_tokens,
    }
    optional = {
        "temperature": request.temperature,
        "stop": list(request.stop) or None,
        "seed": request.seed,
        "reasoning_effort": request.reasoning if request.reasoning != "none" else None,
    }
    body: dict[str, Any] = {"stream_options": {"include_usage": True}}
    body |= {name: value for name, value in optional.items() if value is not None}
    body |= {**stage.params, **request.params.get(stage.name, {})}
    return {name: value for name, value in body.items() if name not in _NEVER_PARAMS} | ours


def _limit_name(stage: Stage) -> str:
    """OpenAI's newer models refuse `max_tokens`; most endpoints that imitate them know only that."""
    host = f".{urlsplit(stage.base_url).hostname}"
    return "max_completion_tokens" if host.endswith((".openai.com", ".azure.com")) else "max_tokens"


def _headers(stage: Stage) -> dict[str, str]:
    return {"authorization": f"Bearer {stage.api_key.get_secret_value()}"} if stage.api_key else {}


async def _chunks(response: httpx.Response) -> AsyncIterator[Piece | End]:
    reading = _Reading()
    found = lines(response)
    if "json" in response.headers.get("content-type", ""):
        reading.take(_parsed("".join([part async for part in texts(response)])))
        for piece in reading.pieces():
            yield piece
    else:
        async for line in found:
            data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
            if data == "[DONE]":
                await _drain(found)
                break
            if data:
                reading.take(_parsed(data))
                for piece in reading.pieces():
                    yield piece
            elif line.lstrip().startswith("<"):
                raise Fault(Kind.UNREADABLE, html=True)
    if (end := reading.end()) is not None:
        yield end


async def _drain(rest: AsyncIterator[str]) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in rest:
                pass
    except (TimeoutError, httpx.HTTPError):
        return


def _parsed(data: str) -> Mapping[str, Any]:
    try:
        chunk = json.loads(data)
    except ValueError:
        raise Fault(Kind.UNREADABLE) from None
    if isinstance(chunk, list) and chunk:
        chunk = chunk[0]
    if not isinstance(chunk, Mapping):
        raise Fault(Kind.UNREADABLE)
    return chunk


class _Reading:
    """What the chunks of one answer have said so far."""

    def __init__(self) -> None:
        self._new: list[Piece] = []
        self._finish: str | None = None
        self._usage: Usage | None = None

    def take(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("error"):
            code, text = error_words(chunk)
            raise Fault(Kind.IN_STREAM, code=code, text=text)
        if isinstance(usage := chunk.get("usage"), Mapping):
            self._usage = _usage(usage)
        for place, choice in enumerate(chunk.get("choices") or ()):
            index = choice.get("index")
            if (place if index is None else index) not in (0, "0"):
                continue  # another answer to the same question, which nobody asked for
            delta = choice.get("delta") or choice.get("message") or {}
            self._hear(delta)
            if choice.get("finish_reason"):
                self._finish = "content_filter" if self._finish == "content_filter" else str(choice["finish_reason"])

    def _hear(self, delta: Mapping[str, Any]) -> None:
        if delta.get("refusal"):
            self._finish = "content_filter"
        if delta.get("reasoning_content") or delta.get("reasoning"):
            self._new.append(Piece(thought=True))
        if isinstance(text := delta.get("content"), str) and text:
            self._new.append(Piece(text))

    def pieces(self) -> list[Piece]:
        new, self._new = self._new, []
        return new

    def end(self) -> End | None:
        return None if self._finish is None else End(self._finish, self._usage)


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    details = usage.get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return counted(usage.get("prompt_tokens"), usage.get("completion_tokens"), thought)
