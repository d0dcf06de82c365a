"""What a walk may rely on, whichever member keeps the state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worker.state.books import EPOCH, Book
from worker.failover.answer import Answer, Status
from worker.failover.attempt import Attempt, Outcome, Reason, Usage
from worker.failover.state import Admission, Elsewhere, Over, Permit, Settlement, Taken, Visit

ONE = Visit("j", "cloud", "cloud/one/1", "one@host")
TWO = Visit("j", "cloud", "cloud/two/2", "two@host")
LANE = Visit("j", "ollama", "ollama/three/3", "three@host")
ANSWER = Answer("Weil’s so ist. 😀", "a", "stop", truncated=False, usage=Usage(12, 47, 5))


def permit(admission: Admission) -> Permit:
    assert isinstance(admission, Permit), admission
    return admission


def over(admission: Admission) -> Over:
    assert isinstance(admission, Over), admission
    return admission


def failed(admitted: Permit, seconds: float = 0.5) -> Attempt:
    """What a walk settles after a call that brought a 500."""
    return Attempt(
        n=admitted.n, of=admitted.of, stage=admitted.stage, model=f"m-{admitted.stage}", outcome=Outcome.FAILED,
        reason=Reason.SERVER_ERROR, status=500, started_at=admitted.started_at, duration_s=seconds, cost_usd=0.0,
        worker=admitted.visit.worker,
    )  # fmt: skip


def answered(admitted: Permit) -> Attempt:
    usage = Usage(12, 47, 5)
    return replace(failed(admitted), outcome=Outcome.ANSWERED, reason=None, status=200, first_token_s=0.25,
                   completed=True, committed=True, usage=usage, cost_usd=0.000123)  # fmt: skip


def told(book: Book) -> list[tuple[int, str, str, str | None]]:
    return [(row["n"], row["stage"], row["outcome"], row["reason"]) for row in book.view()["attempts"]]


def test_the_first_admit_claims_the_job_and_brings_its_request(book: Book) -> None:
    """With all that an attempt is written from; a later one of the same delivery brings no request again."""
    book.submit("a", "home", "kept", deadline=90)
    book.tick(1.5)
    first = permit(book.admit(ONE))
    assert first == Permit(
        replace(ONE, fence=1), "a", 0, 1, 3, 88.5, 30, EPOCH + 1.5, ("a", "home", "kept"), first.request
    )
    assert first.request is not None
    assert first.request["prompt"] == "Why?"
    book.tick(2)
    assert book.settle(first, failed(first)) is None
    second = permit(book.admit(first.visit))
    assert (second.stage, second.place, second.n, second.left_s, second.kept_s) == ("home", 1, 2, 86.5, 20)
    assert (second.request, second.visit) == (None, first.visit)


def test_a_job_under_way_shows_the_call_that_runs(book: Book) -> None:
    """As `staffel show` does it."""
    book.submit("a", "b")
    book.tick(3)
    book.admit(ONE)
    book.tick(4)
    shown = book.view()
    assert (shown["status"], shown["queued_s"], shown["duration_s"], shown["text"]) == ("running", 3, 7, None)
    assert told(book) == [(1, "a", "started", None)]
    assert shown["attempts"][0]["worker"] == "one@host"
    assert shown["attempts"][0]["started_at"] == "2023-11-14T22:13:23.000Z"


def test_an_answer_ends_the_job_with_all_that_is_known_of_it(book: Book) -> None:
    """Every field of the attempt comes back as it was written, characters beyond ASCII too."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    book.tick(1)
    view = book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert view is not None
    assert (view.status, view.ended) == (Status.ANSWERED, True)
    assert view.shown == book.view() == {
        "job": "j", "status": "answered", "text": "Weil’s so ist. 😀", "stage": "a", "finish_reason": "stop",
        "truncated": False, "usage": {"input_tokens": 12, "output_tokens": 47, "reasoning_tokens": 5},
        "cost_usd": 0.000123, "queued_s": 0, "duration_s": 1,
        "retry_at": None, "parked_for": None, "position": None, "follows": None, "why": None,
        "priority": "interactive",
        "attempts": [
            {"n": 1, "of": 2, "stage": "a", "model": "m-a", "outcome": "answered", "reason": None, "status": 200,
             "started_at": "2023-11-14T22:13:20.000Z", "duration_s": 0.5, "first_token_s": 0.25, "completed": True,
             "committed": True, "retry_after_s": None,
             "usage": {"input_tokens": 12, "output_tokens": 47, "reasoning_tokens": 5},
             "cost_usd": 0.000123, "worker": "one@host", "detail": None},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("end", [Status.EXHAUSTED, Status.REFUSED, Status.EXPIRED, Status.CANCELLED])
def test_an_end_without_an_answer_is_as_final(book: Book, end: Status) -> None:
    """What is admitted afterwards is told the end, and the request is gone."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    assert book.holds_request()
    view = book.settle(first, failed(first), end)
    assert view is not None
    assert view.status is end
    assert not book.holds_request()
    for visit in (first.visit, TWO, LANE):
        assert over(book.admit(visit)).view.shown == view.shown


@pytest.mark.parametrize("last", [Status.EXHAUSTED, Status.EXPIRED])
def test_a_plan_that_has_no_further_stage_ends_with_its_last_settlement(book: Book, last: Status) -> None:
    """The walk does not know whether a stage that was passed over is left to it; it says how the job ends if not.

    A job stayed open here until it was admitted once more, a round trip for nothing.
    """
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    assert book.settled(first, failed(first), Settlement(last=last)).view is None
    second = permit(book.admit(first.visit))
    ended = book.settled(second, failed(second), Settlement(last=last)).view
    assert ended is not None
    assert ended.status is last
    assert over(book.admit(first.visit)).view == ended


def test_a_job_expires_at_its_deadline(book: Book) -> None:
    """Not a millisecond earlier, and whether it waited or was under way."""
    book.submit("a", "b", deadline=30)
    book.tick(29.999)
    first = permit(book.admit(ONE))
    assert first.left_s == 0.001
    book.settle(first, failed(first))
    book.tick(0.001)
    assert over(book.admit(first.visit)).view.status is Status.EXPIRED


def test_stages_that_cannot_run_are_written_down_on_the_way(book: Book) -> None:
    """One row each, numbered with the others, free of charge, without a duration."""
    book.submit("a", "gone", "home", "b", local_only=True)
    first = permit(book.admit(ONE))
    assert (first.stage, first.place, first.n) == ("home", 2, 3)
    assert told(book) == [
        (1, "a", "skipped", "local_only"),
        (2, "gone", "skipped", "unsupported"),
        (3, "home", "started", None),
    ]
    skipped = book.view()["attempts"][1]
    assert (skipped["cost_usd"], skipped["duration_s"], skipped["model"], skipped["status"]) == (0, 0, "", None)
    book.settle(first, failed(first))
    assert over(book.admit(first.visit)).view.status is Status.EXHAUSTED
    assert told(book)[-1] == (4, "b", "skipped", "local_only")


def test_a_reserve_keeps_time_and_has_a_stage_skipped_that_it_leaves_none(book: Book) -> None:
    """To the millisecond; the reserve of a stage that will be skipped itself counts for nothing."""
    book.submit("a", "home", "kept", deadline=30.001)
    assert permit(book.admit(ONE)).kept_s == 30
    book.submit("a", "home", "kept", job="k", deadline=30)
    second = permit(book.admit(replace(ONE, job="k")))
    assert (second.stage, second.kept_s) == ("home", 20)
    assert [(row["stage"], row["reason"]) for row in book.view("k")["attempts"]][:1] == [("a", "deadline")]
    book.submit("home", "kept", "gone", job="l", deadline=15, local_only=True)
    assert permit(book.admit(replace(ONE, job="l"))).kept_s == 0


def test_a_stage_of_another_lane_is_told_and_the_job_waits_for_it(book: Book) -> None:
    """The record says so before any message is sent; the wait counts as time in queues."""
    book.submit("a", "lane")
    book.tick(1)
    first = permit(book.admit(ONE))
    book.tick(1)
    book.settle(first, failed(first))
    elsewhere = book.admit(first.visit)
    assert isinstance(elsewhere, Elsewhere)
    assert (elsewhere.lane, elsewhere.stage, elsewhere.view.status) == ("ollama", "lane", Status.QUEUED)
    assert book.holds_request()
    book.tick(5)
    assert book.view()["queued_s"] == 6
    there = permit(book.admit(LANE))
    assert (there.stage, there.n, there.left_s, there.visit.fence) == ("lane", 2, 83, 2)
    assert there.request is not None
    book.tick(1)
    assert book.view()["queued_s"] == 6


def test_a_cancel_ends_a_running_job_at_its_next_step(book: Book) -> None:
    """The attempt under way is settled first; no further stage is admitted."""
    book.submit("a", "b")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    book.cancel()
    assert book.view()["status"] == "running"
    book.settle(first, failed(first))
    assert over(book.admit(first.visit)).view.status is Status.CANCELLED
    assert told(book) == [(1, "a", "failed", "server_error")]


def test_a_cancelled_job_never_starts(book: Book) -> None:
    """Its message is still in the queue when it is."""
    book.submit("a", "b")
    book.cancel()
    assert over(book.admit(ONE)).view.status is Status.CANCELLED
    assert told(book) == []


def test_a_job_that_ends_leaves_no_call_under_way_in_its_ledger(book: Book) -> None:
    """Its worker has died in mid-call, and there is no later stage that would close the row."""
    book.submit("a", deadline=30)
    book.admit(ONE)
    book.tick(30)
    assert over(book.admit(TWO)).view.status is Status.EXPIRED
    assert told(book) == [(1, "a", "unknown", "crashed")]


def test_a_job_without_a_record_is_nobodys(book: Book) -> None:
    """And none is made by asking."""
    assert book.admit(replace(ONE, job="nowhere")) == Taken(known=False)


def test_jobs_do_not_touch_each_other(book: Book) -> None:
    """Records and ledgers are apart, whoever walks them."""
    book.submit("a", job="j")
    book.submit("b", job="k")
    book.born(ONE.owner)
    first, second = permit(book.admit(ONE)), permit(book.admit(replace(ONE, job="k")))
    assert (first.stage, second.stage) == ("a", "b")
    book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert (book.view("j")["status"], book.view("k")["status"]) == ("answered", "running")
    assert len(book.view("k")["attempts"]) == 1
