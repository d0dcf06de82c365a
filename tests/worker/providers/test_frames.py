"""Whatever a body is laid out like, its objects are found, and what is none is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import httpx
import pytest

from worker.failover.provider import Fault, Kind
from worker.providers.frames import frames

A, B = {"a": 1}, {"b": '"}]{["'}
STREAM = f"data: {json.dumps(A)}\n\ndata: {json.dumps(B)}\n\ndata: [DONE]\n\n"


class _Torn(httpx.AsyncByteStream):
    def __init__(self, body: bytes, size: int) -> None:
        self._parts = [body[start : start + size] for start in range(0, len(body), size)]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


def found(body: str | bytes, size: int = 1 << 20) -> tuple[list[Mapping[str, Any] | None], Fault | None]:
    """The objects of a body that comes in parts of so many bytes, and the fault that it ended with."""
    data = body.encode() if isinstance(body, str) else body

    async def reading() -> tuple[list[Mapping[str, Any] | None], Fault | None]:
        heard: list[Mapping[str, Any] | None] = []
        try:
            async for frame in frames(httpx.Response(200, stream=_Torn(data, size))):
                heard.append(frame)  # noqa: PERF401 - what came before the fault counts
        except Fault as fault:
            return heard, fault
        return heard, None

    return asyncio.run(reading())


def kind(body: str | bytes) -> Kind | None:
    _, fault = found(body)
    return fault.kind if fault else None


PRETTY = json.dumps(A, indent=2)
LAYOUTS: dict[str, str] = {
    "events": STREAM,
    "events with the line ends of Windows": STREAM.replace("\n", "\r\n"),
    "events with the line ends of old": STREAM.replace("\n", "\r"),
    "events without a blank": STREAM.replace("data: ", "data:"),
    "events with one line break each": STREAM.replace("\n\n", "\n"),
    "events without an end": STREAM.rstrip("\n"),
    "events behind a mark": "\ufeff" + STREAM,
    "events behind a blank line": "\n\n " + STREAM,
    "events among comments and other fields": STREAM.replace(
        "\n\n", "\n\n: wait\n\nid: 7\nretry: 3\nevent: x\nother: y\n"
    ),
    "events with empty data": STREAM.replace("\n\n", "\n\ndata:\n\ndata\n\n"),
    "events of several lines": STREAM.replace(json.dumps(A), PRETTY.replace("\n", "\ndata: ")),
    "events of several lines with the line ends of Windows": STREAM.replace(
        json.dumps(A), PRETTY.replace("\n", "\ndata: ")
    ).replace("\n", "\r\n"),
    "events of several lines with one line break each": STREAM.replace(
        json.dumps(A), PRETTY.replace("\n", "\ndata: ")
    ).replace("\n\n", "\n"),
    "lines": f"{json.dumps(A)}\n{json.dumps(B)}\n",
    "lines without an end": f"{json.dumps(A)}\n\n{json.dumps(B)}",
    "one line": json.dumps(A) + json.dumps(B),
    "documents of several lines": PRETTY + "\n" + json.dumps(B, indent=2),
    "documents that share a line": PRETTY + json.dumps(B, indent=2),
    "a list in one line": json.dumps([A, B]),
    "a list of several lines": json.dumps([A, B], indent=2),
    "a list with a line for each": f"[{json.dumps(A)},\n{json.dumps(B)}\n]",
    "a list with its commas in front": f"[{PRETTY}\n,\r\n{json.dumps(B, indent=2)}\n]\n",
}


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_bytes_decide_how_a_body_is_read(layout: str, size: int) -> None:
    """Hosts, and the gateways in front of them, answer in another shape than asked."""
    heard, fault = found(LAYOUTS[layout], size)
    assert (heard, fault) == ([A, B, None] if "DONE" in LAYOUTS[layout] else [A, B], None)


@pytest.mark.parametrize(
    "start",
    [
        f"data: {json.dumps(A)}\n",
        f"data: {json.dumps(A)}\r",
        f"{json.dumps(A)}\n",
        f"[{PRETTY}\n",
        f"[{json.dumps(A)},\n",
    ],
)
def test_an_object_is_told_as_soon_as_it_is_whole(start: str) -> None:
    """A clock that waits for the first token would else wait for the end of the body, as it did with every list."""

    class Open(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield start.encode()
            raise AssertionError("no more of the body is needed")

    async def first() -> object:
        stream = frames(httpx.Response(200, stream=Open()))
        try:
            return await anext(stream)
        finally:
            await stream.aclose()

    assert asyncio.run(first()) == A


@pytest.mark.parametrize("body", ["", "\n\n", "[]", "[\n]", ": wait\n\n", "event: x\n\n", "data:\n\n"])
def test_a_body_may_hold_nothing(body: str) -> None:
    """That it was no answer is for others to say."""
    assert found(body) == ([], None)


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    "body",
    ["<!DOCTYPE html>", "\n <html>", "\ufeff<p>", "data: <html>\n\n", f"data: {json.dumps(A)}\n<html>\n"],
)
def test_a_page_is_none_of_a_hosts_answers(body: str, size: int) -> None:
    """Under whatever type it comes, and wherever it starts."""
    _, fault = found(body, size)
    assert fault is not None
    assert (fault.kind, fault.words.html) == (Kind.UNREADABLE, True)


@pytest.mark.parametrize(
    "body",
    [
        "Service unavailable", "7", "null", '"text"', "[7]", "[[1]]", '{"a": 1', '{"a": "',
        "{" * 100_000, "[" * 100_000,
        '{"a":' * 100_000, "]", "}", '{"a": 1}}', '{"a": 1},', "[{}] x", f"{json.dumps(A)}\nUpstream down\n",
        "data: {\n\n", "data: 7\n\n", 'data: {"a": "\ndata: "}\n\n', f"{STREAM[:-20]}Internal Server Error\n",
        f"data: {json.dumps(A)}\n\n[{json.dumps(A)}\n\n", "data: [DONE\n\n", "[{},\nx\n]",
    ],
    ids=lambda body: body[:30],
)  # fmt: skip
def test_what_is_no_object_is_unreadable(body: str) -> None:
    """Never skipped: what cannot be read may have been the half of an answer."""
    assert kind(body) is Kind.UNREADABLE


def test_a_torn_line_is_told_at_once() -> None:
    """A string that does not end in its line never will; nobody waits for the rest of the body."""
    heard, fault = found('{"a": 1}\n{"b": {"c": "Hel\n{"a": 1}\n')
    assert (heard, fault and fault.kind) == ([A], Kind.UNREADABLE)


@pytest.mark.parametrize("layout", ["{}\n", "data: {}\n\n", "data: {}\n", "[{}]", '[\n{{"a": 1}},\n{}\n]'])
@pytest.mark.parametrize(
    "told",
    [
        {"error": "no"}, {"error": {"message": "no"}}, {"error": True, "message": "no"}, {"choices": [], "error": "no"},
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
        {"type": "error", "message": "no"},
        {"detail": "no"}, {"detail": [{"msg": "no"}]}, {"message": "no"}, {"code": 1001, "msg": "no"},
        {"error": None, "message": "no"}, {"success": False, "errors": [{"message": "no"}]},
        {"choices": None, "message": "no"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_an_error_is_told_in_any_shape(layout: str, told: object) -> None:
    """Each server and gateway has its own, and sends it with status 200 once it streams."""
    _, fault = found(layout.replace("{}", json.dumps(told)) if "{{" not in layout else layout.format(json.dumps(told)))
    assert fault is not None
    assert (fault.kind, fault.words.text) == (Kind.IN_STREAM, "no")


@pytest.mark.parametrize("none", [None, {}, [], "", False, 0])
def test_an_error_that_is_none_is_none(none: object) -> None:
    """Some hosts send the field in every chunk."""
    heard, fault = found(json.dumps({"error": none, "choices": [], "message": {"content": "x"}}))
    assert (len(heard), fault) == (1, None)


@pytest.mark.parametrize(
    "body",
    [
        'event: error\ndata: {"message": "no"}\n\n', "event: error\ndata: no\n\n", "event:error\r\ndata:no",
        'data: {"message": "no", "choices": [1]}\nevent: error\n\n', "event: error\ndata: no\nevent: x\n\n",
        "event: error\ndata: no\ndata: [DONE]\n\n", "event: error\n\n", "data: {}\n\nerror: no\n",
        'data: {}\n\n{"error": "no"}\n', "event: x\n\nevent: error\ndata: no\n\n",
    ],
)  # fmt: skip
def test_an_event_named_error_is_one(body: str) -> None:
    """Whatever it holds, and in whichever order its fields come; so is an error that stands in a stream as it is."""
    _, fault = found(body)
    assert fault is not None
    assert fault.kind is Kind.IN_STREAM
    assert fault.words.text == ("" if "no" not in body else "no")


def test_an_event_of_another_name_is_not_mistaken_for_the_last_error() -> None:
    """A name counts for one event."""
    heard, fault = found(f"event: error\nevent: x\ndata: {json.dumps(A)}\n\ndata: {json.dumps(B)}\n\n")
    assert (heard, fault) == ([A, B], None)


@pytest.mark.parametrize(
    "body",
    [
        "data: {\n" * 100_000, "data: x\n" * 100_000, "{\n" * 200_000, '"\\' * 400_000, "[" + "]" * 400_000,
        '{\n"a": "' + '\\"' * 400_000, "[\n" + "{\n" * 200_000, "data: " + "[" * 800_000,
    ],
    ids=lambda body: body[:12],
)  # fmt: skip
def test_no_part_of_a_body_is_read_again_and_again(body: str) -> None:
    """Eight megabytes of `data:` lines without a blank one were parsed anew at each line, and took days."""
    assert kind(body) is Kind.UNREADABLE


@pytest.mark.parametrize("body", [b"[" + b"{}," * 20_000 + b"{}]", b"{}" * 20_000 + b"{", b"data: " + b"{}" * 20_000])
def test_other_work_has_its_turn_in_a_body_of_nothing(body: bytes) -> None:
    """A million empty objects in one part kept every clock from striking until all were read; at its end, for 26 s."""

    async def turns() -> int:
        seen = 0

        async def beside() -> None:
            nonlocal seen
            while True:
                await asyncio.sleep(0)
                seen += 1

        other = asyncio.ensure_future(beside())
        with suppress(Fault):
            async for _ in frames(httpx.Response(200, stream=_Torn(body, 1 << 20))):
                pass
        other.cancel()
        return seen

    assert asyncio.run(turns()) > 50
