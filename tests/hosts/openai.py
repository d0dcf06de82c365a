"""OpenAI's chat completions.

Shapes after OpenAI's API reference (Chat Completions: the chunk object, stream_options.include_usage, error codes);
`reasoning_content` is DeepSeek's field, which other compatible hosts have taken over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.hosts.dialect import Dialect, Ending, Failure, Said, to_json
from tests.hosts.log import Stage

_CREATED = 1_700_000_000
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_FIRST_SERVER_ERROR = 500


class OpenAI(Dialect):
    name: ClassVar[str] = "openai"
    suffix: ClassVar[str] = "/v1"
    stream_type = "text/event-stream; charset=utf-8"

    @classmethod
    def asks(cls, method: str, path: str) -> bool:
        return method == "POST" and path.partition("?")[0].endswith("/chat/completions")

    @classmethod
    def look(cls, path: str, stage: Stage) -> str | None:
        if not path.endswith("/models") or path.startswith("/api/"):
            return None
        listed = [{"id": name, "object": "model", "created": _CREATED, "owned_by": "scripted"} for name in stage.models]
        return to_json({"object": "list", "data": listed})

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream", False))

    @property
    def _counts(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))

    def frame(self, value: Mapping[str, Any]) -> bytes:
        return f"data: {to_json(value)}\n\n".encode()

    def opening(self) -> bytes:
        return self.hollow()

    def thought(self, text: str) -> bytes:
        return self._delta({"reasoning_content": text})

    def piece(self, text: str) -> bytes:
        return self._delta({"content": text})

    def hollow(self) -> bytes:
        return self._delta({"role": "assistant", "content": ""})

    def ending(self, said: Said) -> Ending:
        closing = self._delta({}, self.finish(said))
        if self._counts:
            closing += self.frame({**self._frame_of([]), "usage": _usage(said)})
        return Ending(closing, b"data: [DONE]\n\n")

    def blank(self) -> bytes:
        return b": keep-alive\n\n"

    def garbled(self) -> bytes:
        return b'data: {"choices": [{"delta": {"content": "Hel\n\n'

    def whole(self, said: Said) -> Mapping[str, Any]:
        message = {"role": "assistant", "content": said.text}
        if said.thinking:
            message["reasoning_content"] = said.thinking
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish(said)}
        return {**self._frame_of([choice], "chat.completion"), "usage": _usage(said)}

    def unanswered(self, said: Said, gap: Any) -> list[Mapping[str, Any]]:
        kind = "chat.completion.chunk" if self.streams else "chat.completion"
        return [{**self._frame_of(gap, kind), "usage": _usage(said)}]

    def error(self, failure: Failure) -> Mapping[str, Any]:
        """A `code` of digits is a number, as OpenRouter's is."""
        server = failure.status >= _FIRST_SERVER_ERROR
        kind = "server_error" if server else _TYPES.get(failure.status, "invalid_request_error")
        code: str | int | None = failure.code or _CODES.get(failure.status)
        error = {
            "message": f"The scripted host says {failure.status}." if failure.message is None else failure.message,
            "type": failure.type or kind,
            "param": failure.param,
            "code": int(code) if code is not None and str(code).isdigit() else code,
        }
        return {"error": error}

    def _delta(self, delta: Mapping[str, str], finish: str | None = None) -> bytes:
        frame = self._frame_of([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])
        return self.frame({**frame, "usage": None} if self._counts else frame)

    def _frame_of(self, choices: list[Any] | None, kind: str = "chat.completion.chunk") -> dict[str, Any]:
        return {
            "id": "chatcmpl-scripted",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "choices": choices,
        }


def _usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": len(said.thinking.split())},
    }
