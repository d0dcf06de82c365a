"""The objects that a body carries: events of a stream, one a line, or one whole document; its bytes decide which."""

from __future__ import annotations

import asyncio
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx

from worker.failover.provider import Fault, Kind, Words
from worker.providers.replies import said
from worker.providers.transport import texts

Frame = Mapping[str, Any]

DONE = "[DONE]"
"""OpenAI's end mark, the one event of a stream that is no object."""

_FIELD = re.compile(r"(data|event|id|retry)?:")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

_STRING = re.compile(r'"[^"]*"')
_BETWEEN = re.compile(r"[ \t\n\r]*")
_BETWEEN_LISTED = re.compile(r"[ \t\n\r,]*")

_TURN = 256
"""Lines, or objects of one line, after which the loop's other work has its turn: a body of empty ones would keep all
clocks from striking."""

_CONTENT = frozenset({"candidates", "choices", "content", "delta", "done", "promptFeedback", "usageMetadata"})
"""What only the objects of an answer have, in any of the protocols."""


async def frames(response: httpx.Response) -> AsyncGenerator[Frame | None, None]:
    """Each object as it comes, None for OpenAI's end mark. Raises `Fault` for an error object and for what is none.

    Hosts and the gateways in front of them answer in another shape than asked, and under wrong content types: a web
    page is told by its first sign, an event stream by its field names, all else is JSON, in one piece or in many.
    """
    body: _Body | None = None
    seen = 0
    async with aclosing(_lines(response)) as lines:
        async for line in lines:
            if body is None and line.strip():
                body = _Events() if _FIELD.match(line.lstrip()) else _Documents()
                line = line.lstrip()  # noqa: PLW2901 - some begin with a blank
            for frame in body.take(line) if body else ():
                yield frame
                seen = await _turn(seen)
            seen = await _turn(seen)
    for frame in body.end() if body else ():
        yield frame
        seen = await _turn(seen)


async def _turn(seen: int) -> int:
    if seen % _TURN == 0:
        await asyncio.sleep(0)
    return seen + 1


async def _lines(response: httpx.Response) -> AsyncGenerator[str, None]:
    """The lines of a body as they come, each ended by CR, LF or both (WHATWG HTML, 9.2.5).

    Not by U+2028 and the like, as with most clients: JSON may hold them.
    """
    begun, after_cr = io.StringIO(), False
    async for text in texts(response):
        rest = text.removeprefix("\n") if after_cr else text
        after_cr = rest.endswith("\r") or (after_cr and not text)
        first, *more = rest.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        begun.write(first)
        if more:
            for line in (begun.getvalue(), *more[:-1]):
                yield line
            begun = io.StringIO()
            begun.write(more[-1])
    if last := begun.getvalue():
        yield last


class _Body(ABC):
    """One way of laying objects into lines. No text is parsed twice in its growth: a body has megabytes."""

    @abstractmethod
    def take(self, line: str) -> Iterator[Frame | None]: ...

    @abstractmethod
    def end(self) -> Iterator[Frame | None]:
        """What is still held at the end of the body."""


class _Events(_Body):
    """The events of a stream. One named `error` is an error, whatever it holds.

    Many hosts end an event with one line break instead of two, so a line of whole JSON is an event of its own.
    """

    def __init__(self) -> None:
        self._name = ""
        self._data = list[str]()
        self._given = ""

    def take(self, line: str) -> Iterator[Frame | None]:
        if not line.strip():
            yield from self.end()
            return
        name, _, value = line.partition(":")
        if name == "data":
            yield from self._hear(value)
        elif line.startswith(("{", "[")):  # a gateway's error, put into the stream as it is
            yield from self._hear(line)
        elif name == "event":
            if self._data:
                yield from self.end()
            self._name = value.strip()
        elif name == "error":
            raise said(value)
        elif name and not _NAME.fullmatch(name):  # a field of an unknown name is for others, text is for nobody
            raise _unreadable(line)

    def end(self) -> Iterator[Frame | None]:
        text = "\n".join(self._data)
        if self._name == "error":
            raise said(text or self._given)
        self._name, self._given, self._data = "", "", []
        yield from _Values().of(text)

    def _hear(self, value: str) -> Iterator[Frame | None]:
        data = value.strip()
        if data == DONE:
            yield from self.end()
            yield None
        elif not data:
            return
        elif self._name == "error" or self._data or (found := _whole(data)) is None:
            self._data.append(data)
        else:
            self._given = data
            yield from _checked(found)


class _Documents(_Body):
    """Objects one a line, over several lines, or in a list that comes piece by piece."""

    def __init__(self) -> None:
        self._held = list[str]()
        self._open = 0
        self._values = _Values()
        self._begun = False

    def take(self, line: str) -> Iterator[Frame]:
        if not self._held:
            if not line.strip():
                return
            if (found := _whole(line)) is not None:
                self._begun = True
                yield from _checked(found)
                return
            line = self._entered(line)
        self._held.append(line)
        self._open += _opened(line)
        if self._open <= 0:
            yield from self.end()

    def end(self) -> Iterator[Frame]:
        text, self._held, self._open = "\n".join(self._held), [], 0
        yield from self._values.of(text)

    def _entered(self, line: str) -> str:
        """The line without the bracket that opens a list around all of the body: its objects are taken one by one."""
        inside = line.lstrip()
        if self._begun or not inside.startswith("["):
            return line
        self._begun = self._values.listed = True
        return inside[1:]


class _Values:
    """The objects of a text that holds any number of them; `listed`: they stand in a list that has not ended yet."""

    def __init__(self) -> None:
        self.listed = False
        self._decoder = json.JSONDecoder()

    def of(self, text: str) -> Iterator[Frame]:
        place = self._start(text, 0)
        while place < len(text):
            try:
                found, place = self._decoder.raw_decode(text, place)
            except (ValueError, RecursionError):
                raise _unreadable(text) from None
            yield from _checked(found)
            place = self._start(text, place)

    def _start(self, text: str, place: int) -> int:
        """Where the next object starts, at the earliest here."""
        between = _BETWEEN_LISTED if self.listed else _BETWEEN
        if (found := between.match(text, place)) is not None:
            place = found.end()
        if self.listed and text.startswith("]", place):
            self.listed = False
            return self._start(text, place + 1)
        return place


def _opened(line: str) -> int:
    """How many more brackets it opens than it closes. Raises `Fault` where a string does not end in its line."""
    bare = _STRING.sub("", line.replace("\\\\", "").replace('\\"', ""))
    if '"' in bare:
        raise _unreadable(line)
    return bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")


def _whole(text: str) -> object | None:
    """The object or list that a text is; None where it is none, or not all of one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping | list) else None


def _checked(found: object) -> Iterator[Frame]:
    for part in found if isinstance(found, list) else [found]:
        if not isinstance(part, Mapping):
            raise Fault(Kind.UNREADABLE)
        if _complains(part):
            raise said(part)
        yield part


def _complains(found: Frame) -> bool:
    """Whether this is an error, in a protocol's own shape or in that of a server or gateway (vLLM, FastAPI, Kong)."""
    if found.get("error") or "error" in (found.get("object"), found.get("type")):
        return True
    if any(found.get(name) for name in _CONTENT):
        return False
    told = [text for text in (found.get("message"), found.get("msg")) if isinstance(text, str) and text.strip()]
    return bool(found.get("errors") or found.get("detail") or told)


def _unreadable(text: str) -> Fault:
    return Fault(Kind.UNREADABLE, words=Words(html=text.lstrip().startswith("<")))
