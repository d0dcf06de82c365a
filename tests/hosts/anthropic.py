"""Anthropic's messages.

Shapes after Anthropic's API reference (Messages, Streaming Messages, Errors) and the types of its SDK: every event
names itself twice, content comes in blocks that open and close, the tokens that went in are told first and those
that came out last.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from tests.hosts.dialect import Dialect, Ending, Failure, Said, text_of, to_json
from tests.hosts.log import Stage

_ID = "msg_scripted"
_REQUEST = "req_scripted"
_SIGNATURE = "c2NyaXB0ZWQ="
_FIRST_SERVER_ERROR = 500
_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_MESSAGES = {404: "model: {model}", 529: "Overloaded"}


class Anthropic(Dialect):
    name: ClassVar[str] = "anthropic"
    suffix: ClassVar[str] = ""
    finishes: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    )
    stream_type = "text/event-stream; charset=utf-8"

    def __init__(self, path: str, body: Any) -> None:
        super().__init__(path, body)
        self._blocks = 0
        self._open = ""
        """The type of the block that is open, if one is."""

    @classmethod
    def asks(cls, method: str, path: str) -> bool:
        """Also without the /v1, which some base URLs bring and others do not."""
        return method == "POST" and path.partition("?")[0].endswith("/messages")

    @classmethod
    def look(cls, path: str, stage: Stage) -> str | None:  # noqa: ARG003
        """None: the list of models stands where OpenAI's does, and that one has all that matters in it."""
        return None

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream", False))

    def messages(self) -> list[tuple[str, str]]:
        system = text_of(self.body.get("system"))
        return [*([("system", system)] if system else []), *super().messages()]

    def frame(self, value: Mapping[str, Any]) -> bytes:
        return f"event: {value.get('type', 'unexpected')}\ndata: {to_json(value)}\n\n".encode()

    def opening(self) -> bytes:
        usage = {"input_tokens": self.input_tokens, "output_tokens": 1}
        message = {**self._message([]), "stop_reason": None, "stop_sequence": None, "usage": usage}
        return self.frame({"type": "message_start", "message": message}) + self.blank()

    def thought(self, text: str) -> bytes:
        opened = self._turn_to("thinking", {"thinking": "", "signature": ""})
        return opened + self._delta({"type": "thinking_delta", "thinking": text})

    def piece(self, text: str) -> bytes:
        return self._turn_to("text", {"text": ""}) + self._delta({"type": "text_delta", "text": text})

    def hollow(self) -> bytes:
        return self.piece("")

    def ending(self, said: Said) -> Ending:
        delta = {"stop_reason": self.finish(said), "stop_sequence": None}
        usage = {"output_tokens": said.output_tokens}
        closing = self._turn_to("") + self.frame({"type": "message_delta", "delta": delta, "usage": usage})
        return Ending(closing, self.frame({"type": "message_stop"}))

    def blank(self) -> bytes:
        return self.frame({"type": "ping"})

    def garbled(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"text": "Hel\n\n'

    def whole(self, said: Said) -> Mapping[str, Any]:
        thinking = {"type": "thinking", "thinking": said.thinking, "signature": _SIGNATURE}
        texts = [{"type": "text", "text": said.text}] if said.text else []
        return {**self._message([*([thinking] if said.thinking else []), *texts]), **self._end(said)}

    def unanswered(self, said: Said, gap: Any) -> list[Mapping[str, Any]]:
        if not self.streams:
            return [{**self._message(gap), **self._end(said)}]
        start = {"type": "message_start", "message": None if gap is None else {**self._message(gap), **self._end(said)}}
        return [start, {"type": "message_delta", "delta": None if gap is None else {}, "usage": gap}]

    def error(self, failure: Failure) -> Mapping[str, Any]:
        """`code` is the `error_code` of the details; there is no place for `param`."""
        kind = "api_error" if failure.status >= _FIRST_SERVER_ERROR else "invalid_request_error"
        default = _MESSAGES.get(failure.status, f"The scripted host says {failure.status}.").format(model=self.model)
        error: dict[str, Any] = {
            "type": failure.type or _TYPES.get(failure.status, kind),
            "message": default if failure.message is None else failure.message,
        }
        if failure.code is not None:
            error["details"] = {"error_code": failure.code}
        return {"type": "error", "error": error, "request_id": _REQUEST}

    def _turn_to(self, kind: str, content: Mapping[str, str] | None = None) -> bytes:
        """Close the open block and open one of this type, if that is another; "" closes only."""
        if kind == self._open:
            return b""
        turned = b""
        if self._open == "thinking":
            turned += self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        if self._open:
            turned += self.frame({"type": "content_block_stop", "index": self._blocks - 1})
        if kind:
            block = {"type": kind, **(content or {})}
            turned += self.frame({"type": "content_block_start", "index": self._blocks, "content_block": block})
            self._blocks += 1
        self._open = kind
        return turned

    def _delta(self, delta: Mapping[str, str]) -> bytes:
        return self.frame({"type": "content_block_delta", "index": self._blocks - 1, "delta": delta})

    def _message(self, content: Any) -> dict[str, Any]:
        return {"id": _ID, "type": "message", "role": "assistant", "model": self.model, "content": content}

    def _end(self, said: Said) -> dict[str, Any]:
        usage = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        return {"stop_reason": self.finish(said), "stop_sequence": None, "usage": usage}
