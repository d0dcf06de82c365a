"""What all workers know of a stage, whichever member keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worker.state.books import STAGES, Book
from tests.worker.state.test_contract import ONE, TWO, failed, over, permit, told
from worker.failover.answer import Status
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.state import (
    LOUD_S,
    MOST_DROPPED,
    REFUSALS,
    REMEMBERED_S,
    Lesson,
    Permit,
    Settled,
    Settlement,
    Visit,
)


def because(admitted: Permit, reason: Reason) -> Attempt:
    return replace(failed(admitted), reason=reason)


def teach(book: Book, lesson: Lesson, reason: Reason = Reason.THROTTLED, job: str = "j") -> Settled:
    """A job of its own whose first attempt, at `a`, teaches this; the job goes on."""
    book.submit("a", "b", job=job)
    admitted = permit(book.admit(Visit(job, "cloud", f"cloud/{job}/1", "one@host")))
    assert admitted.stage == "a"
    return book.settled(admitted, because(admitted, reason), Settlement(lesson=lesson))


def refuse(book: Book, mark: str, job: str, *plan: str) -> Settled:
    """A job whose first stage calls it wrong."""
    book.submit(*plan, job=job)
    admitted = permit(book.admit(Visit(job, "cloud", f"cloud/{job}/1", "one@host")))
    settlement = Settlement(Status.REFUSED, lesson=Lesson(refused=mark))
    return book.settled(admitted, because(admitted, Reason.BAD_REQUEST), settlement)


def test_a_field_that_a_stage_does_not_take_is_dropped_at_once_and_for_others(book: Book) -> None:
    """The same stage is asked once more, as an attempt of its own; another job's first call comes without the field."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    assert (first.dropped, first.n, first.of) == (frozenset(), 1, 2)
    lesson = Lesson(dropped="temperature", loud=True)
    assert book.settled(first, because(first, Reason.UNSUPPORTED), Settlement(lesson=lesson)).alarm
    again = permit(book.admit(first.visit))
    assert (again.stage, again.place, again.n, again.of) == ("a", 0, 2, 3)
    assert again.dropped == {"temperature"}
    second = replace(lesson, dropped='think="low"')
    book.settled(again, because(again, Reason.UNSUPPORTED), Settlement(lesson=second))
    third = permit(book.admit(again.visit))
    assert (third.stage, third.dropped) == ("a", {"temperature", 'think="low"'})
    book.settle(third, failed(third))
    assert permit(book.admit(third.visit)).stage == "b"
    assert [row[:3] for row in told(book)] == [(1, "a", "failed"), (2, "a", "failed"), (3, "a", "failed"),
                                               (4, "b", "started")]  # fmt: skip
    book.submit("b", "a", job="other")
    other = permit(book.admit(Visit("other", "cloud", "cloud/two/2", "two@host")))
    assert (other.stage, other.dropped) == ("b", frozenset())
    book.settle(other, failed(other))
    assert permit(book.admit(other.visit)).dropped == {"temperature", 'think="low"'}


def test_what_may_be_true_of_one_request_is_believed_for_one(book: Book) -> None:
    """The stage is asked once more, and nobody else leaves the field out."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    lesson = Lesson(dropped="stop", believed=False, loud=True)
    assert book.settled(first, because(first, Reason.UNSUPPORTED), Settlement(lesson=lesson)).view is None
    again = permit(book.admit(first.visit))
    assert (again.stage, again.n, again.dropped) == ("a", 2, frozenset())


def test_only_so_much_is_remembered_of_a_stage(book: Book) -> None:
    """Every admit carries it."""
    for number in range(MOST_DROPPED + 3):
        teach(book, Lesson(dropped=f"field{number}"), Reason.UNSUPPORTED, job=f"j{number}")
    book.submit("a")
    assert permit(book.admit(ONE)).dropped == {f"field{number}" for number in range(MOST_DROPPED)}


def test_a_lesson_does_not_prolong_another(book: Book) -> None:
    """A field was left out for good where the stage had trouble once a day."""
    teach(book, Lesson(dropped="seed"), Reason.UNSUPPORTED, job="first")
    book.tick(REMEMBERED_S - 1)
    teach(book, Lesson(loud=True), Reason.AUTH, job="second")
    book.tick(2)
    book.submit("a")
    assert permit(book.admit(ONE)).dropped == frozenset()


def test_what_a_stage_has_taught_is_forgotten_in_a_day(book: Book) -> None:
    """Models change: an extra call a day finds out."""
    teach(book, Lesson(dropped="seed"), Reason.UNSUPPORTED, job="first")
    book.tick(REMEMBERED_S - 1)
    book.submit("a", job="before")
    assert permit(book.admit(Visit("before", "cloud", "cloud/one/1", "one@host"))).dropped == {"seed"}
    book.tick(2)
    book.submit("a")
    assert permit(book.admit(ONE)).dropped == frozenset()


@pytest.mark.parametrize("plan", [("a",), ("a", "b")])
def test_a_stage_that_calls_all_requests_wrong_is_wrong_itself(book: Book, plan: tuple[str, ...]) -> None:
    """A model that lost a parameter refuses every request as the caller's fault: after so many, the walk goes on."""
    for number in range(REFUSALS - 1):
        ended = refuse(book, f"m{number}", f"j{number}", *plan)
        assert ended.view is not None
        assert (ended.view.status, ended.alarm) == (Status.REFUSED, False)
    last = refuse(book, "m-last", "j-last", *plan)
    assert last.alarm, "a person hears of it"
    if len(plan) == 1:
        assert last.view is not None
        assert last.view.status is Status.EXHAUSTED
    else:
        assert last.view is None
        assert permit(book.admit(Visit("j-last", "cloud", "cloud/j-last/1", "x", fence=1))).stage == "b"
    assert not refuse(book, "m-after", "j-after", *plan).alarm, "once"


def test_one_wrong_request_sent_again_and_again_is_one(book: Book) -> None:
    """Whoever sends it a hundred times gets a hundred refusals."""
    for number in range(3 * REFUSALS):
        ended = refuse(book, "same", f"j{number}", "a", "b")
        assert ended.view is not None
        assert ended.view.status is Status.REFUSED


def test_a_success_clears_the_stage_of_blame(book: Book) -> None:
    """Refusals count in a row only, and a loud fault that comes back is told again."""
    for number in range(REFUSALS - 1):
        refuse(book, f"m{number}", f"j{number}", "a", "b")
    assert teach(book, Lesson(loud=True), Reason.AUTH, job="key").alarm
    assert not teach(book, Lesson(loud=True), Reason.AUTH, job="key-2").alarm
    teach(book, Lesson(worked=True), job="good")
    refused = refuse(book, "m-last", "j-last", "a", "b")
    assert refused.view is not None
    assert refused.view.status is Status.REFUSED
    assert teach(book, Lesson(loud=True), Reason.AUTH, job="key-3").alarm


def test_a_loud_fault_is_told_once_and_again_after_a_while(book: Book) -> None:
    """A night of 401 is one line, not ten thousand; another fault of the same stage is a line of its own."""
    assert teach(book, Lesson(loud=True), Reason.AUTH, job="1").alarm
    assert not teach(book, Lesson(loud=True), Reason.AUTH, job="2").alarm
    assert teach(book, Lesson(loud=True), Reason.QUOTA, job="3").alarm
    book.tick(LOUD_S + 1)
    assert teach(book, Lesson(loud=True), Reason.AUTH, job="4").alarm


def test_pictures_pass_over_a_stage_that_takes_none(book: Book) -> None:
    """It is not asked, and the ledger says why."""
    book.submit("blind", "a", images=True)
    assert permit(book.admit(ONE)).stage == "a"
    assert told(book)[0] == (1, "blind", "skipped", "capability")
    book.submit("blind", job="text")
    assert permit(book.admit(Visit("text", "cloud", "cloud/two/2", "two@host"))).stage == "blind"


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ([Reason.TOO_LONG, Reason.FILTERED], Status.REFUSED),
        ([Reason.TOO_LONG, Reason.TOO_LONG], Status.REFUSED),
        ([Reason.TOO_LONG, Reason.SERVER_ERROR], Status.EXHAUSTED),
        ([Reason.CAPABILITY, Reason.EMPTY], Status.EXHAUSTED),
    ],
)
def test_a_request_that_fits_no_stage_is_refused(book: Book, reasons: list[Reason], status: Status) -> None:
    """It is the request's own fault if every stage says that it cannot serve it, and nobody's if one merely failed."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    book.settled(first, because(first, reasons[0]), Settlement())
    second = permit(book.admit(first.visit))
    ended = book.settled(second, because(second, reasons[1]), Settlement(Status.EXHAUSTED))
    assert ended.view is not None
    assert ended.view.status is status


def test_what_a_stage_says_in_the_end_counts(book: Book) -> None:
    """It had rejected a field first, and without that one the prompt was still too long: exhausted was wrong."""
    book.submit("a")
    first = permit(book.admit(ONE))
    book.settled(first, because(first, Reason.UNSUPPORTED), Settlement(lesson=Lesson(dropped="seed")))
    again = permit(book.admit(first.visit))
    ended = book.settled(again, because(again, Reason.TOO_LONG), Settlement(Status.EXHAUSTED))
    assert ended.view is not None
    assert ended.view.status is Status.REFUSED


def test_a_request_that_was_not_asked_everywhere_is_not_refused(book: Book) -> None:
    """The stage that was passed over might have served it: the deadline does not allow to wait for it."""
    teach(book, Lesson(throttled=True, closed_s=600), job="first")
    book.submit("b", "a")
    first = permit(book.admit(ONE))
    book.settled(first, because(first, Reason.TOO_LONG), Settlement())
    assert over(book.admit(first.visit)).view.status is Status.EXHAUSTED


def test_a_walk_that_ended_early_refuses_nobody(book: Book) -> None:
    """A caller had seen pieces of an answer that was filtered in the end: the stage after it was never asked."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    ended = book.settled(first, because(first, Reason.FILTERED), Settlement(Status.EXHAUSTED))
    assert ended.view is not None
    assert ended.view.status is Status.EXHAUSTED


def test_pictures_that_nobody_takes_are_refused(book: Book) -> None:
    """Without a single call."""
    book.submit("blind", images=True)
    assert over(book.admit(ONE)).view.status is Status.REFUSED


def test_an_owner_that_lost_its_job_teaches_nothing(book: Book) -> None:
    """Its reply may be from another time."""
    book.submit("a", "b")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    book.dies(ONE.owner)
    second = permit(book.admit(TWO))
    assert second.n == 2
    lesson = Lesson(throttled=True, closed_s=60, dropped="seed", loud=True)
    assert book.settled(first, because(first, Reason.THROTTLED), Settlement(lesson=lesson)) == Settled(fenced=True)
    book.submit("a", job="next")
    free = permit(book.admit(Visit("next", "cloud", "cloud/three/3", "three@host")))
    assert (free.stage, free.dropped) == ("a", frozenset())
    assert told(book)[0][2] == Outcome.UNKNOWN


def test_another_model_under_the_same_name_starts_anew(book: Book) -> None:
    """Whoever repairs a stage by naming another host or model must not be judged by what the former one did."""
    teach(book, Lesson(throttled=True, closed_s=3600, dropped="seed", loud=True), Reason.THROTTLED, job="first")
    book.change(replace(STAGES["a"], model="another"))
    book.submit("a", "b")
    admitted = permit(book.admit(ONE))
    assert (admitted.stage, admitted.dropped) == ("a", frozenset())
    assert book.settled(admitted, because(admitted, Reason.THROTTLED), Settlement(lesson=Lesson(loud=True))).alarm
    book.change(STAGES["a"])
    book.tick(3601)
    book.submit("a", job="back")
    assert permit(book.admit(Visit("back", "cloud", "cloud/two/2", "two@host"))).dropped == frozenset()
