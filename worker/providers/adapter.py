"""What every protocol shares: one client a stage, one call, and the way from a body's objects to chunks."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

import httpx

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind
from worker.providers.frames import Frame, frames
from worker.providers.replies import failed
from worker.providers.thinking import Spoken
from worker.providers.transport import OK, SENDING, client_arguments, error_body, fault_of

_DRAIN_S = 0.05
"""After the end mark the body's own end is awaited this long, so that the connection can be used again."""


_MOST_PARTS = 10_000
"""Choices, candidates or parts of one object."""

_LONGEST_NAME = 80
"""Characters of a remembered field with its value; a longer one is remembered without."""


class Reading(ABC):
    """What the objects of one answer have said so far. `marked`: OpenAI's `[DONE]` was seen."""

    def __init__(self) -> None:
        self.marked = False
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.spoken = Spoken()

    @abstractmethod
    def take(self, frame: Frame) -> Iterable[Chunk]:
        """The chunks that this object adds; an `End` among them ends the reading. May raise `Fault`.

        Any other exception is taken for an object in a shape that the protocol does not have.
        """

    def count(self, usage: Usage | None) -> Iterator[Usage]:
        """Keep what the host has counted by now, and tell it where it is the whole: after the finish reason.

        What it counts before is not what an answer that breaks off will cost.
        """
        if usage is not None and usage != self.usage and self.finish is not None:
            yield usage
        self.usage = usage

    def few(self, parts: Sequence[Any]) -> Sequence[Any]:
        """A list as it is. Raises `Fault` for one that no answer has: a megabyte of empty parts takes seconds."""
        if len(parts) > _MOST_PARTS:
            raise Fault(Kind.UNREADABLE)
        return parts

    def done(self) -> Iterable[Chunk]:
        """The chunks that the end of the body adds: of a text that broke off, what was held."""
        return self.spoken.end()


class Adapter(ABC):
    """One protocol: where a call goes, what it carries, and how its reply is read. Never retries.

    Streams every call, also where the caller wants one piece, unless the stage cannot (`stream = false`): only then can
    first token and idle clocks run. A reply is read in either shape, whichever was asked for.
    """

    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]]
    """Fields that a call can do without, as paths into its body (`output_config.effort`), each with the words by which
    hosts speak of it. Never the model, the messages, a limit on the output, a schema or an image."""

    BY_VALUE: ClassVar[frozenset[str]] = frozenset()
    """Those of them that a host may refuse at one value and take at another (an effort that this model lacks): such a
    one is dropped, and remembered, as `PATH=VALUE`, the value as JSON."""

    FIXED: ClassVar[frozenset[str]]
    """Fields, as such paths, that no `params` ever reach: what a stage is for, and what bounds its cost."""

    SCHEMA: ClassVar[frozenset[str]]
    """Fields, as such paths, that ask for JSON: never dropped, also where they come from a stage's `params`."""

    READING: ClassVar[type[Reading]]

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    @abstractmethod
    def url(self, call: Call) -> str: ...

    @abstractmethod
    def headers(self, stage: Stage) -> Mapping[str, str]: ...

    @abstractmethod
    def body(self, call: Call) -> dict[str, Any]:
        """What is sent, `call.dropped` not yet taken out."""

    def params(self, call: Call) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The provider's own fields, as far as they may go: the stage's, and the request's, which go on top of them."""
        stages, requests = call.stage.params, call.request.params.get(call.stage.name, {})
        return without(self.spelled(stages), self.FIXED), without(self.spelled(requests), self.FIXED)

    def spelled(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """These in the spelling of the paths, where the host takes more than one."""
        return params

    def payload(self, call: Call) -> dict[str, Any]:
        """What is sent."""
        return without(self.body(call), call.dropped)

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        """Never a field that the request's own `params` hold: what a host says of that is no lesson about the stage."""
        body, (stages, requests) = self.payload(call), self.params(call)
        words = {path: (path.rpartition(".")[2],) for path in self._own(stages)} | dict(self.OPTIONAL)
        return {
            self._name(path, value): words[path]
            for path in words
            if not any(True for _ in _at(requests, path.split(".")))
            for value in _at(body, path.split("."))
        }

    def _name(self, path: str, value: object) -> str:
        name = f"{path}={_spelled(value)}"
        return name if path in self.BY_VALUE and len(name) <= _LONGEST_NAME else path

    def _own(self, params: Mapping[str, Any]) -> Iterator[str]:
        """The paths of these fields; one that holds a fixed field, or one of a schema, is never one itself."""
        holders = {path.partition(".")[0] for path in {*self.OPTIONAL, *self.FIXED, *self.SCHEMA} if "." in path}
        for name, value in params.items():
            inner = value if isinstance(value, Mapping) else ()
            paths = [f"{name}.{step}" for step in inner] if name in holders else [name]
            yield from (path for path in paths if path not in self.SCHEMA)

    async def stream(self, call: Call) -> AsyncIterator[Chunk]:
        try:
            request = self._client(call.stage).stream(
                "POST",
                self.url(call),
                json=self.payload(call),
                headers=dict(self.headers(call.stage)),
                extensions={SENDING: call.sending},
            )
            async with request as response:
                if response.status_code != OK:
                    body = await error_body(response)
                    raise failed(response.status_code, response.headers, body, time.time())
                async with aclosing(_chunks(response, self.READING())) as chunks:
                    async for chunk in chunks:
                        yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise fault_of(error) from error

    def prepare(self, stage: Stage) -> None:
        """Make the stage's client now: reading the certificates of one takes 25 ms, which its first call would lose."""
        self._client(stage)

    def _client(self, stage: Stage) -> httpx.AsyncClient:
        if stage.name not in self._clients:
            self._clients[stage.name] = httpx.AsyncClient(**client_arguments(stage))  # type: ignore[arg-type]
        return self._clients[stage.name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


async def _chunks(response: httpx.Response, reading: Reading) -> AsyncGenerator[Chunk, None]:
    ended = False
    async with aclosing(frames(response)) as found:
        try:
            async for frame in found:
                if frame is None:
                    reading.marked = True
                    break
                for chunk in reading.take(frame):
                    ended = isinstance(chunk, End)
                    yield chunk
                    if ended:
                        return
            for chunk in reading.done():
                ended = isinstance(chunk, End)
                yield chunk
        finally:
            if ended:  # whoever reads has the end by now: no clock can take it away
                await _drain(found)


async def _drain(rest: AsyncIterator[Frame | None]) -> None:
    """Read what still comes, an error in it included: after the end mark nothing can make the answer less whole."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in rest:
                pass
    except Exception:  # noqa: BLE001 - it is over
        return


def wishes(call: Call) -> dict[str, Any]:
    """What the request would like and the stage takes, by its portable names: temperature, stop and seed."""
    request, takes = call.request, call.stage.takes
    wanted = {
        "temperature": request.temperature if takes.temperature else None,
        "stop": list(request.stop) or None if takes.stop else None,
        "seed": request.seed if takes.seed else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def without(fields: Mapping[str, Any], dropped: Iterable[str]) -> dict[str, Any]:
    """These without those of such names (`Adapter.OPTIONAL`), nor an object that has lost its last one."""
    body = dict(fields)
    for name in dropped:
        path, bound, value = name.partition("=")
        steps = path.split(".")
        if not bound or any(_spelled(found) == value for found in _at(body, steps)):
            body = _without(body, steps)
    return body


def _without(body: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    name, *rest = path
    if name not in body:
        return body
    inner = body[name]
    kept = _without(inner, rest) if rest and isinstance(inner, dict) else inner if rest else None
    if kept == {} or not rest:
        return {key: value for key, value in body.items() if key != name}
    return {**body, name: kept}


def _spelled(value: object) -> str:
    """Of an object that has a type, that alone: a budget beside it may be any number that a caller likes."""
    if isinstance(value, Mapping) and "type" in value:
        value = {"type": value["type"]}
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _at(body: object, path: Sequence[str]) -> Iterator[object]:
    if not path:
        yield body
    elif isinstance(body, Mapping) and path[0] in body:
        yield from _at(body[path[0]], path[1:])
