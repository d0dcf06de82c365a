"""Gemini's native `generateContent`.

Native, because its OpenAI-compatible twin can switch thinking off for one family of models only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import quote

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, counted
from worker.failover.request import Image
from worker.providers.adapter import Adapter, Reading, wishes, without
from worker.providers.frames import Frame
from worker.providers.schema_prompt import told_in_prompt
from worker.providers.schema_tree import is_recursive, schemas

_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_DEFAULT_VERSION = "v1beta"

_MOST_STOPS = 5

_REFUSED = frozenset({"not", "if", "allOf", "patternProperties"})
"""Keywords that are refused (ai.google.dev, "Structured outputs"), as is a schema that leads back to itself, but for
a property that may be left out."""

_EFFORT = frozenset({"thinkingBudget", "thinkingLevel"})

_MODEL = re.compile(r"gemini-(?P<major>\d+)(?:\.(?P<minor>\d+))?-(?P<kind>[a-z]+)")
_NEWEST = re.compile(r"gemini-[a-z-]*latest")
_BUDGETS: Mapping[str, int] = MappingProxyType({"low": 2048, "medium": 8192, "high": 24_576})
_LEAST_BUDGETS: Mapping[str, int] = MappingProxyType({"flash": 0, "pro": 128})
"""Tokens of thinking, for 2.5; its Pro cannot go without (ai.google.dev, "Thinking")."""
_BUDGETED = (2, 5)
_NO_MINIMAL = (3, 7)
"""From here on, and at every Pro, `low` is the least level (ai.google.dev, "Thinking")."""


class _Reading(Reading):
    def __init__(self) -> None:
        super().__init__()
        self._blocked = False

    def take(self, frame: Frame) -> Iterable[Chunk]:
        """Some models say why they finished in every chunk, and the counts may follow alone: the last word counts."""
        self._blocked = self._blocked or bool((frame.get("promptFeedback") or {}).get("blockReason"))
        for place, candidate in enumerate(self.few(frame.get("candidates") or ())):
            index = candidate.get("index")
            if (place if index is None else index) not in (0, "0"):
                continue  # another answer to the same question, which nobody asked for
            for part in self.few((candidate.get("content") or {}).get("parts") or ()):
                yield from self._hear(part)
            if candidate.get("finishReason") not in (None, "", "FINISH_REASON_UNSPECIFIED"):
                self.finish = str(candidate["finishReason"])
        if isinstance(usage := frame.get("usageMetadata"), Mapping):
            yield from self.count(_usage(usage, spoke=not self._blocked))

    def _hear(self, part: Mapping[str, Any]) -> Iterable[Chunk]:
        """A part without text is a call of a tool, or a signature of what was thought."""
        text = part.get("text") or ""
        if not isinstance(text, str):
            raise Fault(Kind.UNREADABLE)
        if not part.get("thought"):
            yield from self.spoken.take(text)
        elif text.strip():
            yield Piece(thought=True)

    def done(self) -> Iterable[Chunk]:
        """With the finish reason, which is the end mark here."""
        yield from super().done()
        finish = "blocked" if self._blocked else self.finish
        if finish is not None:
            yield End(finish, self.usage)


class Gemini(Adapter):
    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]] = {
        "generationConfig.thinkingConfig": (
            *("thinkingConfig", "thinkingLevel", "thinkingBudget", "thinking level", "thinking budget"),
            *("thinking", "budget"),
        ),
        "generationConfig.temperature": ("temperature",),
        "generationConfig.stopSequences": ("stopSequences", "stop sequences", "stop sequence"),
        "generationConfig.seed": ("seed",),
    }

    BY_VALUE: ClassVar[frozenset[str]] = frozenset({"generationConfig.thinkingConfig"})

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"model", "stream", "contents", "systemInstruction"}
        | {"generationConfig.maxOutputTokens", "generationConfig.candidateCount"}
    )

    SCHEMA: ClassVar[frozenset[str]] = frozenset(
        f"generationConfig.{name}"
        for name in ("responseMimeType", "responseSchema", "responseJsonSchema", "_responseJsonSchema")
    )

    READING: ClassVar[type[Reading]] = _Reading

    def url(self, call: Call) -> str:
        """The key is never part of it: addresses are what everybody logs."""
        stage = call.stage
        base = stage.base_url.rstrip("/")
        if not _VERSION.search(base):
            base = f"{base}/{stage.api_version or _DEFAULT_VERSION}"
        method = "streamGenerateContent?alt=sse" if stage.stream else "generateContent"
        return f"{base}/models/{quote(_bare(stage.model), safe='')}:{method}"

    def headers(self, stage: Stage) -> Mapping[str, str]:
        return {"x-goog-api-key": stage.api_key.get_secret_value()} if stage.api_key else {}

    def body(self, call: Call) -> dict[str, Any]:
        """A request's own params on top of the stage's, those of `generationConfig` one by one.

        None of either reaches a schema that is asked for.
        """
        request, stage = call.request, call.stage
        messages: Sequence[Mapping[str, Any]] = request.messages
        schema, params = request.response_schema, self.params(call)
        if schema is not None and not (stage.takes.response_schema and _takes(schema)):
            messages, schema = told_in_prompt(messages, schema), None
        if schema is not None:
            params = without(params[0], self.SCHEMA), without(params[1], self.SCHEMA)
        system = [{"text": message["content"]} for message in messages if message["role"] == "system"]
        body = {**params[0], **params[1], "contents": _contents(messages, request.images)}
        body["generationConfig"] = _config(call, params, schema)
        return body | ({"systemInstruction": {"parts": system}} if system else {})

    def spelled(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return _spelled(params)


def _bare(model: str) -> str:
    return model.removeprefix("models/")


def _contents(messages: Sequence[Mapping[str, Any]], images: Sequence[Image]) -> list[dict[str, Any]]:
    """The conversation, one entry a turn; the images stand in the user's last."""
    contents: list[dict[str, Any]] = []
    for message in messages:
        role = {"system": None, "assistant": "model"}.get(message["role"], "user")
        if role is None or not message["content"]:  # an empty part is refused
            continue
        if not contents or contents[-1]["role"] != role:
            contents.append({"role": role, "parts": []})
        contents[-1]["parts"].append({"text": message["content"]})
    last = next((content for content in reversed(contents) if content["role"] == "user"), None)
    if last is not None:
        last["parts"] += [{"inlineData": {"mimeType": image.media_type, "data": image.base64}} for image in images]
    return contents


def _takes(schema: Mapping[str, Any]) -> bool:
    """Whether Google is not known to refuse it; what it only ignores is checked here anyway."""
    parts = [part for part, _ in schemas(schema) if isinstance(part, Mapping)]
    return all(_REFUSED.isdisjoint(part) for part in parts) and not is_recursive(schema)


def _config(call: Call, params: Iterable[Mapping[str, Any]], schema: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
    """What a caller puts in its place, where that is no object: the host says what is wrong with it."""
    wanted, reasoning = wishes(call), call.request.reasoning if call.stage.takes.reasoning else None
    stops, thinking = wanted.pop("stop", [])[:_MOST_STOPS], _thinking(_bare(call.stage.model), reasoning)
    config: dict[str, Any] = wanted | ({"stopSequences": stops} if stops else {})
    config |= {"thinkingConfig": thinking} if thinking else {}
    for given in params:
        own = given.get("generationConfig") or {}
        if not isinstance(own, Mapping):
            return own
        config = _merged(config, own)
    if schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    return {**config, "maxOutputTokens": call.max_output_tokens}


def _merged(config: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """With a level and a budget of thinking together the host refuses the call: one that is given replaces both."""
    merged = {**config, **own}
    ours, theirs = config.get("thinkingConfig"), own.get("thinkingConfig")
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        kept = {name: value for name, value in ours.items() if name not in _EFFORT or _EFFORT.isdisjoint(theirs)}
        merged["thinkingConfig"] = {**kept, **theirs}
    return merged


def _spelled(params: Mapping[str, Any]) -> dict[str, Any]:
    """These params with the names that the documentation uses, as deep as any of ours stand."""
    named = {_camel(name): value for name, value in params.items()}
    for name in ("generationConfig", "thinkingConfig"):
        if isinstance(inner := named.get(name), Mapping):
            named[name] = _spelled(inner)
    return named


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])_+([a-z0-9])", lambda found: found[1].upper(), name)


def _thinking(model: str, reasoning: str | None) -> dict[str, Any] | None:
    """How much a model is to think; None leaves it to the model, as does one that has no such field.

    Budgets are for 2.5, levels for all that came later.
    """
    found = _MODEL.match(model)
    if reasoning is None or not (found or _NEWEST.match(model)):
        return None
    version = (int(found["major"]), int(found["minor"] or 0)) if found else _NO_MINIMAL
    kind = found["kind"] if found else ""
    if version < _BUDGETED:
        return None
    if version == _BUDGETED:
        budget = _LEAST_BUDGETS.get(kind, 0) if reasoning == "none" else _BUDGETS[reasoning]
        return {"thinkingBudget": budget}
    if reasoning == "none":
        return {"thinkingLevel": "low" if kind == "pro" or version >= _NO_MINIMAL else "minimal"}
    return {"thinkingLevel": reasoning}


def _usage(usage: Mapping[str, Any], *, spoke: bool) -> Usage | None:
    """Thinking is counted apart from the answer, both are paid for as output; a blocked prompt had none."""
    answer, thought = usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")
    none = answer is None and (thought is not None or not spoke)
    spoken = counted(0 if none else answer, 0 if thought is None else thought)
    if spoken is None:
        return None
    return counted(usage.get("promptTokenCount"), spoken.input_tokens + spoken.output_tokens, spoken.output_tokens)
