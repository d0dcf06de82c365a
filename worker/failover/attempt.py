"""One record for every call made and for every stage skipped, in the words of the ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    STARTED = "started"
    """Only while the call runs; whoever finds it on a job of a dead worker records `unknown`."""
    ANSWERED = "answered"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    CONNECT = "connect"
    TIMEOUT = "timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"  # noqa: S105 - a clock, no secret
    IDLE_TIMEOUT = "idle_timeout"
    CUT_OFF = "cut_off"
    SERVER_ERROR = "server_error"
    OVERLOADED = "overloaded"
    THROTTLED = "throttled"
    QUOTA = "quota"
    AUTH = "auth"
    MODEL_MISSING = "model_missing"
    BAD_REQUEST = "bad_request"
    TOO_LONG = "too_long"
    FILTERED = "filtered"
    EMPTY = "empty"
    INCOMPLETE = "incomplete"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    DEGENERATE = "degenerate"
    UNSUPPORTED = "unsupported"
    MISROUTED = "misrouted"
    BREAKER_OPEN = "breaker_open"
    SWITCHED_OFF = "switched_off"
    LIMIT = "limit"
    BUDGET = "budget"
    DEADLINE = "deadline"
    LANE_FULL = "lane_full"
    """So many wait on its lane that the job's deadline would come before its turn."""
    LOCAL_ONLY = "local_only"
    CAPABILITY = "capability"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    DRAINED = "drained"
    """Its worker was told to end, and its time to finish was over."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one stage. Times in seconds, `started_at` in epoch seconds of the server's clock, cost in USD.

    Holds no endpoint, key, header or prompt; `detail` is what the host said of its failure, cleaned of them.
    `completed`: the end of the answer was seen; `committed`: pieces of it were shown to the caller; an unknown cost is
    None, never 0.
    """

    n: int
    of: int
    stage: str
    model: str
    outcome: Outcome
    reason: Reason | None = None
    status: int | None = None
    started_at: float = 0.0
    duration_s: float = 0.0
    first_token_s: float | None = None
    completed: bool = False
    committed: bool = False
    retry_after_s: float | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    worker: str | None = None
    detail: str | None = None

    def as_record(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        return asdict(self)
