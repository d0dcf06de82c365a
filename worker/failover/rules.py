"""The fault table as data, read from top to bottom: the first rule that matches decides.

Source of the classes: the providers' own error pages, SDKs and issue trackers. What a body says beats the status it
came with. Its codes are compared as a whole. Its text is only believed where it begins like a vendor's sentence or
holds what nobody else writes: a host may repeat the prompt, and a prompt may hold any words ("429", "rate limit").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from worker.failover import sentences
from worker.failover.attempt import Reason
from worker.failover.provider import Fault, Kind
from worker.failover.verdict import FaultClass, Verdict

LONG_S = 600.0
"""A Gemini host that asks to wait for longer means no limit by the minute: a day's, or a month's, is used up."""

_ANY_WAIT = -1.0
_WRONG = frozenset({400, 422})
_MOST = 2000
_ANSWERED = frozenset({Kind.STATUS, Kind.IN_STREAM})

STATED: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("invalid_request_error", "invalid_argument"), 400),
        **dict.fromkeys(("permission_error", "permission_denied"), 403),
        **dict.fromkeys(("not_found_error", "not_found"), 404),
        "resource_exhausted": 429,
    }
)
"""The HTTP status that a word stands for, for an error that comes in a stream and so has none of its own.

Only words that no rule knows as a code, and no 500: that is what an error is that says nothing.
"""

_LIMITED = re.compile(rf"{sentences.THROTTLED_CODES}|{sentences.OVERLOADED_CODES}|RESOURCE_EXHAUSTED", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a fault must be to get this verdict; a field that is not set asks for nothing.

    `statuses` are compared with `status_of`. Of `codes` (one of them or the status, as a whole) and `text` (searched)
    one is enough. `beyond_s`: the host asks for a longer pause than this.
    """

    verdict: Verdict
    kinds: frozenset[Kind] = frozenset()
    protocols: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    codes: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    formed: bool | None = None
    beyond_s: float | None = None

    def matches(self, fault: Fault, protocol: str) -> bool:
        asked = fault.retry_after_s
        return (
            (not self.kinds or fault.kind in self.kinds)
            and (not self.protocols or protocol in self.protocols)
            and (not self.statuses or status_of(fault) in self.statuses)
            and (self.formed is None or fault.words.formed == self.formed)
            and (self.beyond_s is None or (asked is not None and asked > self.beyond_s))
            and self._says(fault)
        )

    def _says(self, fault: Fault) -> bool:
        said = fault.words
        if self.codes is None and self.text is None:
            return True
        if self.codes is not None and any(map(self.codes.fullmatch, _codes_of(fault))):
            return True
        return self.text is not None and not said.html and self.text.search(said.text[:_MOST]) is not None


def status_of(fault: Fault) -> int | None:
    """HTTP's own status or, where it says more, the body's: a 400 in a body is only what a gateway calls any error.

    Of an error in a stream it is what the body says, by its number or by the word for one. A 401 stays one.
    """
    number = fault.words.number
    status = fault.status if fault.kind is Kind.STATUS else None
    if status == 401:  # noqa: PLR2004 - HTTP's
        return status
    if number is not None and number not in _WRONG:
        return number
    if status is None and number is None:
        return max((STATED[code.lower()] for code in fault.words.codes if code.lower() in STATED), default=None)
    return number if status is None else status


def _codes_of(fault: Fault) -> Iterator[str]:
    yield from (code[:_MOST] for code in fault.words.codes)
    yield str(status_of(fault))


def is_limit(fault: Fault) -> bool:
    """Whether the host says by a status or a code that it has no room: a time in its text is then one to come back."""
    return any(map(_LIMITED.fullmatch, _codes_of(fault)))


def _rule(
    reason: Reason,
    fault_class: FaultClass,
    *statuses: int | range,
    codes: str = "",
    text: str = "",
    protocol: str = "",
    formed: bool | None = None,
    beyond_s: float | None = None,
) -> Rule:
    spread = (range(some, some + 1) if isinstance(some, int) else some for some in statuses)
    return Rule(
        Verdict(reason, fault_class),
        kinds=_ANSWERED,
        protocols=frozenset({protocol} - {""}),
        statuses=frozenset(status for some in spread for status in some),
        codes=re.compile(codes, re.IGNORECASE) if codes else None,
        text=re.compile(text, re.IGNORECASE | re.MULTILINE) if text else None,
        formed=formed,
        beyond_s=beyond_s,
    )


def _kind(reason: Reason, kind: Kind, fault_class: FaultClass = FaultClass.TRANSIENT) -> Rule:
    return Rule(Verdict(reason, fault_class), kinds=frozenset({kind}))


RULES: tuple[Rule, ...] = (
    _kind(Reason.CONNECT, Kind.CONNECT),
    _kind(Reason.FIRST_TOKEN_TIMEOUT, Kind.FIRST_TOKEN),
    _kind(Reason.IDLE_TIMEOUT, Kind.IDLE),
    _kind(Reason.TIMEOUT, Kind.SPENT),
    _kind(Reason.CUT_OFF, Kind.CUT),
    _kind(Reason.MALFORMED, Kind.UNREADABLE),
    _kind(Reason.CONNECT, Kind.OURS, FaultClass.LOCAL),
    # Money: these come with 400, 402, 403 and 429 alike.
    _rule(Reason.QUOTA, FaultClass.PERMANENT, codes=sentences.NO_MONEY_CODES, text=sentences.NO_MONEY),
    _rule(Reason.AUTH, FaultClass.PERMANENT, codes=sentences.NO_ACCESS_CODES, text=sentences.NO_ACCESS),
    _rule(Reason.AUTH, FaultClass.PERMANENT, 401),
    _rule(Reason.THROTTLED, FaultClass.THROTTLED, codes="openrouter_in_flight_budget"),
    _rule(Reason.THROTTLED, FaultClass.THROTTLED, 402, beyond_s=_ANY_WAIT),
    _rule(Reason.QUOTA, FaultClass.PERMANENT, 402),
    # What this stage cannot do for this request.
    _rule(Reason.TOO_LONG, FaultClass.NO_FIT, codes=sentences.TOO_LONG_CODES, text=sentences.TOO_LONG),
    _rule(Reason.FILTERED, FaultClass.NO_FIT, codes=sentences.FILTERED_CODES, text=sentences.FILTERED),
    _rule(Reason.FILTERED, FaultClass.NO_FIT, 403, text=r"\bguardrail"),
    _rule(Reason.CAPABILITY, FaultClass.NO_FIT, codes=sentences.INCAPABLE_CODES, text=sentences.INCAPABLE),
    _rule(Reason.MALFORMED, FaultClass.BAD_OUTPUT, codes=sentences.SPOILED_CODES),
    # The stage's own settings; LM Studio says with a 400 that a model died.
    _rule(Reason.MODEL_MISSING, FaultClass.PERMANENT, codes=sentences.NO_MODEL_CODES, text=sentences.NO_MODEL,
          formed=True),
    _rule(Reason.SERVER_ERROR, FaultClass.TRANSIENT, *_WRONG, 404, text=sentences.BROKEN),
    _rule(Reason.AUTH, FaultClass.PERMANENT, 403),
    _rule(Reason.MODEL_MISSING, FaultClass.PERMANENT, 404, 410, text=r"(?<![/\w])models?\b", formed=True),
    _rule(Reason.MISROUTED, FaultClass.PERMANENT, range(400), 404, 405, 406, 407, 410, 415, 501, 505),
    _rule(Reason.MISROUTED, FaultClass.PERMANENT, codes=sentences.MISROUTED_CODES, text=sentences.MISROUTED),
    _rule(Reason.UNSUPPORTED, FaultClass.REJECTED, codes=sentences.REJECTED_CODES, text=sentences.REJECTED),
    _rule(Reason.TOO_LONG, FaultClass.NO_FIT, 413, 414, 431),
    # Limits: a day's is none that a pause helps against.
    _rule(Reason.QUOTA, FaultClass.PERMANENT, 429, codes=r"\w*PerDay\S*|quotaValue=0", text=r"\blimit: 0(?![.\d])"),
    _rule(Reason.QUOTA, FaultClass.PERMANENT, 429, codes="RESOURCE_EXHAUSTED", beyond_s=LONG_S),
    _rule(Reason.THROTTLED, FaultClass.THROTTLED, codes=sentences.THROTTLED_CODES, text=sentences.THROTTLED),
    _rule(Reason.THROTTLED, FaultClass.THROTTLED, 503, protocol="ollama", text=sentences.OLLAMA_BUSY, formed=True),
    _rule(Reason.FILTERED, FaultClass.NO_FIT, 451),
    # Capacity: no limit of ours, but a host that says when it wants to be asked again is taken at its word.
    _rule(Reason.OVERLOADED, FaultClass.THROTTLED, codes=sentences.OVERLOADED_CODES, beyond_s=_ANY_WAIT),
    _rule(Reason.OVERLOADED, FaultClass.TRANSIENT, codes=sentences.OVERLOADED_CODES),
    # What is left of an error that says something is the caller's.
    _rule(Reason.BAD_REQUEST, FaultClass.CALLER, *_WRONG, formed=True),
    # Ollama's own: it answers 500 where the request is wrong, and where it has stopped a model that repeats itself.
    _rule(Reason.BAD_REQUEST, FaultClass.CALLER, protocol="ollama", text=sentences.OLLAMA_WRONG, formed=True),
    _rule(Reason.DEGENERATE, FaultClass.BAD_OUTPUT, text=r"^prediction aborted, token repeat limit reached"),
    Rule(Verdict(Reason.SERVER_ERROR, FaultClass.TRANSIENT)),
)  # fmt: skip
