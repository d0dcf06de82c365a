"""When all workers together leave a stage alone, and how they come back to it, whichever member keeps the state.

Stage `a` has the breaker that a stage has which says nothing of it: 5 in a row, or half of 5 calls in 10 s; 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.limits import Breaker
from tests.worker.state.books import STAGES, Book
from tests.worker.state.calls import admit, answers, ask, fails, lets, settle, skips, visit
from tests.worker.state.test_contract import permit
from worker.failover.attempt import Reason
from worker.failover.state import Admission, Elsewhere, Permit


def broken(book: Book) -> None:
    """Five calls fail, and the stage is open from now on."""
    fails(book, *(ask(book, "a", "b") for _ in range(5)))


def probe(book: Book, owner: str = "one", job: str = "") -> Permit:
    admitted = ask(book, "a", "b", job=job, owner=owner)
    assert (admitted.stage, admitted.probe) == ("a", True)
    return admitted


def test_a_stage_that_fails_five_times_in_a_row_is_left_alone(book: Book) -> None:
    """Of any age: five calls in ten seconds never happen where one call takes a minute."""
    for number in range(5):
        assert lets(book, "a"), number
        fails(book, ask(book, "a", "b"))
        book.tick(61)
    book.tick(-61)
    admitted = ask(book, "a", "b", job="next")
    assert (admitted.stage, admitted.probe) == ("b", False)
    assert skips(book, "next") == [("a", "breaker_open")]


def test_half_of_the_calls_of_the_last_seconds_are_enough(book: Book) -> None:
    """A host that answers every other call never fails five times in a row."""
    for number in range(4):
        called = ask(book, "a", "b")
        answers(book, called) if number % 2 else fails(book, called)
        book.tick(1)
    assert lets(book, "a"), "four calls are too few to tell"
    fails(book, ask(book, "a", "b"))
    assert not lets(book, "a")


def test_what_is_older_than_the_window_is_forgotten(book: Book) -> None:
    """Two bad minutes apart are no outage."""
    fails(book, *(ask(book, "a", "b") for _ in range(4)))
    answers(book, ask(book, "a", "b"))
    book.tick(10)
    fails(book, ask(book, "a", "b"))
    assert lets(book, "a")


def test_an_open_stage_is_asked_by_one_probe_when_its_time_is_over(book: Book) -> None:
    """By one in the whole cluster: a host that is coming up again is not run over."""
    broken(book)
    book.tick(29.999)
    assert not lets(book, "a")
    book.tick(0.001)
    probe(book)
    assert ask(book, "a", "b", job="other", owner="two").stage == "b"
    assert skips(book, "other") == [("a", "breaker_open")]


def test_a_probe_that_works_closes_the_stage_and_all_is_forgotten(book: Book) -> None:
    """Else the failures of before would open it at the next one."""
    broken(book)
    book.tick(30)
    answers(book, probe(book))
    fails(book, *(ask(book, "a", "b") for _ in range(4)))
    assert lets(book, "a"), "four in a row, four of four: not enough"


def test_a_probe_that_fails_doubles_the_time_and_one_that_works_sets_it_back(book: Book) -> None:
    """A host that is away for hours is not asked twice a minute, nor one that is back once in five."""
    broken(book)
    for seconds in (30, 60, 120, 240, 300, 300):
        book.tick(seconds - 0.001)
        assert not lets(book, "a"), seconds
        book.tick(0.001)
        fails(book, probe(book))
    book.tick(300)
    answers(book, probe(book))
    broken(book)
    book.tick(30)
    probe(book)


def test_late_results_change_nothing(book: Book) -> None:
    """Of calls that were admitted before the stage opened: they tell of the time before."""
    late = [ask(book, "a", "b") for _ in range(4)]
    broken(book)
    book.tick(10)
    answers(book, late[0])
    assert not lets(book, "a"), "it is not closed by it"
    fails(book, late[1])
    settle(book, late[2], Reason.THROTTLED, throttled=True, closed_s=500)
    book.tick(20)
    answers(book, probe(book))
    fails(book, late[3], *(ask(book, "a", "b") for _ in range(4)))
    assert lets(book, "a"), "nor do they count once it is closed again"


def test_a_worker_that_dies_with_the_probe_leaves_it_to_the_next(book: Book) -> None:
    """At once when it is known to be dead; its late result changes nothing."""
    broken(book)
    book.tick(30)
    lost = probe(book)
    book.dies(lost.visit.owner)
    answers(book, probe(book, owner="two"))
    assert lets(book, "a")
    broken(book)
    fails(book, lost)
    book.tick(30)
    probe(book, owner="two")


def test_a_probe_is_leased_for_as_long_as_its_call_may_take(book: Book) -> None:
    """And ten seconds: a worker may live and have lost it."""
    broken(book)
    book.tick(30)
    probe(book)
    book.tick(60 + 9.999)
    assert not lets(book, "a")
    book.tick(0.001)
    lost = probe(book, owner="two")
    book.tick(70)
    probe(book, owner="three")
    answers(book, lost)
    assert ask(book, "a", "b").stage == "b", "who has lost its lease judges nothing"


@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.BAD_REQUEST, Reason.TOO_LONG])
def test_a_probe_that_tells_nothing_is_given_back(book: Book, reason: Reason) -> None:
    """The next job finds out."""
    broken(book)
    book.tick(30)
    settle(book, probe(book), reason)
    answers(book, probe(book))


def test_a_probe_whose_grant_was_lost_is_granted_again(book: Book) -> None:
    """To the same visit, and no other gets one in between."""
    broken(book)
    book.tick(30)
    first = probe(book, job="lost")
    again = permit(book.admit(first.visit))
    assert (again.stage, again.probe, again.n) == ("a", True, first.n)
    answers(book, again)
    assert lets(book, "a")


def test_the_callers_faults_and_what_does_not_fit_never_count(book: Book) -> None:
    """One caller with a wrong request would close a stage for all."""
    for reason in (Reason.BAD_REQUEST, Reason.TOO_LONG, Reason.FILTERED, Reason.CANCELLED) * 5:
        settle(book, ask(book, "a", "b"), reason)
    assert lets(book, "a")


def test_answers_that_are_too_slow_count_as_failures(book: Book) -> None:
    """The walk says so of them; the job is answered all the same."""
    answers(book, *(ask(book, "a", "b") for _ in range(5)), failed=True)
    assert not lets(book, "a")


def test_a_stage_is_not_asked_before_the_time_that_it_named(book: Book) -> None:
    """Every worker passes it over, with the reason in the ledger, and all ask it again when the time has come."""
    settle(book, ask(book, "a", "b"), Reason.THROTTLED, throttled=True, closed_s=7)
    assert ask(book, "a", "b", job="early").stage == "b"
    assert skips(book, "early") == [("a", "throttled")]
    book.tick(6.999)
    assert not lets(book, "a")
    book.tick(0.001)
    several = [ask(book, "a", "b") for _ in range(3)]
    assert [(one.stage, one.probe) for one in several] == [("a", False)] * 3


def test_the_later_of_two_times_counts(book: Book) -> None:
    """Replies of calls under way come in any order: a shorter wait heard later opens nothing."""
    first, second = ask(book, "a", "b"), ask(book, "a", "b")
    settle(book, first, Reason.OVERLOADED, failed=True, closed_s=30)
    settle(book, second, Reason.OVERLOADED, failed=True, closed_s=5)
    book.tick(10)
    assert ask(book, "a", "b", job="next").stage == "b"
    assert skips(book, "next") == [("a", "overloaded")]


def test_a_stage_that_throttles_and_names_no_time_is_asked_less_and_less(book: Book) -> None:
    """2 s, doubled up to a minute; replies to calls of one moment are one, and a success sets it back."""
    for seconds in (2, 4, 8, 16, 32, 60, 60):
        for called in [ask(book, "a", "b") for _ in range(3)]:
            settle(book, called, Reason.THROTTLED, throttled=True)
        book.tick(seconds - 0.001)
        assert not lets(book, "a"), seconds
        book.tick(0.001)
    answers(book, ask(book, "a", "b"))
    settle(book, ask(book, "a", "b"), Reason.THROTTLED, throttled=True)
    book.tick(2)
    assert lets(book, "a")


def test_a_fault_that_needs_a_person_opens_at_the_first_sight(book: Book) -> None:
    """For a quarter of an hour, loud once; then one call finds out whether somebody has mended it."""
    first, second = ask(book, "a", "b"), ask(book, "a", "b")
    assert settle(book, first, Reason.MODEL_MISSING, permanent=True, loud=True).alarm
    assert not settle(book, second, Reason.MODEL_MISSING, permanent=True, loud=True).alarm
    book.tick(899.999)
    assert ask(book, "a", "b", job="next").stage == "b"
    assert skips(book, "next") == [("a", "model_missing")]
    book.tick(0.001)
    answers(book, probe(book))
    assert lets(book, "a")


def test_credit_that_comes_back_at_a_named_time_is_waited_for_until_then(book: Book) -> None:
    """The host knows its month; nobody asks in vain for it."""
    settle(book, ask(book, "a", "b"), Reason.QUOTA, permanent=True, closed_s=3600)
    book.tick(3599)
    assert not lets(book, "a")
    book.tick(1)
    probe(book)


@pytest.mark.parametrize(
    ("reason", "lesson", "shared"),
    [
        (Reason.THROTTLED, {"throttled": True, "closed_s": 60.0}, True),
        (Reason.THROTTLED, {"throttled": True}, True),
        (Reason.OVERLOADED, {"throttled": True, "closed_s": 60.0}, False),
        (Reason.OVERLOADED, {"failed": True, "closed_s": 60.0}, False),
        (Reason.AUTH, {"permanent": True}, True),
        (Reason.QUOTA, {"permanent": True}, True),
        (Reason.MODEL_MISSING, {"permanent": True}, False),
    ],
)
def test_stages_behind_one_account_share_what_is_the_accounts(
    book: Book, reason: Reason, lesson: dict[str, float], *, shared: bool
) -> None:
    """Its key, its credit, its rate; not a model, nor a host that is full."""
    settle(book, ask(book, "left", "b"), reason, **lesson)
    assert not lets(book, "left")
    assert lets(book, "right") is not shared


def test_a_failure_of_one_stage_is_not_its_accounts(book: Book) -> None:
    """One model is down, another one answers."""
    for _ in range(5):
        fails(book, ask(book, "left", "b"))
    assert not lets(book, "left")
    assert lets(book, "right")


def test_a_probe_of_another_lane_is_kept_for_the_job_that_is_sent_there(book: Book) -> None:
    """The others pass the stage over, and the one on its way makes the probe when it is there."""
    book.change(replace(STAGES["lane"], breaker=Breaker(consecutive_failures=1)))
    first = permit(_at_lane(book, "first"))
    fails(book, first)
    book.tick(30)
    sent = admit(book, "lane", "b", job="sent")
    assert isinstance(sent, Elsewhere)
    assert ask(book, "lane", "b", job="other").stage == "b"
    assert skips(book, "other") == [("lane", "breaker_open")]
    there = permit(book.admit(visit("sent", "three", "ollama")))
    assert (there.stage, there.probe) == ("lane", True)


def test_a_probe_that_never_arrives_on_its_lane_is_anothers_in_half_a_minute(book: Book) -> None:
    """Its worker may be gone; the stage must not wait for it."""
    book.change(replace(STAGES["lane"], breaker=Breaker(consecutive_failures=1)))
    fails(book, permit(_at_lane(book, "first")))
    book.tick(30)
    assert isinstance(admit(book, "lane", "b", job="sent"), Elsewhere)
    book.tick(29.999)
    assert ask(book, "lane", "b").stage == "b"
    book.tick(0.001)
    assert isinstance(admit(book, "lane", "b", job="second"), Elsewhere)
    assert permit(book.admit(visit("second", "three", "ollama"))).probe


def _at_lane(book: Book, job: str) -> Admission:
    book.submit("lane", "b", job=job)
    book.born(visit(job, "three", "ollama").owner)
    return book.admit(visit(job, "three", "ollama"))
