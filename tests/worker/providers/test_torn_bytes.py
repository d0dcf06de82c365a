"""No bytes, however torn, make an adapter raise anything but a `Fault`, nor leave anything that cannot be kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.providers.asking import stage_at
from tests.worker.providers.raw import frame, saying
from worker.failover.attempt import Usage
from worker.failover.clocks import read
from worker.failover.provider import Call, End, Fault
from worker.failover.request import Request
from worker.providers.adapter import Adapter
from worker.providers.anthropic import Anthropic
from worker.providers.gemini import Gemini
from worker.providers.ollama import Ollama
from worker.providers.openai import OpenAI

ADAPTERS: Mapping[str, type[Adapter]] = {"openai": OpenAI, "anthropic": Anthropic, "gemini": Gemini, "ollama": Ollama}

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}
COUNTS = {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}
PIECES = [{"text": "Hm.", "thought": True}, {"text": "Why not."}]
TOLD: Mapping[str, Sequence[Any]] = {
    "openai": [
        {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "length"}]},
        {"choices": [], "usage": USAGE},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "usage": {}},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": PIECES}, "index": 0, "finishReason": "STOP"}], "usageMetadata": COUNTS},
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": COUNTS},
    ],
    "ollama": [
        {"message": {"content": "<think>Hm.", "thinking": "Hm."}, "done": False},
        {"message": {"content": "a"}, "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2},
    ],
}
ERRORS: Sequence[Any] = [
    {"error": {"message": "no", "code": 429, "type": "t", "details": [{"retryDelay": "3s"}]}},
    {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    {"error": "no"},
    {"detail": [{"loc": ["body", "x"], "msg": "no"}]},
]

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, "", "stop", "<think>", "\ud800", "\x00"])
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One reply: its status, its type, and its body in parts."""

    status: int
    kind: str
    parts: Sequence[bytes]


class Torn(httpx.AsyncBaseTransport):
    def __init__(self, case: Case) -> None:
        self._case = case

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:  # noqa: ARG002 - any is answered so
        headers = {"content-type": self._case.kind, "retry-after": self._case.kind}
        return httpx.Response(self._case.status, headers=headers, stream=_Body(self._case.parts))


class _Body(httpx.AsyncByteStream):
    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


@st.composite
def replaced(draw: st.DrawFn, value: Any) -> Any:
    """The same value, with any other one at a place within it."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(replaced(value[name]))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(replaced(value[place])), *value[place + 1 :]]
    return draw(ANY)


@st.composite
def whole(draw: st.DrawFn, protocol: str) -> bytes:
    """A body of objects of the protocol, some with another value somewhere, in any layout."""
    objects = draw(st.lists(st.sampled_from([*TOLD[protocol], *ERRORS]), max_size=4))
    objects = [draw(replaced(value)) if draw(st.booleans()) else value for value in objects]
    layout = draw(st.sampled_from(["stream", "answer", "list", "pretty"]))
    if layout == "list":
        body = json.dumps(objects, indent=draw(st.sampled_from([None, 1])))
    elif layout == "pretty":
        body = "\n".join(json.dumps(value, indent=1) for value in objects)
    else:
        answer = saying(protocol, "Weil’s so ist. 😀") if layout == "answer" else ""
        body = "".join(frame(protocol, value) for value in objects) + answer
    if draw(st.booleans()):
        body = body.replace("\n", draw(st.sampled_from(["\r\n", "\r", "\n\n", "\nevent: error\n"])))
    return body.encode(errors="surrogatepass")


@st.composite
def torn(draw: st.DrawFn, protocol: str) -> bytes:
    """Such a body, with parts of it lost, doubled, swapped or flipped."""
    body = bytearray(draw(whole(protocol)))
    for damage in draw(st.lists(st.sampled_from(["lose", "double", "swap", "flip", "put"]), max_size=3)):
        first, last = sorted(draw(st.tuples(st.integers(0, len(body)), st.integers(0, len(body)))))
        part = body[first:last]
        if damage == "lose":
            del body[first:last]
        elif damage == "double":
            body[first:first] = part
        elif damage == "swap":
            body = body[last:] + part + body[:first]
        elif damage == "flip" and part:
            body[first] ^= 1 << draw(st.integers(0, 7))
        elif damage == "put":
            body[first:first] = draw(st.binary(max_size=8))
    return bytes(body)


@st.composite
def cases(draw: st.DrawFn, protocol: str) -> Case:
    body = draw(torn(protocol))
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=5)))
    parts = [body[first:last] for first, last in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    kind = draw(st.sampled_from(["text/event-stream", "application/json", "text/html", "1.5", "Tue, 99 Nov"]))
    return Case(draw(st.sampled_from([200, 200, 200, 200, 400, 429, 503])), kind, parts)


async def raised(adapter: Adapter, call: Call) -> Exception | None:
    try:
        chunks = [chunk async for chunk in adapter.stream(call)]
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    assert sum(isinstance(chunk, End) for chunk in chunks) <= 1
    return None


async def heard(protocol: str, case: Case) -> tuple[str, End | None, Usage | None, Fault | None]:
    """What is read of it, once with nothing around the adapter and once as an attempt."""
    adapter, stage = ADAPTERS[protocol](), stage_at("http://127.0.0.1:9", protocol)
    call = Call(stage, Request([{"role": "user", "content": "Why?"}]), 100)
    adapter._clients[stage.name] = httpx.AsyncClient(transport=Torn(case))
    error = await raised(adapter, call)
    assert error is None or isinstance(error, Fault)
    reply = await read(adapter, call, 30)
    await adapter.close()
    return reply.text, reply.end, reply.usage, reply.fault


@pytest.mark.parametrize("protocol", ADAPTERS)
def test_torn_bytes_are_a_reply_or_a_fault(protocol: str) -> None:
    """An exception that left an adapter was a job that ran for ever."""

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(cases(protocol))
    def check(case: Case) -> None:
        text, end, usage, fault = asyncio.run(heard(protocol, case))
        text.encode()
        assert fault is None or fault.retry_after_s is None or fault.retry_after_s >= 0
        at_once = Case(case.status, case.kind, [b"".join(case.parts)])
        *same, other = asyncio.run(heard(protocol, at_once))
        assert same == [text, end, usage], "what is read does not depend on where the bytes are torn"
        assert (other and (other.kind, other.words)) == (fault and (fault.kind, fault.words))

    check()
