"""Anthropic's messages, and every endpoint that speaks like it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, counted
from worker.failover.request import Image
from worker.providers.adapter import Adapter, Reading, wishes
from worker.providers.anthropic_models import model_of, reasoning_of
from worker.providers.closed_schema import closed_schema
from worker.providers.frames import Frame
from worker.providers.replies import said
from worker.providers.schema_prompt import told_in_prompt

VERSION = "2023-06-01"
"""The `anthropic-version` of a stage that names none: the last one that takes a temperature."""

_NO_SAMPLING = "2026-10-21"
"""From this version on any temperature is refused, also the default one (Anthropic's page on versioning)."""

_PLACEHOLDER = "Continue."
_VERSIONED = re.compile(r"(?<!/)/v\d+[a-z0-9]*$")


class _Reading(Reading):
    """A stream ends with `message_stop`; a reply in one piece ends with itself."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, Any] = {}

    def take(self, frame: Frame) -> Iterable[Chunk]:
        """Events of unknown types are no mistake: Anthropic adds new ones."""
        kind = frame.get("type")
        if kind == "message" or (kind is None and "content" in frame):
            yield from self._whole(frame)
        elif not isinstance(kind, str):
            raise Fault(Kind.UNREADABLE)
        elif kind == "error":
            raise said(frame)
        elif kind == "message_start":
            yield from self._count(_object(frame, "message").get("usage"))
        elif kind == "content_block_start":
            yield from self._block(_object(frame, "content_block"))
        elif kind == "content_block_delta":
            yield from self._block(_object(frame, "delta"))
        elif kind == "message_delta":
            self.finish = _object(frame, "delta").get("stop_reason") or self.finish
            yield from self._count(frame.get("usage"))
        elif kind == "message_stop":
            yield from self._end()

    def _whole(self, message: Mapping[str, Any]) -> Iterator[Chunk]:
        content = message.get("content") or []
        if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
            raise Fault(Kind.UNREADABLE)
        for block in self.few(content):
            yield from self._block(block)
        self.finish = message.get("stop_reason")
        yield from self._count(message.get("usage"))
        yield from self._end()

    def _block(self, block: Mapping[str, Any]) -> Iterator[Chunk]:
        """A block or a piece of one, which go by the same names; signatures and tools are no text."""
        text = block.get("text")
        if block.get("type") in {"text", "text_delta"}:
            if isinstance(text, str) and text:
                yield from self.spoken.take(text)
        elif isinstance(thought := block.get("thinking"), str) and thought.strip():
            yield Piece(thought=True)

    def _count(self, usage: object) -> Iterator[Usage]:
        """Counts are cumulative, and come in parts: the input's first, the output's with the end."""
        if isinstance(usage, Mapping):
            self._counts |= {name: count for name, count in usage.items() if count is not None}
        return self.count(_usage(self._counts))

    def _end(self) -> Iterator[Chunk]:
        """No end without a reason for it: a gateway writes one so where the answer broke behind it."""
        yield from self.spoken.end()
        if self.finish:
            yield End(str(self.finish), self.usage)


class Anthropic(Adapter):
    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]] = {
        "temperature": ("temperature",),
        "stop_sequences": ("stop_sequences",),
        "thinking": ("thinking", "thinking.type", "budget_tokens"),
        "output_config.effort": ("output_config.effort", "effort"),
    }

    BY_VALUE: ClassVar[frozenset[str]] = frozenset({"thinking", "output_config.effort"})

    FIXED: ClassVar[frozenset[str]] = frozenset({"model", "messages", "system", "max_tokens", "stream"})

    SCHEMA: ClassVar[frozenset[str]] = frozenset({"output_config.format"})

    READING: ClassVar[type[Reading]] = _Reading

    def url(self, call: Call) -> str:
        base = call.stage.base_url.rstrip("/")
        return f"{base}/messages" if _VERSIONED.search(base) else f"{base}/v1/messages"

    def headers(self, stage: Stage) -> Mapping[str, str]:
        key = {"x-api-key": stage.api_key.get_secret_value()} if stage.api_key else {}
        return {"anthropic-version": stage.api_version or VERSION, **key}

    def body(self, call: Call) -> dict[str, Any]:
        """A request's own params for this stage go on top of the stage's, but for a schema that is asked for."""
        request, stage = call.request, call.stage
        messages, schema = _schema(call)
        wanted = request.reasoning if stage.takes.reasoning else None
        reasoning = reasoning_of(stage.model, wanted, call.max_output_tokens)
        stages, requests = self.params(call)
        params = {**stages, **requests}
        body = {**reasoning, **params}
        if config := _output_config(reasoning, schema, params):
            body["output_config"] = config
        prefill = model_of(stage.model).prefill and not _is_thinking(body)
        return {
            **_sampling(call, body),
            **body,
            "model": stage.model,
            "messages": _turns(messages, request.images, prefill=prefill),
            "max_tokens": call.max_output_tokens,
            "stream": stage.stream,
            **_system(messages),
        }


def _schema(call: Call) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """The messages, and what of `output_config` tells the schema: that where the model can, else words."""
    schema, stage = call.request.response_schema, call.stage
    if schema is None:
        return call.request.messages, {}
    closed = closed_schema(schema) if stage.takes.response_schema and model_of(stage.model).schemas else None
    if closed is None:
        return told_in_prompt(call.request.messages, schema), {}
    return call.request.messages, {"format": {"type": "json_schema", "schema": closed}}


def _output_config(*parts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever a caller put there, where it is no object
    """Effort, what params say on top of it, and the schema that the request asks for."""
    reasoning, schema, params = parts
    own = params.get("output_config", {})
    return {**reasoning.get("output_config", {}), **own, **schema} if isinstance(own, Mapping) else own


def _sampling(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Temperature (0 to 1) and stops, as far as the stage takes them; a stop of blanks alone would be refused."""
    wanted, fields = wishes(call), dict[str, Any]()
    if stops := [stop for stop in wanted.get("stop", ()) if stop.strip()]:
        fields["stop_sequences"] = stops
    takes = model_of(call.stage.model).temperature and (call.stage.api_version or VERSION) < _NO_SAMPLING
    if "temperature" in wanted and takes and not _is_thinking(body):
        fields["temperature"] = min(max(wanted["temperature"], 0.0), 1.0)
    return fields


def _is_thinking(body: Mapping[str, Any]) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") in {"enabled", "adaptive"}


def _system(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the system says, wherever it stands: its role is not known in the messages."""
    system = "\n\n".join(message["content"] for message in messages if message.get("role") == "system")
    return {"system": system} if system.strip() else {}


def _turns(messages: Sequence[Mapping[str, Any]], images: Sequence[Image], *, prefill: bool) -> list[dict[str, Any]]:
    """Turns that take turns, the user's first and, but for a `prefill`, last; every other order is refused."""
    turns = _merged(message for message in messages if message.get("role") != "system")
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": _PLACEHOLDER})
    if images:
        last = next(turn for turn in reversed(turns) if turn["role"] == "user")
        last["content"] = [*map(_block, images), {"type": "text", "text": last["content"]}]
    if turns[-1]["role"] == "assistant":
        turns[-1]["content"] = turns[-1]["content"].rstrip()
        turns += [] if prefill else [{"role": "user", "content": _PLACEHOLDER}]
    return turns


def _merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One turn for all that one side says at a time; without those of blanks alone, which would be refused."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role, text = message.get("role"), message.get("content") or ""
        if not text.strip():
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n\n{text}"
        else:
            turns.append({"role": role, "content": text})
    return turns


def _block(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}


def _object(frame: Frame, name: str) -> Mapping[str, Any]:
    found = frame.get(name) or {}
    if not isinstance(found, Mapping):
        raise Fault(Kind.UNREADABLE)
    return found


def _usage(counts: Mapping[str, Any]) -> Usage | None:
    """What came out of a cache or went into it is input as well; it is counted apart."""
    if counts.get("input_tokens") is None:
        return None
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    each = [counted(counts.get(name, 0), 0) for name in parts]
    known = [usage.input_tokens for usage in each if usage is not None]
    return counted(sum(known), counts.get("output_tokens")) if len(known) == len(parts) else None
