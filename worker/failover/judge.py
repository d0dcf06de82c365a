"""What a reply is worth: the table as data, read from top to bottom.

Source of the classes: the providers' own error pages and issue trackers, gathered in the table of the fault classes;
the rules here are the ones that need no look at a provider's dialect beyond codes that are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from worker.failover.attempt import Reason
from worker.failover.provider import End, Fault, Kind


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a call brought no answer, and whether the walk stops because the request itself is wrong."""

    reason: Reason
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """The first rule that matches decides. `words` is searched in the provider's code and text."""

    verdict: Verdict
    kinds: frozenset[Kind] = frozenset()
    statuses: Callable[[int], bool] | None = None
    words: re.Pattern[str] | None = None
    html: bool | None = None

    def matches(self, fault: Fault) -> bool:
        return (
            (not self.kinds or fault.kind in self.kinds)
            and (self.statuses is None or (fault.status is not None and self.statuses(fault.status)))
            and (self.words is None or self.words.search(f"{fault.code} {fault.text}") is not None)
            and (self.html is None or fault.html == self.html)
        )


def _kind(reason: Reason, *kinds: Kind) -> Rule:
    return Rule(Verdict(reason), kinds=frozenset(kinds))


def _status(reason: Reason, *statuses: int, stops: bool = False, html: bool | None = None) -> Rule:
    return Rule(Verdict(reason, stops), statuses=lambda status: status in statuses, html=html)


def _words(reason: Reason, pattern: str) -> Rule:
    return Rule(
        Verdict(reason), kinds=frozenset({Kind.STATUS, Kind.IN_STREAM}), words=re.compile(pattern, re.IGNORECASE)
    )


_SERVER = 500
_PASSING = frozenset({400, 408, 409, 425, 499})

RULES: tuple[Rule, ...] = (
    _kind(Reason.CONNECT, Kind.CONNECT),
    _kind(Reason.FIRST_TOKEN_TIMEOUT, Kind.FIRST_TOKEN),
    _kind(Reason.IDLE_TIMEOUT, Kind.IDLE),
    _kind(Reason.TIMEOUT, Kind.SPENT),
    _kind(Reason.CUT_OFF, Kind.CUT),
    _kind(Reason.MALFORMED, Kind.UNREADABLE),
    # A body's own word beats the status: these come with 400, 402, 403 and 429 alike.
    _words(
        Reason.QUOTA, r"insufficient_quota|credit_balance|billing_|spend_limit|specified (workspace )?API usage limits"
    ),
    _words(
        Reason.TOO_LONG,
        r"context_length_exceeded|exceed_context_size|prompt is too long|maximum context length"
        r"|exceeds the available context size|longer than the context length",
    ),
    _words(Reason.FILTERED, r"content_filter|content_policy_violation|ResponsibleAIPolicyViolation"),
    _words(Reason.AUTH, r"API_KEY_INVALID|API_KEY_EXPIRED|invalid_api_key"),
    _words(Reason.UNSUPPORTED, r"unsupported_(parameter|value)|does not support (thinking|tools|vision|chat)"),
    _status(Reason.BAD_REQUEST, 400, 422, stops=True, html=False),
    _status(Reason.AUTH, 401, 403),
    _status(Reason.QUOTA, 402),
    _status(Reason.MODEL_MISSING, 404, 410, html=False),
    _status(Reason.TOO_LONG, 413, 414, 431),
    _status(Reason.THROTTLED, 429),
    _status(Reason.OVERLOADED, 503, 529),
    _status(Reason.FILTERED, 451),
    Rule(Verdict(Reason.MISROUTED), statuses=lambda status: status < _SERVER and status not in _PASSING),
    Rule(Verdict(Reason.SERVER_ERROR)),
)

_FINISHED = frozenset({"stop", "end_turn", "stop_sequence", "eos"})
_CUT_SHORT = frozenset({"length", "max_tokens"})


def of_fault(fault: Fault) -> Verdict:
    """The first rule that matches; the last one matches everything."""
    return next(rule.verdict for rule in RULES if rule.matches(fault))


def of_reply(text: str, end: End | None) -> Verdict | None:
    """None if this is an answer. An answer that only ran out of room counts as one (and is marked truncated)."""
    if end is None:
        return Verdict(Reason.INCOMPLETE)
    if end.finish_reason == "content_filter":
        return Verdict(Reason.FILTERED)
    if not text.strip():
        return Verdict(Reason.TRUNCATED if is_cut_short(end) else Reason.EMPTY)
    if end.finish_reason not in _FINISHED | _CUT_SHORT:
        return Verdict(Reason.INCOMPLETE)
    return None


def is_cut_short(end: End) -> bool:
    return end.finish_reason in _CUT_SHORT
