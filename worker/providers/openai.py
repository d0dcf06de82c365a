"""OpenAI's chat completions: OpenAI itself, and every endpoint that speaks like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, counted
from worker.failover.request import Image
from worker.providers.adapter import Adapter, Reading, wishes, without
from worker.providers.frames import Frame
from worker.providers.openai_hosts import Schemas, flavour_of, reasoning_of, refused_by
from worker.providers.replies import said
from worker.providers.response_format import json_schema
from worker.providers.schema_prompt import told_in_prompt

_LIMITS = ("max_tokens", "max_completion_tokens")
_FILTERED = "content_filter"
_BROKEN = frozenset({"aborted", "abort", "error", "cancelled"})
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
_MOST_THOUGHTS = 16


class _Reading(Reading):
    """An answer is whole with its finish reason and, in a stream, `[DONE]`: gateways end a stream that broke behind
    them as cleanly as one that did not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_one = False

    def take(self, frame: Frame) -> Iterable[Chunk]:
        yield from self._count(frame.get("usage"))
        choices = frame.get("choices") or []
        if not isinstance(choices, list):
            raise _unreadable()
        for place, choice in enumerate(self.few(choices)):
            if not isinstance(choice, Mapping):
                raise _unreadable()
            index = choice.get("index")
            if (place if index is None else index) in (0, "0"):  # any other one is an answer nobody asked for
                yield from self._choice(choice)

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Chunk]:
        if choice.get("error"):
            raise said(choice["error"])
        yield from self._count(choice.get("usage"))  # where Moonshot puts it
        self._in_one = self._in_one or (choice.get("delta") is None and "message" in choice)
        content = choice.get("delta") or choice.get("message") or {}
        if not isinstance(content, Mapping):
            raise _unreadable()
        yield from self._hear(content)
        if choice.get("finish_reason") and self.finish != _FILTERED:
            # OpenRouter says `stop` of what broke off behind it, and the truth beside it.
            broken = str(choice.get("native_finish_reason")).lower() in _BROKEN
            self.finish = "error" if broken else str(choice["finish_reason"])

    def _hear(self, message: Mapping[str, Any]) -> Iterator[Chunk]:
        """A message, or a piece of one."""
        if message.get("refusal"):
            self.finish = _FILTERED
        if any(_is_said(message.get(name)) for name in _THOUGHTS):
            yield Piece(thought=True)
        content = message.get("content")
        for part in self.few(content) if isinstance(content, list) else [content]:
            yield from self._part(part)

    def _part(self, part: object) -> Iterator[Chunk]:
        """A text, or an object with one; Mistral's thinking is such an object too."""
        if isinstance(part, Mapping):
            if part.get("type") not in {"text", "output_text"}:
                if _is_said(part):
                    yield Piece(thought=True)
                return
            part = part.get("text")
        if isinstance(part, str) and part:
            yield from self.spoken.take(part)

    def _count(self, usage: object) -> Iterator[Usage]:
        return self.count(_usage(usage)) if isinstance(usage, Mapping) and usage else iter(())

    def done(self) -> Iterable[Chunk]:
        yield from super().done()
        if self.finish is not None and (self.marked or self._in_one):
            yield End(self.finish, self.usage)


class OpenAI(Adapter):
    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]] = {
        "temperature": ("temperature",),
        "stop": ("stop",),
        "seed": ("seed",),
        "reasoning_effort": ("reasoning_effort", "reasoning.effort", "reasoning"),
        "thinking": ("thinking",),
        "reasoning": ("reasoning",),
        "stream_options": ("stream_options", "include_usage"),
        # Either spelling of the limit: a host that refuses one is asked with the other, never without.
        **{name: (name,) for name in _LIMITS},
    }

    BY_VALUE: ClassVar[frozenset[str]] = frozenset({"reasoning_effort", "thinking", "reasoning"})

    FIXED: ClassVar[frozenset[str]] = frozenset({"model", "messages", "stream", "n", *_LIMITS})

    SCHEMA: ClassVar[frozenset[str]] = frozenset({"response_format"})

    READING: ClassVar[type[Reading]] = _Reading

    def url(self, call: Call) -> str:
        stage = call.stage
        version = f"?api-version={stage.api_version}" if _is_versioned(stage) else ""
        return f"{stage.base_url.rstrip('/')}/chat/completions{version}"

    def headers(self, stage: Stage) -> Mapping[str, str]:
        if not stage.api_key:
            return {}
        key = stage.api_key.get_secret_value()
        return {"api-key": key} if _is_versioned(stage) else {"authorization": f"Bearer {key}"}

    def body(self, call: Call) -> dict[str, Any]:
        """A request's own params for this stage go on top of the stage's, also where the host is known to refuse them.

        None of either reaches a schema that is asked for.
        """
        request, stage = call.request, call.stage
        messages, schema = _schema(call, [dict(message) for message in request.messages])
        stages, requests = self.params(call)
        reasoning = reasoning_of(stage, request.reasoning) if stage.takes.reasoning else {}
        wanted = {**wishes(call), **reasoning, **stages}
        effort = without({**wanted, **requests}, call.dropped).get("reasoning_effort")
        body = {**without(wanted, refused_by(stage, effort)), **requests, **schema}
        if "response_format" in schema and flavour_of(stage).routes:
            body["provider"] = _minding(body.get("provider", {}))
        if stage.stream:
            body = {"stream_options": {"include_usage": True}, **body}
        else:
            body.pop("stream_options", None)
        return body | {
            "model": stage.model,
            "messages": _with_images(messages, request.images),
            "stream": stage.stream,
            _limit(call): call.max_output_tokens,
        }

    def payload(self, call: Call) -> dict[str, Any]:
        return without(self.body(call), call.dropped.difference(_LIMITS))

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        """Without the limit once both of its spellings have been refused: then it is not the spelling."""
        found = super().optional(call)
        refused = call.dropped.issuperset(_LIMITS)
        return {name: words for name, words in found.items() if not (refused and name in _LIMITS)}


def _is_versioned(stage: Stage) -> bool:
    return stage.api_version is not None and flavour_of(stage).key_header


def _limit(call: Call) -> str:
    """The spelling that the host knows, or the other one if it has refused that; its own again if it refused both."""
    own = flavour_of(call.stage).limit
    return next((name for name in (own, *_LIMITS) if name not in call.dropped), own)


def _minding(provider: object) -> object:
    """What a router is told of the hosts behind it, and that it is to pick one that takes all of the call."""
    return {"require_parameters": True, **provider} if isinstance(provider, Mapping) else provider


def _schema(call: Call, messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The messages and the field that tell the schema: the field where the host can, else words."""
    schema = call.request.response_schema
    if schema is None:
        return messages, {}
    kind = flavour_of(call.stage).schemas
    is_object = schema.get("type") == "object"
    if not call.stage.takes.response_schema or (kind is not Schemas.ANY and not is_object):
        return told_in_prompt(messages, schema), {}
    if kind is Schemas.NONE:
        return told_in_prompt(messages, schema), {"response_format": {"type": "json_object"}}
    return messages, {"response_format": json_schema(schema)}


def _with_images(messages: list[dict[str, Any]], images: Sequence[Image]) -> list[dict[str, Any]]:
    if not images:
        return messages
    shown = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.base64}"}}
        for image in images
    ]
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=None)
    if last is None:
        return [*messages, {"role": "user", "content": shown}]
    parts = [{"type": "text", "text": messages[last].get("content") or ""}, *shown]
    return [*messages[:last], {**messages[last], "content": parts}, *messages[last + 1 :]]


def _unreadable() -> Fault:
    return Fault(Kind.UNREADABLE)


def _is_said(thought: object) -> bool:
    """Whether there is any text in it; a list of `reasoning_details` is looked at as far as any host has gone."""
    if isinstance(thought, Mapping):
        thought = [thought.get(name) for name in ("text", "summary", "thinking", "content")]
    if isinstance(thought, list):
        return any(_is_said(part) for part in thought[:_MOST_THOUGHTS])
    return isinstance(thought, str) and bool(thought.strip())


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    details = usage.get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return counted(usage.get("prompt_tokens"), usage.get("completion_tokens"), thought)
