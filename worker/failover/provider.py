"""What is asked of a provider: one stream of chunks, or a fault told as a value."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    OURS = "ours"
    """Our own side had no room for the call; nothing left this machine."""


@dataclass(frozen=True, slots=True)
class Words:
    """What an error body says. All of it is a stranger's text, for the judge's table; `worker.failover.detail` makes
    of `text` what a person may see.

    `codes` are its codes, types and status words; `number` is an HTTP status that the body itself names; `param` the
    field it complains of. `formed`: the body is an object that says something; `html`: it is a web page.
    """

    codes: tuple[str, ...] = ()
    text: str = ""
    param: str = ""
    number: int | None = None
    formed: bool = False
    html: bool = False


NO_WORDS = Words()


class Fault(Exception):
    """A call that brought no answer. `status` is HTTP's own; `retry_after_s`: when the host wants to be asked again."""

    def __init__(
        self, kind: Kind, *, status: int | None = None, words: Words = NO_WORDS, retry_after_s: float | None = None
    ) -> None:
        super().__init__(kind)
        self.kind, self.status, self.words, self.retry_after_s = kind, status, words, retry_after_s


@dataclass(frozen=True, slots=True)
class Piece:
    """Content that arrived; `thought` is the model's thinking, which stops clocks but is no part of an answer."""

    text: str = ""
    thought: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The provider's own mark that the answer is whole, and why it stopped, in the provider's own word."""

    finish_reason: str
    usage: Usage | None = None


_MOST_TOKENS = 2**31
"""No window is a thousandth as long: a greater number is no count."""


def counted(input_tokens: object, output_tokens: object, reasoning_tokens: object = None) -> Usage | None:
    """A host's own counts; None where input or output is not there or any of them is no credible number.

    A count that is missing or that nobody can believe makes the usage unknown, and with it the cost: never 0. It never
    costs the answer it came with. Reasoning is a part of the output.
    """
    tokens = (input_tokens, output_tokens, 0 if reasoning_tokens is None else reasoning_tokens)
    exact = [count for count in tokens if type(count) is int and 0 <= count < _MOST_TOKENS]
    if len(exact) < len(tokens):
        return None
    return Usage(exact[0], exact[1], min(exact[2], exact[1]))


def _nobody_listens() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Call:
    """One request for one stage; `max_output_tokens` is always set.

    `dropped` are fields, by the names that `Provider.optional` gives them, that the stage is known not to take.
    `cold`: the stage's model is not known to be in its host's memory, so it may have to be loaded first.
    `sending` is to be called when there is a connection: the clock of the first token starts then. A provider that
    makes no connection calls it before anything else.
    """

    stage: Stage
    request: Request
    max_output_tokens: int
    dropped: frozenset[str] = frozenset()
    cold: bool = False
    sending: Callable[[], None] = field(default=_nobody_listens, compare=False)


Chunk = Piece | Usage | End
"""`Usage` on its own is what the host has counted by the end, told before its end mark."""


class Provider(Protocol):
    def stream(self, call: Call) -> AsyncIterator[Chunk]:
        """Yield content-bearing pieces, then one `End`; raise `Fault`. Never retry; cancelling closes the socket."""
        ...

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        """The fields of this call that it can do without: each name, and the words by which hosts speak of it."""
        ...
