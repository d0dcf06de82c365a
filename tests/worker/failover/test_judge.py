"""What a host's error is worth: real bodies of the vendors, through the reader of replies, against the table."""

from __future__ import annotations

import pytest

from tests.worker.failover.vendor_bodies import COME_BACK, PAGE, STREAMED, TABLE, openai
from worker.failover.attempt import Reason
from worker.failover.judge import of_fault
from worker.failover.provider import Fault, Kind, Words
from worker.failover.rules import RULES
from worker.failover.verdict import CONSEQUENCES, FaultClass
from worker.providers.replies import failed, said

NO_ANSWER = {
    Kind.CONNECT: (Reason.CONNECT, FaultClass.TRANSIENT),
    Kind.FIRST_TOKEN: (Reason.FIRST_TOKEN_TIMEOUT, FaultClass.TRANSIENT),
    Kind.IDLE: (Reason.IDLE_TIMEOUT, FaultClass.TRANSIENT),
    Kind.SPENT: (Reason.TIMEOUT, FaultClass.TRANSIENT),
    Kind.CUT: (Reason.CUT_OFF, FaultClass.TRANSIENT),
    Kind.UNREADABLE: (Reason.MALFORMED, FaultClass.TRANSIENT),
    Kind.OURS: (Reason.CONNECT, FaultClass.LOCAL),
}


@pytest.mark.parametrize(("protocol", "status", "body", "reason", "fault_class"), TABLE)
def test_a_reply_of_a_host_has_the_class_of_the_table(
    protocol: str, status: int, body: str, reason: Reason, fault_class: FaultClass
) -> None:
    """A body's own word beats the status, since hosts use the same few for very different things."""
    verdict = of_fault(failed(status, {}, body, 0.0), protocol)
    assert (verdict.reason, verdict.fault_class) == (reason, fault_class)
    assert verdict.consequences.goes_on is (fault_class is not FaultClass.CALLER)


@pytest.mark.parametrize(("kind", "expected"), NO_ANSWER.items())
def test_what_no_host_has_said_has_the_name_of_what_was_seen(kind: Kind, expected: tuple[Reason, FaultClass]) -> None:
    """A connection, a clock or bytes that nobody can read; and a lack of room on our own side is nobody's outage."""
    for words in (Words(), Words(html=True), Words(("insufficient_quota",), "prompt is too long", number=400)):
        verdict = of_fault(Fault(kind, words=words))
        assert (verdict.reason, verdict.fault_class) == expected


@pytest.mark.parametrize(("body", "reason", "fault_class"), STREAMED)
def test_an_error_in_a_stream_is_judged_by_its_own_number_or_word(
    body: str, reason: Reason, fault_class: FaultClass
) -> None:
    """The status of a stream was 200 long before: an overload in it was once taken for a success."""
    verdict = of_fault(said(body), "openai")
    assert (verdict.reason, verdict.fault_class) == (reason, fault_class)


@pytest.mark.parametrize(("status", "body", "reason", "fault_class"), COME_BACK)
def test_a_host_that_says_when_to_come_back_is_throttling(
    status: int, body: str, reason: Reason, fault_class: FaultClass
) -> None:
    """But an empty purse is not filled by waiting, whatever the head says."""
    verdict = of_fault(failed(status, {"retry-after": "3600"}, body, 0.0), "openai")
    assert (verdict.reason, verdict.fault_class) == (reason, fault_class)


ECHOES = [
    "Why does OpenAI say insufficient_quota, 429 and rate limit?",
    "prompt is too long: 215000 tokens > 200000 maximum",
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    "The input token count (12) exceeds the maximum number of tokens allowed (8).",
    "request (9000 tokens) exceeds the available context size (4096 tokens)",
    "what is a maximum context length, and why does it exceed context limit?",
    "Your credit balance is too low",
    "the model 'x' not found error of Ollama: model \"x\" not found, try pulling it first",
    "temperature is not supported with this model",
    '"m" does not support thinking',
    "Extra inputs are not permitted",
    "content_filter ResponsibleAIPolicyViolation content_policy_violation",
    "API key not valid. Please pass a valid API key.",
    "overloaded_error UNAVAILABLE server busy, please try again. maximum pending requests exceeded",
    "No endpoints found that support images, limit: 0, PerDay, moderation, guardrail",
    "invalid format: x",
    "<html>502</html>",
    '{"error": {"code": "insufficient_quota"}}',
    "What does please try again in 23 hours mean?",
]


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize(
    "sentence",
    [
        "Invalid value for messages[0].content: '{}'",
        'Bad message "{}" at 3',
        "messages.0.content: Input should be a list, got\n{}",
    ],
)
def test_a_prompt_that_a_host_repeats_does_not_mislead(echo: str, sentence: str) -> None:
    """Other routers look for "429" or "rate limit" anywhere, and take a question about limits for a limit.

    Ours once closed a stage for a day, for a prompt that asked to try again in 23 hours.
    """
    refused = failed(400, {}, openai(sentence.format(echo)), 0.0)
    verdict = of_fault(refused, "openai")
    assert (verdict.reason, verdict.fault_class) == (Reason.BAD_REQUEST, FaultClass.CALLER)
    broken = failed(500, {}, openai(sentence.format(echo), kind=None), 0.0)
    verdict = of_fault(broken, "ollama")
    assert (verdict.reason, verdict.fault_class) == (Reason.SERVER_ERROR, FaultClass.TRANSIENT)
    assert refused.retry_after_s is broken.retry_after_s is said(openai(sentence.format(echo))).retry_after_s is None


def test_only_400_and_422_can_be_the_callers_fault_and_no_page_ever_is() -> None:
    """One wrong setting would otherwise end every job at the first stage."""
    page = Words(("invalid_request_error",), PAGE, number=400, html=True)
    for status in range(100, 1000):
        assert all(of_fault(failed(status, {}, body, 0.0)).consequences.goes_on for body in ("", PAGE, "text", "{}"))
        assert of_fault(Fault(Kind.STATUS, status=status, words=page)).consequences.goes_on
        formed = of_fault(failed(status, {}, openai("no"), 0.0))
        assert formed.consequences.goes_on is (status not in {400, 422})


def test_every_class_has_its_consequences_and_the_last_rule_takes_whatever_is_left() -> None:
    """A kind that no rule knows must not end in an exception."""
    assert set(CONSEQUENCES) == set(FaultClass)
    assert [name for name, what in CONSEQUENCES.items() if not what.goes_on] == [FaultClass.CALLER]
    assert all(RULES[-1].matches(Fault(kind), "") for kind in Kind)


@pytest.mark.parametrize("text", ["'s's", "'s.a", "'s '", "a 'a' ", "Error: ", "a: ", "AError", "seed a b "])
def test_no_text_keeps_the_judge_busy(text: str) -> None:
    """One of quotes and letters once took a pattern that could read it in two ways more than ten minutes."""
    fault = failed(400, {}, openai(text * 500, kind=None), 0.0)
    assert of_fault(fault).reason in {Reason.BAD_REQUEST, Reason.UNSUPPORTED}
