"""What a protocol must be able to say. One more protocol is one more file with one more subclass."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.hosts.log import Stage


@dataclass(frozen=True, slots=True)
class Said:
    """All that an answer tells."""

    text: str = ""
    thinking: str = ""
    finish: str | None = "stop"
    """The protocol's own word; None when the end is left out."""
    input_tokens: int = 0
    output_tokens: int = 0
    """With the reasoning's."""
    load: float = 0.0
    """Seconds that loading the model took."""


class Dialect(ABC):
    """Renders one call; an instance sees no second one, so that it may remember where it is."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    """What the base URL ends in, below the stage."""
    stream_type: ClassVar[str]
    """The content type of a stream."""

    def __init__(self, path: str, body: Any) -> None:
        self.path = path
        self.body: Mapping[str, Any] = body if isinstance(body, dict) else {}

    @classmethod
    @abstractmethod
    def asks(cls, method: str, path: str) -> bool:
        """Whether this is a request for an answer; the path stands below the stage and has its query."""

    @classmethod
    @abstractmethod
    def look(cls, path: str, stage: Stage) -> str | None:
        """The body for a GET that asks about the host, None if the protocol has no such path."""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    @abstractmethod
    def streams(self) -> bool: ...

    def messages(self) -> list[tuple[str, str]]:
        """Role and text of what was asked."""
        messages = self.body.get("messages")
        listed = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
        return [(str(message.get("role")), text_of(message.get("content"))) for message in listed]

    @abstractmethod
    def frame(self, value: Mapping[str, Any]) -> bytes:
        """One object as the stream carries it."""

    @abstractmethod
    def opening(self) -> bytes:
        """What comes before the first text, maybe nothing."""

    @abstractmethod
    def thought(self, text: str) -> bytes: ...

    @abstractmethod
    def piece(self, text: str) -> bytes: ...

    @abstractmethod
    def ending(self, said: Said) -> bytes:
        """The end marker with all that belongs to it."""

    @abstractmethod
    def blank(self) -> bytes:
        """What keeps a connection alive and says nothing."""

    @abstractmethod
    def garbled(self) -> bytes:
        """Half an object in the stream's frame."""

    @abstractmethod
    def whole(self, said: Said) -> Mapping[str, Any]:
        """The answer to a call that does not stream."""

    @abstractmethod
    def error(self, status: int, code: str | None, message: str | None) -> Mapping[str, Any]:
        """An error's body; the same object stands in a stream that fails half-way."""


def text_of(content: Any) -> str:
    """A message's text, also where it comes in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def to_json(value: object) -> str:
    """Text stays as it is, but for lone surrogates: an echo may bring some, and no encoding takes them."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
