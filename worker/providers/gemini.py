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
from worker.providers.adapter import Adapter, Reading
from worker.providers.frames import Frame
from worker.providers.schema_prompt import told_in_prompt
from worker.providers.thinking import Spoken

_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_DEFAULT_VERSION = "v1beta"

_MOST_STOPS = 5

_NEVER = frozenset({"model", "stream", "contents", "systemInstruction"})
_NEVER_CONFIG = frozenset({"maxOutputTokens", "candidateCount"})
_SCHEMA = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema", "_responseJsonSchema"})
_EFFORT = frozenset({"thinkingBudget", "thinkingLevel"})

_MODEL = re.compile(r"gemini-(?P<major>\d+)(?:\.(?P<minor>\d+))?-(?P<kind>[a-z]+)")
_NEWEST = re.compile(r"gemini-[a-z-]*latest")
_BUDGETS: Mapping[str, int] = MappingProxyType({"low": 2048, "medium": 8192, "high": 24_576})
_LEAST_BUDGETS: Mapping[str, int] = MappingProxyType({"flash": 0, "pro": 128})
"""Tokens of thinking, for 2.5; its Pro cannot go without (ai.google.dev, "Thinking")."""
_BUDGETED = (2, 5)
_NO_MINIMAL = (3, 7)
"""From here on, and at every Pro, `low` is the least level (ai.google.dev, "Thinking")."""


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

    FIXED: ClassVar[frozenset[str]] = _NEVER | {f"generationConfig.{name}" for name in _NEVER_CONFIG | _SCHEMA}

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

        None of them reaches the messages, the output limit or the number of answers, in either of the two spellings
        that Google takes (`generation_config`).
        """
        request, stage = call.request, call.stage
        messages: Sequence[Mapping[str, Any]] = request.messages
        if request.response_schema is not None and not stage.takes.response_schema:
            messages = told_in_prompt(messages, request.response_schema)
        system = [{"text": message["content"]} for message in messages if message["role"] == "system"]
        params = self.params(call)
        body: dict[str, Any] = {name: value for given in params for name, value in given.items() if name not in _NEVER}
        body |= {"contents": _contents(messages, request.images), "generationConfig": _config(call, params)}
        return body | ({"systemInstruction": {"parts": system}} if system else {})

    def params(self, call: Call) -> Sequence[Mapping[str, Any]]:
        return [_spelled(given) for given in super().params(call)]

    def reading(self, call: Call) -> Reading:  # noqa: ARG002 - the protocol needs none
        return _Reading()


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


def _config(call: Call, params: Iterable[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - whatever a caller put there
    request, takes = call.request, call.stage.takes
    optional = {
        "temperature": request.temperature if takes.temperature else None,
        "stopSequences": list(request.stop[:_MOST_STOPS]) or None if takes.stop else None,
        "seed": request.seed if takes.seed else None,
        "thinkingConfig": _thinking(_bare(call.stage.model), request.reasoning) if takes.reasoning else None,
    }
    config: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    for given in params:
        own = given.get("generationConfig") or {}
        if not isinstance(own, Mapping):
            return own  # the host says what is wrong with it
        config = _merged(config, own)
    ours: dict[str, Any] = {"maxOutputTokens": call.max_output_tokens}
    never = _NEVER_CONFIG
    if request.response_schema is not None and takes.response_schema:
        never |= _SCHEMA
        ours |= {"responseMimeType": "application/json", "responseJsonSchema": request.response_schema}
    return {name: value for name, value in config.items() if name not in never} | ours


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


class _Reading(Reading):
    def __init__(self) -> None:
        self._finish: str | None = None
        self._blocked = False
        self._usage: Usage | None = None
        self._spoken = Spoken()

    def take(self, frame: Frame) -> Iterable[Chunk]:
        """Some models say why they finished in every chunk, and the counts may follow alone: the last word counts."""
        self._blocked = self._blocked or bool((frame.get("promptFeedback") or {}).get("blockReason"))
        for place, candidate in enumerate(frame.get("candidates") or ()):
            index = candidate.get("index")
            if (place if index is None else index) not in (0, "0"):
                continue  # another answer to the same question, which nobody asked for
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._hear(part)
            if candidate.get("finishReason") not in (None, "", "FINISH_REASON_UNSPECIFIED"):
                self._finish = str(candidate["finishReason"])
        if isinstance(usage := frame.get("usageMetadata"), Mapping):
            found, told = _usage(usage), self._usage
            self._usage = found
            if found is not None and found != told:
                yield found

    def _hear(self, part: Mapping[str, Any]) -> Iterable[Chunk]:
        """A part without text is a call of a tool, or a signature of what was thought."""
        text = part.get("text") or ""
        if not isinstance(text, str):
            raise Fault(Kind.UNREADABLE)
        if not part.get("thought"):
            yield from self._spoken.take(text)
        elif text.strip():
            yield Piece(thought=True)

    def done(self, *, marked: bool) -> Iterable[Chunk]:  # noqa: ARG002 - the finish reason is the mark
        yield from self._spoken.end()
        finish = "blocked" if self._blocked else self._finish
        if finish is not None:
            yield End(finish, self._usage)


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    """Thinking is counted apart from the answer; both are paid for as output."""
    counts = [usage.get(name) for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")]
    found = None if counts == [None] * 3 else counted(*counts)
    return found and counted(found.input_tokens, found.output_tokens + found.reasoning_tokens, found.reasoning_tokens)
