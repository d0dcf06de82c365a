"""What is asked of a provider: one stream of chunks, or a fault told as a value."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from config.stages import Stage
from worker.failover.attempt import Usage
from worker.failover.request import Request


class Kind(StrEnum):
    """What went wrong, as the adapter saw it; the judge says what it means."""

    CONNECT = "connect"
    CUT = "cut"
    STATUS = "status"
    UNREADABLE = "unreadable"
    IN_STREAM = "in_stream"
    SPENT = "spent"
    FIRST_TOKEN = "first_token"  # noqa: S105 - a clock, no secret
    IDLE = "idle"


class Fault(Exception):
    """A call that brought no answer.

    `code` and `text` are the provider's own words: for the judge only, never for a log, a ledger or a person.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        status: int | None = None,
        code: str = "",
        text: str = "",
        html: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(kind)
        self.kind, self.status, self.code, self.text = kind, status, code, text
        self.html, self.retry_after_s = html, retry_after_s


@dataclass(frozen=True, slots=True)
class Piece:
    """Content that arrived; `thought` is the model's thinking, which stops clocks but is no part of an answer."""

    text: str = ""
    thought: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The provider's own mark that the answer is whole, and why it stopped."""

    finish_reason: str
    usage: Usage | None = None


_MOST_TOKENS = 2**53
"""Beyond it a number is no longer exact everywhere it is stored, and no host has counted so far."""


def counted(input_tokens: object, output_tokens: object, reasoning_tokens: object = None) -> Usage | None:
    """A host's own counts, 0 for one that it does not give; None where any of them is no credible number.

    A count that nobody can believe makes the usage unknown; it never costs the answer it came with.
    """
    tokens = [0 if given is None else given for given in (input_tokens, output_tokens, reasoning_tokens)]
    exact = [count for count in tokens if type(count) is int and 0 <= count < _MOST_TOKENS]
    return Usage(*exact) if len(exact) == len(tokens) else None


@dataclass(frozen=True, slots=True)
class Call:
    """One request for one stage; `max_output_tokens` is always set."""

    stage: Stage
    request: Request
    max_output_tokens: int


class Provider(Protocol):
    def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        """Yield content-bearing pieces, then one `End`; raise `Fault`. Never retry; cancelling closes the socket."""
        ...
