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
from worker.failover.provider import Call, Chunk, End
from worker.providers.frames import Frame, frames
from worker.providers.replies import failed
from worker.providers.transport import OK, client_arguments, error_body, fault_of

_DRAIN_S = 0.05
"""After the end mark the body's own end is awaited this long, so that the connection can be used again."""


class Reading(ABC):
    """What the objects of one answer have said so far."""

    @abstractmethod
    def take(self, frame: Frame) -> Iterable[Chunk]:
        """The chunks that this object adds; an `End` among them ends the reading. May raise `Fault`.

        Any other exception is taken for an object in a shape that the protocol does not have.
        """

    def done(self, *, marked: bool) -> Iterable[Chunk]:  # noqa: ARG002 - for those that look for it
        """The chunks that the end of the body adds; `marked`: OpenAI's `[DONE]` was seen."""
        return ()


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

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"model", "messages", "system", "stream", "max_tokens", "max_completion_tokens", "response_format"}
        | {"output_config.format"}
    )
    """Fields, as such paths, that are sent whatever a host says of them, also where a stage's `params` name them."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    @abstractmethod
    def url(self, call: Call) -> str: ...

    @abstractmethod
    def headers(self, stage: Stage) -> Mapping[str, str]: ...

    @abstractmethod
    def body(self, call: Call) -> dict[str, Any]:
        """What is sent, `call.dropped` not yet taken out."""

    @abstractmethod
    def reading(self, call: Call) -> Reading: ...

    def params(self, call: Call) -> Sequence[Mapping[str, Any]]:
        """The provider's own fields: the stage's, and those of the request that go on top of them."""
        return call.stage.params, call.request.params.get(call.stage.name, {})

    def payload(self, call: Call) -> dict[str, Any]:
        """What is sent."""
        return without(self.body(call), call.dropped)

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        body = self.payload(call)
        named = {
            f"{path}={_spelled(value)}" if path in self.BY_VALUE else path: words
            for path, words in self.OPTIONAL.items()
            for value in _at(body, path.split("."))
        }
        own = {path: path.split(".") for path in self._own(call) if path not in self.OPTIONAL}
        return named | {path: (steps[-1],) for path, steps in own.items() if any(True for _ in _at(body, steps))}

    def _own(self, call: Call) -> Iterator[str]:
        """The paths of the fields that come from `params`; one that holds a fixed field is never one itself."""
        holders = {path.partition(".")[0] for path in {*self.OPTIONAL, *self.FIXED} if "." in path}
        for params in self.params(call):
            for name, value in params.items():
                inner = value if isinstance(value, Mapping) else ()
                paths = [f"{name}.{step}" for step in inner] if name in holders else [name]
                yield from (path for path in paths if path not in self.FIXED)

    async def stream(self, call: Call) -> AsyncIterator[Chunk]:
        try:
            request = self._client(call.stage).stream(
                "POST", self.url(call), json=self.payload(call), headers=dict(self.headers(call.stage))
            )
            async with request as response:
                if response.status_code != OK:
                    body = await error_body(response)
                    raise failed(response.status_code, response.headers, body, time.time())
                async with aclosing(_chunks(response, self.reading(call))) as chunks:
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
    marked = ended = False
    async with aclosing(frames(response)) as found:
        try:
            async for frame in found:
                if marked := frame is None:
                    break
                for chunk in reading.take(frame or {}):
                    ended = isinstance(chunk, End)
                    yield chunk
                    if ended:
                        return
            for chunk in reading.done(marked=marked):
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


def without(body: dict[str, Any], dropped: Iterable[str]) -> dict[str, Any]:
    """The body without the fields of these names (`Adapter.OPTIONAL`), nor an object that has lost its last one."""
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
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _at(body: object, path: Sequence[str]) -> Iterator[object]:
    if not path:
        yield body
    elif isinstance(body, Mapping) and path[0] in body:
        yield from _at(body[path[0]], path[1:])
