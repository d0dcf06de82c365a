"""A job's record and ledger as the one object that is shown, and as the lines a person reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffel_wire.errors import UNANSWERED
from staffel_wire.record import ENDED, as_object, handoff, line, pairs, place, story, total_cost, unanswered
from worker.failover.answer import Answer
from worker.failover.answer import Status as JobStatus
from worker.failover.attempt import Attempt, Outcome, Reason, Usage

SUBMITTED = 1_700_000_000_000
"""Server milliseconds; 2023-11-14T22:13:20Z."""

FAILED = Attempt(
    n=1, of=3, stage="primary", model="gpt-4.1", outcome=Outcome.FAILED, reason=Reason.SERVER_ERROR, status=500,
    started_at=SUBMITTED / 1000 + 0.01, duration_s=0.0204, cost_usd=0.0, worker="cloud@host",
    detail="No room.",
)  # fmt: skip
SKIPPED = Attempt(n=2, of=3, stage="backup", model="other", outcome=Outcome.SKIPPED, reason=Reason.DEADLINE, cost_usd=0)
ANSWERED = Attempt(
    n=3, of=3, stage="local", model="small", outcome=Outcome.ANSWERED, status=200, started_at=SUBMITTED / 1000 + 0.05,
    duration_s=0.5504, first_token_s=0.1006, completed=True, committed=True, retry_after_s=None,
    usage=Usage(12, 47), cost_usd=0.25, worker="ollama@host",
)  # fmt: skip
ANSWER = Answer("Because.", "local", "stop", truncated=False, usage=Usage(12, 47))


def ledger(*rows: Attempt) -> dict[str, str]:
    return {str(row.n): json.dumps(row.as_record()) for row in rows}


def record(status: str, **more: object) -> dict[str, str]:
    fields: dict[str, object] = {
        "status": status,
        "submitted_at": SUBMITTED,
        "enqueued_at": SUBMITTED,
        "queued_ms": 10,
        **more,
    }
    return {name: str(value) for name, value in fields.items()}


def answered(*rows: Attempt) -> dict[str, Any]:
    answer = json.dumps({"text": "Because.", "stage": "local", "finish_reason": "stop", "truncated": False,
                         "usage": {"input_tokens": 12, "output_tokens": 47, "reasoning_tokens": 0}})  # fmt: skip
    found = record("answered", ended_at=SUBMITTED + 610, answer=answer)
    return as_object("j", found, ledger(*rows), now_ms=SUBMITTED + 9999)


def test_the_object_is_the_one_of_the_design_key_for_key() -> None:
    """Its order too: people read it, and compare it line by line."""
    found = answered(ANSWERED, FAILED)
    assert list(found) == [
        "job", "status", "text", "stage", "finish_reason", "truncated", "usage", "cost_usd", "queued_s", "duration_s",
        "retry_at", "parked_for", "position", "follows", "why", "priority", "attempts",
    ]  # fmt: skip
    attempt = found.pop("attempts")[0]
    assert found == {
        "job": "j", "status": "answered", "text": "Because.", "stage": "local", "finish_reason": "stop",
        "truncated": False, "usage": {"input_tokens": 12, "output_tokens": 47, "reasoning_tokens": 0},
        "cost_usd": 0.25, "queued_s": 0.01, "duration_s": 0.61, "retry_at": None,
        "parked_for": None, "position": None, "follows": None, "why": None, "priority": "interactive",
    }  # fmt: skip
    assert list(attempt.items()) == [
        ("n", 1), ("of", 3), ("stage", "primary"), ("model", "gpt-4.1"), ("outcome", "failed"),
        ("reason", "server_error"), ("status", 500), ("started_at", "2023-11-14T22:13:20.010Z"),
        ("duration_s", 0.02), ("first_token_s", None), ("completed", False), ("committed", False),
        ("retry_after_s", None), ("usage", None), ("cost_usd", 0.0), ("worker", "cloud@host"), ("detail", "No room."),
    ]  # fmt: skip


def test_the_attempts_are_in_their_order_whatever_the_ledgers_is() -> None:
    """A hash has none; the tenth attempt comes after the ninth."""
    rows = [Attempt(n=n, of=12, stage="s", model="m", outcome=Outcome.FAILED) for n in (10, 2, 12, 9)]
    assert [row["n"] for row in answered(*rows)["attempts"]] == [2, 9, 10, 12]


def test_a_waiting_jobs_time_in_the_queue_grows() -> None:
    """What it waited before a handoff counts as well."""
    found = as_object("j", record("queued", queued_ms=500, enqueued_at=SUBMITTED + 700), {}, SUBMITTED + 1000)
    assert (found["queued_s"], found["duration_s"], found["status"]) == (0.8, 1.0, "queued")
    assert (found["text"], found["stage"], found["attempts"], found["cost_usd"]) == (None, None, [], 0.0)


PARKED = record("parked", queued_ms=500, enqueued_at=SUBMITTED + 700, parked_for="primary", retry_at=SUBMITTED + 3_500)


def test_a_parked_job_says_for_what_and_until_when() -> None:
    """Its time in the waiting room is time in queues. The instant is the first known one, rounded up for a person."""
    found = as_object("j", PARKED, ledger(FAILED), SUBMITTED + 1000)
    assert (found["status"], found["parked_for"], found["retry_at"]) == (
        "parked",
        "primary",
        "2023-11-14T22:13:23.500Z",
    )
    assert found["queued_s"] == 0.8
    assert line(found) == "1 failed → parked for primary until 22:13:24Z"


@pytest.mark.parametrize("status", ["queued", "running", "answered", "expired"])
def test_a_job_that_goes_on_or_has_ended_is_no_longer_parked(status: str) -> None:
    """Whatever its record still holds."""
    found = as_object("j", {**PARKED, "status": status}, {}, SUBMITTED + 1000)
    assert (found["parked_for"], found["retry_at"]) == (None, None)


def test_an_exhausted_job_says_from_when_it_may_be_asked_again() -> None:
    """In its error as well, as an instant and in its text; not where no stage will be asked again."""
    found = as_object("j", record("exhausted", retry_at=SUBMITTED + 3_500), ledger(FAILED), SUBMITTED + 1000)
    assert (found["retry_at"], line(found)) == ("2023-11-14T22:13:23.500Z", "1 failed → exhausted")
    error = unanswered(found)
    assert error.retry_at == "2023-11-14T22:13:23.500Z"
    assert str(error) == (
        "exhausted: primary server_error (500) 0.0 s (No room.); may be asked again from 2023-11-14T22:13:24Z"
    )
    assert unanswered(as_object("j", record("exhausted"), {}, SUBMITTED)).retry_at is None


def test_a_job_that_nobody_knows_is_shown_as_unknown() -> None:
    """The record has expired, or never was."""
    found = as_object("j", {}, {}, SUBMITTED)
    assert (found["status"], found["duration_s"], found["queued_s"], found["attempts"]) == ("unknown", 0, 0, [])


@pytest.mark.parametrize(
    ("costs", "total"),
    [
        ([], 0.0),
        ([("failed", 0.0), ("answered", 0.1), ("unknown", 0.2)], 0.3),
        ([("failed", None), ("answered", 0.1)], None),
        ([("failed", 0.1), ("started", None)], 0.1),
    ],
)
def test_one_unknown_cost_makes_the_total_unknown(costs: list[tuple[str, float | None]], total: float | None) -> None:
    """It is never taken for nothing; a call under way has none yet."""
    assert total_cost([{"outcome": outcome, "cost_usd": cost} for outcome, cost in costs]) == total


def test_a_hash_is_read_flat_or_as_pairs() -> None:
    """A script returns it flat, the other protocol as a mapping."""
    assert pairs(["a", "1", "b", "2"]) == pairs({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}


def test_a_person_reads_one_line_of_a_job() -> None:
    """What failed, what was passed over, and what it came to."""
    assert line(answered(FAILED, SKIPPED, ANSWERED)) == "1 failed, 1 skipped → local 0.6 s"
    assert line(answered(ANSWERED)) == "local 0.6 s"
    for status in sorted(UNANSWERED):
        ended = record(status, ended_at=SUBMITTED + 1)
        assert line(as_object("j", ended, {}, SUBMITTED)) == status
        assert line(as_object("j", ended, ledger(FAILED), SUBMITTED)) == f"1 failed → {status}"


def test_an_answer_is_told_without_its_ledger() -> None:
    """Where `ledger_ttl` is the shorter one the attempts go first, and the line ended in an IndexError."""
    assert line(answered()) == "local 0.6 s"


def test_the_story_says_what_each_stage_did() -> None:
    """It is the one string of the error that a job without an answer raises."""
    crashed = Attempt(n=4, of=4, stage="last", model="m", outcome=Outcome.UNKNOWN, reason=Reason.CRASHED)
    told = story(answered(FAILED, SKIPPED, ANSWERED, crashed)["attempts"])
    assert told == (
        "primary server_error (500) 0.0 s (No room.); backup skipped: deadline; "
        "local answered 0.6 s; last crashed 0.0 s"
    )
    assert story([]) == "no stage was asked"


@pytest.mark.parametrize("status", sorted(UNANSWERED))
def test_a_job_without_an_answer_is_an_error_of_its_own(status: str) -> None:
    """It carries the story, the job and its attempts."""
    error = unanswered(as_object("j", record(status), ledger(FAILED), SUBMITTED))
    assert type(error) is UNANSWERED[status]
    assert str(error) == f"{status}: primary server_error (500) 0.0 s (No room.)"
    assert (error.job, [row["stage"] for row in error.attempts]) == ("j", ["primary"])


def test_the_ends_of_a_job_are_the_engines() -> None:
    """The package on the wire imports no worker, so the words are written twice."""
    assert {str(status) for status in JobStatus} - {"queued", "running", "parked"} == ENDED


PLACE = {"lane": "ollama", "place": 4, "of": 17, "eta_s": 38.0, "eta_from_s": 30.2, "eta_to_s": 46.9}


def test_a_waiting_job_says_where_it_stands() -> None:
    """In Flower too, when it is handed on: what has failed, what it waits for, and for how long."""
    found = as_object("j", record("queued"), ledger(FAILED, SKIPPED), SUBMITTED, PLACE)
    assert found["position"] == PLACE
    assert line(found) == "1 failed, 1 skipped → queued: 4th of 17 on ollama, about 38 s (30 s to 47 s)"
    assert handoff(found, "local") == (
        "1 failed, 1 skipped → waits for local: 4th of 17 on ollama, about 38 s (30 s to 47 s)"
    )
    nowhere = as_object("j", record("queued"), ledger(FAILED), SUBMITTED)
    assert (line(nowhere), handoff(nowhere, "local")) == ("1 failed → queued", "1 failed → waits for local")


@pytest.mark.parametrize(
    ("n", "of", "times", "said"),
    [
        (1, 1, (0.4, None, None), "1st of 1 on ollama, about 1 s"),
        (2, 9, (None, None, None), "2nd of 9 on ollama"),
        (3, 9, (5.0, 4.0, 6.5), "3rd of 9 on ollama, about 5 s (4 s to 7 s)"),
        (11, 12, (None, None, None), "11th of 12 on ollama"),
        (112, 113, (None, None, None), "112th of 113 on ollama"),
        (121, 122, (300.0, 250.0, 7300.0), "121st of 122 on ollama, about 5 min (4 min to 2 h 2 min)"),
    ],
)
def test_a_place_is_said_as_a_person_would(
    n: int, of: int, times: tuple[float | None, float | None, float | None], said: str
) -> None:
    """What is not known is not said; times in units that a person counts in."""
    about, low, high = times
    found = {"lane": "ollama", "place": n, "of": of, "eta_s": about, "eta_from_s": low, "eta_to_s": high}
    assert place(found) == said
