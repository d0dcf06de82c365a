"""The audit of hand-made ledgers and logs: it keeps quiet of what is well, and finds each kind of broken promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos.audit import Findings, audit
from chaos.evidence import Call, Done, Evidence, Exit, Job, Row, Seen
from chaos.promises import Promise
from chaos.schedule import CLIENT, DELAY, FOREIGN, Kind

MARK = "mark-1-0-"
TEXT = f"say {MARK}"


def row(n: int, stage: str, outcome: str, at: float, took: float = 0.5, **other: Any) -> Row:
    return Row(n, stage, outcome, other.get("reason"), at, took, other.get("worker", "w1"))


def call(stage: str, at: float, took: float | None = 0.5, outcome: str = "served") -> tuple[str, Call]:
    return f"{{'content': '{TEXT}'}}", Call(stage, at, None if took is None else at + took, outcome)


def job(*rows: Row, **other: Any) -> Job:
    given = {
        "id": "j", "mark": MARK, "caller": CLIENT, "chain": "quick", "submitted_at": 0.0, "raised": 0,
        "status": "answered", "text": TEXT, "ended_at": 12.0, "rows": rows, "seen": (Seen("answered", TEXT),),
    }  # fmt: skip
    return Job(**{**given, **other})


def held(*jobs: Job, calls: Sequence[tuple[str, Call]] = (), done: Sequence[Done] = (), **other: Any) -> Findings:
    return audit(Evidence(jobs, calls, done, **other))


def promises(found: Findings) -> list[Promise]:
    return [one.promise for one in found.broken]


ONE = row(1, "first", "answered", 11.0)
GOOD = job(ONE)
KILLED = Done(Kind.KILL, "w1", 5.2, 5.3)
LEFT = row(1, "first", "unknown", 5.0, 0, reason="crashed")


# --- what is well


def test_one_job_one_call() -> None:
    found = held(GOOD, calls=[call("first", 11.01)])
    assert found == Findings([], [], [], [], [])


def test_a_failover_is_two_calls() -> None:
    rows = row(1, "sour", "failed", 10.0, reason="server_error"), row(2, "second", "answered", 11.0)
    assert not held(job(*rows), calls=[call("sour", 10.0), call("second", 11.0)]).broken


def test_a_killed_workers_call_is_unknown_and_told_with_its_fault() -> None:
    again = row(2, "first", "answered", 11.0, worker="w2")
    found = held(job(LEFT, again), calls=[call("first", 5.0, 0.2, "aborted"), call("first", 11.0)], done=[KILLED])
    assert not found.broken
    assert [one.line for one in found.unknown] == [
        "attempt 1 at first by w1 at 5.0 s: the host aborted it; w1 killed at 5.2 s; it went on 5.8 s later"
    ]


def test_a_killed_workers_call_may_never_have_been_sent() -> None:
    again = row(2, "first", "answered", 11.0, worker="w2")
    found = held(job(LEFT, again), calls=[call("first", 11.0)], done=[KILLED])
    assert not found.broken
    assert "no host saw it" in found.unknown[0].line


def test_a_paused_workers_call_may_run_beside_that_of_who_took_over() -> None:
    """It was paused between its row and its call: the host sees it after the other's."""
    again = row(2, "first", "answered", 16.0, worker="w2")
    paused = Done(Kind.PAUSE, "w1", 5.01, 16.2)
    found = held(
        job(LEFT, again, ended_at=16.6), calls=[call("first", 16.05), call("first", 16.25)], done=[paused]
    )  # fmt: skip
    assert not found.broken
    assert len(found.unknown) == len(found.at_once) == 1


def test_a_call_that_a_dead_host_refused_is_in_the_ledger_alone() -> None:
    rows = row(1, "first", "failed", 10.0, 0.01, reason="connect"), row(2, "second", "answered", 11.0)
    refused = Done(Kind.REFUSES, "first", 9.0, 10.5)
    assert not held(job(*rows), calls=[call("second", 11.0)], done=[refused]).broken
    assert promises(held(job(*rows), calls=[call("second", 11.0)])) == [Promise.FAILED]


def test_a_submit_that_never_returned_is_no_job() -> None:
    gone = job(submitted_at=None, status="unknown", text=None, ended_at=None, seen=())
    assert not held(gone).broken


def test_a_foreign_message_that_no_worker_ever_had_is_counted_apart() -> None:
    gone = job(caller=FOREIGN, status="unknown", text=None, ended_at=None, seen=())
    found = held(gone)
    assert (found.broken, found.vanished) == ([], ["j"])


def test_a_follower_shares_the_call_of_the_job_that_it_follows() -> None:
    """Its ledger, where it shows one, is the other's."""
    follower = job(ONE, id="k", follows="j")
    assert not held(GOOD, follower, calls=[call("first", 11.01)]).broken


def test_celery_may_say_the_same() -> None:
    asked = replace(GOOD, caller=DELAY, celery={"status": "SUCCESS", "result": {"text": TEXT}})
    assert not held(asked, calls=[call("first", 11.01)]).broken


# --- what is broken


@pytest.mark.parametrize("status", ["running", "queued", "parked", "unknown"])
def test_lost(status: str) -> None:
    lost = job(status=status, text=None, ended_at=None, seen=())
    assert promises(held(lost)) == [Promise.NOT_LOST]


def test_a_foreign_job_is_lost_once_a_worker_had_it_or_while_its_message_waits() -> None:
    had = job(caller=FOREIGN, status="running", text=None, ended_at=None, seen=())
    waits = replace(had, status="unknown", waits=True)
    assert promises(held(had)) == promises(held(waits)) == [Promise.NOT_LOST]


def test_expired() -> None:
    assert promises(held(job(status="expired", text=None, seen=()))) == [Promise.IN_TIME]


def test_answered_twice() -> None:
    rows = row(1, "first", "answered", 11.0), row(2, "second", "answered", 11.6, 0.3)
    assert promises(held(job(*rows), calls=[call("first", 11.0), call("second", 11.6, 0.3)])) == [Promise.ONCE]


def test_an_answer_that_is_in_the_ledger_alone() -> None:
    """Its worker was taken for dead, and settled its call when the job had ended without it."""
    other = replace(GOOD, status="exhausted", text=None, seen=())
    assert promises(held(other, calls=[call("first", 11.0)])) == [Promise.KEPT]


def test_an_answer_that_no_attempt_gave() -> None:
    assert promises(held(job())) == [Promise.KEPT]


def test_another_jobs_answer() -> None:
    found = held(job(ONE, text="say mark-1-1-", seen=()), calls=[call("first", 11.0)])
    assert promises(found) == [Promise.ONCE]


def test_an_end_that_does_not_stay() -> None:
    seen = Seen("expired", None), Seen("answered", TEXT)
    assert promises(held(replace(GOOD, seen=seen), calls=[call("first", 11.0)])) == [Promise.STAYS]


@pytest.mark.parametrize(
    "told", [None, {"status": "STARTED"}, {"status": "FAILURE"}, {"status": "SUCCESS", "result": {"text": "x"}}]
)
def test_celery_says_something_else(told: dict[str, Any] | None) -> None:
    asked = replace(GOOD, caller=DELAY, celery=told)
    assert promises(held(asked, calls=[call("first", 11.0)])) == [Promise.CELERY]


def test_a_recorded_reply_is_asked_for_again() -> None:
    """A second row or none: what counts is that the host was asked after the answer had been recorded."""
    found = held(GOOD, calls=[call("first", 11.0), call("first", 14.0)])
    assert promises(found) == [Promise.UNACCOUNTED, Promise.NOT_AGAIN]
    late = job(ONE, row(2, "first", "unknown", 14.0, 0, worker="w2"))
    found = held(late, calls=[call("first", 11.0), call("first", 14.0)], done=[Done(Kind.KILL, "w2", 14.1, 14.2)])
    assert promises(found) == [Promise.NOT_AGAIN]


def test_a_stage_whose_failure_was_recorded_is_asked_again() -> None:
    rows = (
        row(1, "sour", "failed", 9.0, reason="server_error"), row(2, "sour", "failed", 10.0, reason="server_error"),
        row(3, "second", "answered", 11.0),
    )  # fmt: skip
    calls = [call("sour", 9.0), call("sour", 10.0), call("second", 11.0)]
    assert promises(held(job(*rows), calls=calls)) == [Promise.NOT_AGAIN]


def test_a_throttled_stage_may_be_asked_again() -> None:
    rows = row(1, "sour", "failed", 9.0, reason="throttled"), row(2, "sour", "answered", 11.0)
    assert not held(job(*rows), calls=[call("sour", 9.0), call("sour", 11.0)]).broken


def test_a_call_that_no_ledger_knows() -> None:
    found = held(GOOD, calls=[call("second", 10.0), call("first", 11.0)])
    assert promises(found) == [Promise.UNACCOUNTED]


def test_an_attempt_that_no_host_saw() -> None:
    assert promises(held(GOOD)) == [Promise.UNACCOUNTED]


def test_a_row_that_still_runs_when_its_job_has_ended() -> None:
    found = held(job(row(1, "first", "started", 9.0, 0), row(2, "first", "answered", 11.0)),
                 calls=[call("first", 9.0, 0.1), call("first", 11.0)])  # fmt: skip
    assert promises(found) == [Promise.UNACCOUNTED]


@pytest.mark.parametrize(
    "done",
    [(), (Done(Kind.KILL, "w2", 5.2, 5.3),), (Done(Kind.KILL, "w1", 2.0, 2.1),), (Done(Kind.KILL, "w1", 30, 31),)],
)
def test_unknown_by_no_fault(done: Sequence[Done]) -> None:
    """None at all, another worker's, one that was over, one that came later."""
    again = row(2, "first", "answered", 11.0, worker="w2")
    found = held(job(LEFT, again), calls=[call("first", 5.0, 0.2), call("first", 11.0)], done=done)
    assert promises(found) == [Promise.UNEXPLAINED]


def test_drained_by_no_drain() -> None:
    again = row(2, "first", "answered", 11.0, worker="w2")
    drained = replace(LEFT, reason="drained")
    calls = [call("first", 5.0, 0.2), call("first", 11.0)]
    assert promises(held(job(drained, again), calls=calls, done=[KILLED])) == [Promise.UNEXPLAINED]
    found = held(job(drained, again), calls=calls, done=[KILLED, Done(Kind.DRAIN, "w1", 4.0, 7.0)])
    assert not found.broken
    assert "told to end" in found.unknown[0].line


def test_failed_by_no_fault() -> None:
    rows = row(1, "first", "failed", 10.0, 0.5, reason="server_error"), row(2, "second", "answered", 11.0)
    calls = [call("first", 10.0), call("second", 11.0)]
    assert promises(held(job(*rows), calls=calls)) == [Promise.FAILED]
    assert not held(job(*rows), calls=calls, done=[Done(Kind.ERRORS, "first", 9.0, 10.2)]).broken


def test_two_calls_at_once() -> None:
    rows = row(1, "sour", "failed", 10.0, 2.0, reason="timeout"), row(2, "second", "answered", 11.0)
    found = held(job(*rows), calls=[call("sour", 10.0, 2.0), call("second", 11.0)])
    assert promises(found) == [Promise.ONE_AT_ONCE]


def test_two_jobs_of_one_key_are_asked_twice() -> None:
    other = job(row(1, "first", "answered", 11.1, worker="w2"), id="k")
    found = held(GOOD, other, calls=[call("first", 11.0), call("first", 11.1)])
    assert set(promises(found)) == {Promise.ONCE, Promise.ONE_AT_ONCE}


def test_what_is_left_over_and_who_died_by_itself() -> None:
    found = held(leftovers=["staffel:unacked (hash of 1) is not empty"], stuck=["w1 did not end"])
    assert promises(found) == [Promise.LEFT_OVER, Promise.WORKER]
    gone = Exit("w1", 5.0, 8.0, 1, ready=True, last="Unrecoverable error")
    assert promises(held(exits=[gone], done=[Done(Kind.VALKEY, "valkey", 7.0, 8.0)])) == [Promise.WORKER]


def test_a_worker_need_not_start_while_valkey_is_away() -> None:
    gone = Exit("w1", 5.0, 6.0, 6, ready=False, last="no Redis")
    found = held(exits=[gone], done=[Done(Kind.VALKEY, "valkey", 4.0, 5.5)])
    assert (found.broken, found.starts) == ([], ["w1 at 5.0 s: valkey Valkey killed at 4.0 s for 1.5 s"])
    assert promises(held(exits=[gone], done=[Done(Kind.CUT, "w2", 4.0, 5.5)])) == [Promise.WORKER]


# --- the lane


def test_calls_of_the_lane_one_after_the_other() -> None:
    assert not held(calls=[call("local", 1.0), call("local", 1.5), call("first", 1.2)]).broken


@pytest.mark.parametrize("second", [call("local", 1.4), ("no job's", Call("local", 1.4, 1.5, "served"))])
def test_two_calls_of_the_lane_at_once(second: tuple[str, Call]) -> None:
    found = held(calls=[call("local", 1.0), second, call("local", 2.0)])
    assert promises(found) == [Promise.LANE]
    assert found.broken[0].line == "a call at 1.40 s beside one of 1.00 s, which lasted until 1.50 s"
