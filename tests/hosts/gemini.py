"""Gemini's generateContent.

Shapes after Google's API reference (GenerateContentResponse, google.rpc.Status and its details): model and manner
stand in the path, reasoning is a part with a flag, and the finish reason on the last chunk is all there is of an end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from tests.hosts.dialect import Dialect, Ending, Failure, Said, text_of, to_json
from tests.hosts.log import Stage

_ASKED = re.compile(r".*/models/(?P<model>.+):(?P<stream>streamG|g)enerateContent")
_TYPE_URL = "type.googleapis.com/google.rpc."
_DOMAIN = "googleapis.com"
_METRIC = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini(Dialect):
    name: ClassVar[str] = "gemini"
    suffix: ClassVar[str] = "/v1beta"
    finishes: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    )

    def __init__(self, path: str, body: Any) -> None:
        super().__init__(path, body)
        place, _, query = path.partition("?")
        asked = _ASKED.fullmatch(place)
        self._model = unquote(asked["model"]) if asked else ""
        self._streams = asked is not None and asked["stream"] != "g"
        self._events = parse_qs(query).get("alt") == ["sse"]
        self._framed = 0
        self.stream_type = "text/event-stream" if self._events else "application/json; charset=UTF-8"

    @classmethod
    def asks(cls, method: str, path: str) -> bool:
        return method == "POST" and _ASKED.fullmatch(path.partition("?")[0]) is not None

    @classmethod
    def look(cls, path: str, stage: Stage) -> str | None:
        if path.partition("?")[0] != f"{cls.suffix}/models":
            return None
        return to_json({"models": [{"name": f"models/{name}", "displayName": name} for name in stage.models]})

    @property
    def model(self) -> str:
        return self._model

    @property
    def streams(self) -> bool:
        return self._streams

    def messages(self) -> list[tuple[str, str]]:
        system, contents = self.body.get("systemInstruction"), self.body.get("contents")
        listed = contents if isinstance(contents, list) else []
        said = [(str(item.get("role")), text_of(item.get("parts"))) for item in listed if isinstance(item, dict)]
        return [*([("system", text_of(system.get("parts")))] if isinstance(system, dict) else []), *said]

    def frame(self, value: Mapping[str, Any]) -> bytes:
        """An event, or with no `alt=sse` an element of one long array."""
        if self._events:
            return f"data: {to_json(value)}\r\n\r\n".encode()
        self._framed += 1
        return f"{'[' if self._framed == 1 else ','}{to_json(value)}\r\n".encode()

    def opening(self) -> bytes:
        return b""

    def thought(self, text: str) -> bytes:
        return self.frame(self._chunk([{"text": text, "thought": True}]))

    def piece(self, text: str) -> bytes:
        return self.frame(self._chunk([{"text": text}]))

    def hollow(self) -> bytes:
        return self.frame({"candidates": [{"content": {"role": "model"}, "index": 0}], **self._names()})

    def ending(self, said: Said) -> Ending:
        last = {**self._chunk([{"text": ""}], self.finish(said)), "usageMetadata": _usage(said)}
        return Ending(b"", self.frame(last))

    def close(self) -> bytes:
        if self._events:
            return b""
        return b"]" if self._framed else b"[]"

    def blank(self) -> bytes:
        return b": keep-alive\n\n" if self._events else b"\n"

    def garbled(self) -> bytes:
        return b'data: {"candidates": [{"content": {"parts": [{"text": "Hel\r\n\r\n'

    def whole(self, said: Said) -> Mapping[str, Any]:
        thoughts = [{"text": said.thinking, "thought": True}] if said.thinking else []
        parts = [*thoughts, *([{"text": said.text}] if said.text else [])]
        return {**self._chunk(parts, self.finish(said)), "usageMetadata": _usage(said)}

    def unanswered(self, said: Said, gap: Any) -> list[Mapping[str, Any]]:
        """Empty candidates are left out, as Gemini does."""
        missing = {"candidates": None} if gap is None else {}
        return [{**missing, "usageMetadata": _usage(said), **self._names()}]

    def error(self, failure: Failure) -> Mapping[str, Any]:
        """`type` is the status, `code` the reason in the details unless it is a number, which is the error's own."""
        numbered = failure.code is not None and failure.code.isdigit()
        number = int(failure.code or 0) if numbered else failure.status
        error: dict[str, Any] = {
            "code": number,
            "message": f"The scripted host says {failure.status}." if failure.message is None else failure.message,
            "status": failure.type or _STATUSES.get(number, "UNKNOWN"),
        }
        if details := _details(failure, "" if numbered else failure.code):
            error["details"] = details
        return {"error": error}

    def _chunk(self, parts: list[Any], finish: str | None = None) -> dict[str, Any]:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        ended = {"finishReason": finish} if finish is not None else {}
        return {"candidates": [{**candidate, **ended}], **self._names()}

    def _names(self) -> dict[str, str]:
        return {"modelVersion": self.model, "responseId": "scripted"}


def _details(failure: Failure, reason: str | None) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    if reason:
        details.append({"@type": f"{_TYPE_URL}ErrorInfo", "reason": reason, "domain": _DOMAIN})
    if failure.param is not None:
        violation = {"field": failure.param, "description": failure.message or ""}
        details.append({"@type": f"{_TYPE_URL}BadRequest", "fieldViolations": [violation]})
    if failure.quota is not None:
        violation = {"quotaMetric": _METRIC, "quotaId": failure.quota}
        details.append({"@type": f"{_TYPE_URL}QuotaFailure", "violations": [violation]})
    if failure.retry_delay is not None:
        details.append({"@type": f"{_TYPE_URL}RetryInfo", "retryDelay": failure.retry_delay})
    return details


def _usage(said: Said) -> dict[str, int]:
    """The reasoning is counted apart."""
    thoughts = len(said.thinking.split())
    counted = {
        "promptTokenCount": said.input_tokens,
        "candidatesTokenCount": max(said.output_tokens - thoughts, 0),
        "totalTokenCount": said.input_tokens + said.output_tokens,
    }
    return {**counted, "thoughtsTokenCount": thoughts} if thoughts else counted
