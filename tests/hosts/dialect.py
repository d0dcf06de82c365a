"""What a protocol must be able to say. One more protocol is one more file with one more subclass."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from tests.hosts.log import Stage


@dataclass(frozen=True, slots=True)
class Said:
    """All that an answer tells."""

    text: str = ""
    thinking: str = ""
    finish: str | None = "stop"
    """`stop`, `length` or `content_filter`, which each protocol says its own way, or any other word; None: no end."""
    input_tokens: int = 0
    output_tokens: int = 0
    """With the reasoning's."""
    load: float = 0.0
    """Seconds that loading the model took."""


@dataclass(frozen=True, slots=True)
class Failure:
    """All that an error tells; a protocol that has no place for a part leaves it out."""

    status: int = 500
    code: str | None = None
    """The vendor's word for what happened, or a number; None is what goes with the status."""
    message: str | None = None
    type: str | None = None
    param: str | None = None
    retry_delay: str | None = None
    """Gemini's, such as `46s`."""
    quota: str | None = None
    """The name of the limit that was met, Gemini's too."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ends; where one object tells everything, that is the mark."""

    closing: bytes
    """Finish reason and usage, as far as they come before the last mark."""
    mark: bytes

    @property
    def all(self) -> bytes:
        return self.closing + self.mark


class Dialect(ABC):
    """Renders one call; an instance sees no second one, so that it may remember where it is."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    """What the base URL ends in, below the stage."""
    finishes: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What the protocol says for `stop`, `length` and `content_filter`, where it has a word of its own."""
    stream_type: str
    """The content type of a stream."""

    def __init__(self, path: str, body: Any) -> None:
        self.path = path
        self.body: Mapping[str, Any] = body if isinstance(body, dict) else {}
        self.input_tokens = sum(len(words.split()) for _, words in self.messages())
        """What an answer counts as its question; words until the script gives another number."""
        self.most_output: int | None = None
        """Words after which an answer is cut, None is never."""

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
    def window(self) -> int | None:
        """The context window that the model is to be loaded with, None where the request does not say."""
        return None

    @property
    def stay(self) -> float | None:
        """Seconds that the model is to stay in memory afterwards, None where the request does not say."""
        return None

    async def early(  # a protocol that has nothing of the kind has no use for either
        self,
        stage: Stage,  # noqa: ARG002
        wait: Callable[[float], Awaitable[None]],  # noqa: ARG002
    ) -> tuple[int, Mapping[str, Any]] | None:
        """Status and body of what is answered before the script is asked, None where that is to play a call.

        `wait` sleeps so many seconds and raises ClientGone at once when the client closes.
        """
        return None

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
    def hollow(self) -> bytes:
        """A chunk of an answer that has a role at most, and no text."""

    @abstractmethod
    def ending(self, said: Said) -> Ending: ...

    def close(self) -> bytes:
        """What the body needs to be well-formed, whatever was in it."""
        return b""

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
    def unanswered(self, said: Said, gap: Any) -> list[Mapping[str, Any]]:
        """The objects of an answer with `gap`, None or empty, where its text should be: one, or those of a stream."""

    @abstractmethod
    def error(self, failure: Failure) -> Mapping[str, Any]:
        """An error's body; the same object stands in a stream that fails half-way."""

    def finish(self, said: Said) -> str | None:
        """The finish reason in the protocol's words."""
        return None if said.finish is None else self.finishes.get(said.finish, said.finish)


def text_of(content: Any) -> str:
    """A message's text, also where it comes in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def to_json(value: object) -> str:
    """Text stays as it is, but for lone surrogates: an echo may bring some, and no encoding takes them."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
