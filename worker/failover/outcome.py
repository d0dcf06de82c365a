"""What came of one attempt: the reply and its verdict as a record, an end or none, and a lesson for all workers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Protocol

from config.stages import Stage
from worker.failover import accept, judge, schema
from worker.failover.answer import Answer, Status
from worker.failover.attempt import Attempt, Outcome, Reason, Usage
from worker.failover.clocks import Reply
from worker.failover.deadline import clock_of
from worker.failover.detail import detail
from worker.failover.provider import Call, Fault, Kind, Provider
from worker.failover.request import Request
from worker.failover.state import Lesson, Permit, Settlement
from worker.failover.verdict import Counts, FaultClass, Verdict

_REFUSALS_FROM = 300
"""HTTP: everything below says that something was done."""


class Pricing(Protocol):
    def __call__(self, stage: Stage, usage: Usage | None, *, unbilled: bool) -> float | None:
        """USD of one attempt; 0 where the host turned the call away (`unbilled`), None where it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """One attempt with all that its judgement needs."""

    record: Attempt
    permit: Permit
    call: Call
    reply: Reply


def judged(case: Judged, provider: Provider, price: Pricing) -> tuple[Attempt, Settlement]:
    """The finished record, and what to settle; the provider knows which fields the call could have done without.

    A mistake of ours in judging costs the attempt and not the job, which would run until its deadline.
    """
    try:
        return _judged(case, provider, price)
    except Exception:  # noqa: BLE001 - whatever it is
        record = replace(case.record, outcome=Outcome.FAILED, reason=Reason.MALFORMED, duration_s=case.reply.duration_s)
        return record, _goes_on(case, Lesson(loud=True))


def _judged(case: Judged, provider: Provider, price: Pricing) -> tuple[Attempt, Settlement]:
    reply, stage = case.reply, case.call.stage
    fault = reply.fault
    record = replace(
        case.record,
        duration_s=reply.duration_s,
        first_token_s=reply.first_token_s,
        completed=reply.end is not None,
        usage=reply.usage,
        cost_usd=price(stage, reply.usage, unbilled=_turned_away(fault)),
        status=fault.status if fault else 200,
        retry_after_s=fault.retry_after_s if fault else None,
        detail=detail(fault.words.text, stage, case.call.request) if fault else None,
    )
    verdict, field = _verdict(case, provider)
    case = replace(case, record=record)
    if verdict is None:
        return replace(record, outcome=Outcome.ANSWERED, reason=None), _answered(case)
    return replace(record, outcome=Outcome.FAILED, reason=verdict.reason), _failed(case, verdict, field)


_MAY_HAVE_RUN = frozenset({408, 499, 504, 524})
"""A gateway lost patience: what it waited for may have been computed, and counted."""


def _turned_away(fault: Fault | None) -> bool:
    """Whether the call was refused before anything was computed."""
    if fault is None:
        return False
    refused = fault.status is not None and fault.status >= _REFUSALS_FROM and fault.status not in _MAY_HAVE_RUN
    return fault.kind in {Kind.CONNECT, Kind.OURS} or (fault.kind is Kind.STATUS and refused)


def _verdict(case: Judged, provider: Provider) -> tuple[Verdict | None, str]:
    """What the reply is worth, and the field without which the stage is asked once more; None for an answer."""
    call, reply = case.call, case.reply
    if reply.fault is None:
        return accept.of_reply(call, reply.text, reply.end, reply.usage), ""
    verdict = judge.of_fault(reply.fault, call.stage.provider)
    if reply.fault.kind is Kind.SPENT and _was_ours(case):
        return Verdict(verdict.reason, FaultClass.LOCAL), ""
    if verdict.fault_class is not FaultClass.REJECTED:
        return verdict, ""
    field = judge.rejected_field(reply.fault, provider.optional(call))
    return (_rejected_whole(verdict, call), "") if field is None or field in call.dropped else (verdict, field)


def _was_ours(case: Judged) -> bool:
    """Whether the job's own deadline ended the call, before the stage's clock could say anything of the stage.

    A host that has said nothing for half of its time, or is asked whether it is there again, has said enough.
    """
    permit, clock = case.permit, _clock(case)
    given = permit.left_s - permit.kept_s
    silent = case.reply.first_token_s is None and given >= clock / 2
    return given < clock and not silent and not permit.probe


def _clock(case: Judged) -> float:
    return clock_of(case.call.stage, cold=case.call.cold, first_token_s=case.reply.first_token_s)


def _rejected_whole(verdict: Verdict, call: Call) -> Verdict:
    """The verdict where no field is left that could be dropped.

    What was refused is needed, or this caller's own (then other callers hear nothing of it), or it is the stage's.
    """
    if call.request.response_schema is not None or call.request.images:
        return Verdict(Reason.CAPABILITY, FaultClass.NO_FIT)
    if call.request.params.get(call.stage.name):
        return Verdict(verdict.reason, FaultClass.NO_FIT)
    return Verdict(verdict.reason, FaultClass.PERMANENT)


def _answered(case: Judged) -> Settlement:
    reply = case.reply
    assert reply.end is not None  # noqa: S101 - what has no end has a verdict
    cut = accept.is_cut_short(reply.end)
    text = reply.text if case.call.request.response_schema is None else schema.bare(reply.text)
    answer = Answer(text, case.call.stage.name, "length" if cut else "stop", cut, reply.usage)
    slow, loading = case.call.stage.breaker.slow_call, reply.first_token_s or 0.0 if case.call.cold else 0.0
    lesson = replace(_taken(case), worked=True, failed=slow is not None and reply.duration_s - loading > slow)
    return Settlement(Status.ANSWERED, answer, lesson=lesson)


def _failed(case: Judged, verdict: Verdict, field: str) -> Settlement:
    lesson = _lesson(case, verdict)
    if field and case.reply.fault is not None:
        return Settlement(lesson=replace(lesson, dropped=field, believed=judge.holds_always(case.reply.fault)))
    if not verdict.consequences.goes_on:
        return Settlement(Status.REFUSED, lesson=replace(lesson, refused=mark(case.call.request)))
    return _goes_on(case, lesson)


def _lesson(case: Judged, verdict: Verdict) -> Lesson:
    """A failure's: an outage, a throttle or a permanent fault closes the stage; bad output says that it is there."""
    fault, taken = case.reply.fault, _taken(case)
    return replace(
        health(verdict, fault),
        tokens=taken.tokens,
        usd=taken.usd,
        reached=fault is None or fault.kind not in {Kind.CONNECT, Kind.OURS},
        loud=verdict.consequences.loud,
    )


def health(verdict: Verdict, fault: Fault | None) -> Lesson:
    """What a failure says of its stage's health alone."""
    counts = verdict.consequences.counts
    closes = counts in {Counts.THROTTLE, Counts.OUTAGE, Counts.PERMANENT}
    named = fault.retry_after_s if fault is not None and closes else None
    return Lesson(
        worked=counts is Counts.QUALITY,
        failed=counts is Counts.OUTAGE,
        throttled=counts is Counts.THROTTLE,
        permanent=counts is Counts.PERMANENT,
        closed_s=0.0 if named is None else max(named, _SHORTEST_S),
    )


_SHORTEST_S = 0.1
"""A host that says "again in 0 s" is given this much rest."""


def _taken(case: Judged) -> Lesson:
    """What the call took of the stage's limits and budget, as far as it is known."""
    usage, usd = case.record.usage, case.record.cost_usd
    tokens = min(usage.input_tokens + usage.output_tokens, _MOST_TOKENS) if usage else None
    return Lesson(tokens=tokens, usd=None if usd is None else min(usd, _MOST_USD))


_MOST_TOKENS, _MOST_USD = 10**9, 10.0**6
"""No call takes more, whatever a host counts: a bucket must not be in debt for years by one number."""


def _goes_on(case: Judged, lesson: Lesson) -> Settlement:
    """What a caller has seen cannot be taken back, and no other stage would go on from there: that ends the job."""
    fault = case.reply.fault
    late = fault is not None and fault.kind is Kind.SPENT and _clock(case) > case.permit.left_s
    last = Status.EXPIRED if late else Status.EXHAUSTED
    return Settlement(last if case.record.committed else None, last=last, lesson=lesson)


def mark(request: Request) -> str:
    """Tells one request from another; too short to find out what it says by trying."""
    images = [image.base64 for image in request.images]
    said = json.dumps([list(map(dict, request.messages)), request.response_schema, request.params, images])
    return hashlib.blake2b(said.encode(errors="replace"), digest_size=4).hexdigest()
