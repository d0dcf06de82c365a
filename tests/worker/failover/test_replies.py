"""What counts as an answer, and what a reply is worth."""

from __future__ import annotations

import pytest

from tests.worker.failover.walks import stage, walked
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.judge import RULES, of_fault, of_reply
from worker.failover.provider import End, Fault, Kind


@pytest.mark.parametrize(
    ("script", "reason", "completed"),
    [
        ("empty", "empty", True),
        ("cut", "cut_off", False),
        ("no-end", "incomplete", False),
        ("garbage", "malformed", False),
    ],
)
def test_a_reply_that_is_no_answer_goes_on_to_the_next_stage(script: str, reason: str, completed: bool) -> None:
    """Half an answer is never given out as a whole one."""
    found = walked(stage("a", script), stage("b", "ok:Because."))
    assert (found.view.status, found.view.shown["text"]) == (Status.ANSWERED, "Because. ")
    assert found.told[0] == ("a", "failed", reason)
    assert found.attempts[0]["completed"] is completed


def test_an_answer_that_ran_out_of_room_is_an_answer_and_says_so() -> None:
    """The caller may ask for more room; another stage would run out of it as well."""
    found = walked(stage("a", "length"), stage("b"))
    shown = found.view.shown
    assert (shown["status"], shown["text"], found.asked) == ("answered", "half an answer", ["a"])
    assert (shown["truncated"], shown["finish_reason"]) == (True, "length")
    whole = walked(stage("a")).view.shown
    assert (whole["truncated"], whole["finish_reason"]) == (False, "stop")


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ("Because.", "stop", None),
        ("Because.", "end_turn", None),
        ("Because.", "length", None),
        ("Because.", "max_tokens", None),
        ("", "length", Reason.TRUNCATED),
        (" \n", "length", Reason.TRUNCATED),
        ("", "stop", Reason.EMPTY),
        ("\n\t ", "stop", Reason.EMPTY),
        ("Becau", "content_filter", Reason.FILTERED),
        ("", "content_filter", Reason.FILTERED),
        ("Becau", "load", Reason.INCOMPLETE),
        ("Becau", "", Reason.INCOMPLETE),
        ("", "tool_calls", Reason.EMPTY),
        ("Becau", None, Reason.INCOMPLETE),
        ("", None, Reason.INCOMPLETE),
    ],
)
def test_a_reply_is_judged_by_its_text_and_its_end(text: str, finish: str | None, reason: Reason | None) -> None:
    """Only a text with an end that its host calls one is an answer."""
    verdict = of_reply(text, None if finish is None else End(finish))
    assert (verdict and verdict.reason) == reason
    assert verdict is None or not verdict.stops


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(Kind.CONNECT), Reason.CONNECT),
        (Fault(Kind.FIRST_TOKEN), Reason.FIRST_TOKEN_TIMEOUT),
        (Fault(Kind.IDLE), Reason.IDLE_TIMEOUT),
        (Fault(Kind.SPENT), Reason.TIMEOUT),
        (Fault(Kind.CUT), Reason.CUT_OFF),
        (Fault(Kind.UNREADABLE), Reason.MALFORMED),
        (Fault(Kind.UNREADABLE, html=True), Reason.MALFORMED),
        (Fault(Kind.IN_STREAM), Reason.SERVER_ERROR),
        (Fault(Kind.IN_STREAM, text="llama runner has terminated"), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=401), Reason.AUTH),
        (Fault(Kind.STATUS, status=403), Reason.AUTH),
        (Fault(Kind.STATUS, status=402), Reason.QUOTA),
        (Fault(Kind.STATUS, status=404), Reason.MODEL_MISSING),
        (Fault(Kind.STATUS, status=404, html=True), Reason.MISROUTED),
        (Fault(Kind.STATUS, status=410), Reason.MODEL_MISSING),
        (Fault(Kind.STATUS, status=405), Reason.MISROUTED),
        (Fault(Kind.STATUS, status=302), Reason.MISROUTED),
        (Fault(Kind.STATUS, status=204), Reason.MISROUTED),
        (Fault(Kind.STATUS, status=413), Reason.TOO_LONG),
        (Fault(Kind.STATUS, status=429), Reason.THROTTLED),
        (Fault(Kind.STATUS, status=429, code="insufficient_quota"), Reason.QUOTA),
        (Fault(Kind.STATUS, status=451), Reason.FILTERED),
        (Fault(Kind.STATUS, status=500), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=502, html=True), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=503), Reason.OVERLOADED),
        (Fault(Kind.STATUS, status=529), Reason.OVERLOADED),
        (Fault(Kind.STATUS, status=599), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=408), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=400, html=True), Reason.SERVER_ERROR),
        (Fault(Kind.STATUS, status=400, code="context_length_exceeded"), Reason.TOO_LONG),
        (Fault(Kind.STATUS, status=400, text="prompt is too long: 9 tokens"), Reason.TOO_LONG),
        (Fault(Kind.STATUS, status=400, code="invalid_api_key"), Reason.AUTH),
        (Fault(Kind.STATUS, status=400, text='"m" does not support thinking'), Reason.UNSUPPORTED),
        (Fault(Kind.STATUS, status=400, code="content_filter"), Reason.FILTERED),
        (Fault(Kind.IN_STREAM, code="insufficient_quota"), Reason.QUOTA),
    ],
    ids=lambda value: (
        f"{value.kind} {value.status or ''} {value.code}{value.text}" if isinstance(value, Fault) else None
    ),
)
def test_a_fault_of_the_host_goes_on_under_its_own_name(fault: Fault, reason: Reason) -> None:
    """A body's own word beats the status, since hosts use the same few for very different things."""
    verdict = of_fault(fault)
    assert (verdict.reason, verdict.stops) == (reason, False)


@pytest.mark.parametrize("status", [400, 422])
def test_only_a_request_that_is_wrong_in_itself_stops_a_walk(status: int) -> None:
    """And not the page of a proxy in front of the host."""
    verdict = of_fault(Fault(Kind.STATUS, status=status, code="invalid_request_error", text="messages: too few"))
    assert (verdict.reason, verdict.stops) == (Reason.BAD_REQUEST, True)
    assert sum(rule.verdict.stops for rule in RULES) == 1


def test_the_last_rule_takes_whatever_is_left() -> None:
    """A kind that no rule knows must not end in an exception."""
    assert all(RULES[-1].matches(Fault(kind)) for kind in Kind)
