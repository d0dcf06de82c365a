"""What becomes of a job whose worker dies under it, or gives it back, whichever member keeps the state."""

from __future__ import annotations

from dataclasses import replace

from tests.worker.state.books import Book
from tests.worker.state.calls import visit
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, failed, over, permit, told
from worker.failover.answer import Status
from worker.failover.state import Permit, Taken


def claimed(book: Book, name: str, *, dies: bool = True) -> Permit:
    """The job's call of a worker, which then dies."""
    one = visit("j", name)
    book.born(one.owner)
    admitted = permit(book.admit(one))
    if dies:
        book.dies(one.owner)
    return admitted


def test_a_stage_that_may_not_be_asked_twice_is_not(book: Book) -> None:
    """Nobody saw what came of its call: it may have been carried out and paid. The place that it held is free."""
    book.submit("once", "b")
    claimed(book, "one")
    second = permit(book.admit(TWO))
    assert second.stage == "b"
    assert told(book) == [(1, "once", "unknown", "crashed"), (2, "b", "started", None)]
    assert book.view()["attempts"][0]["duration_s"] is None, "nobody saw when it ended"
    book.submit("once", job="k")
    assert permit(book.admit(visit("k", "three"))).stage == "once"


def test_where_nothing_else_is_left_the_job_has_failed(book: Book) -> None:
    """Its last stage may not be asked twice."""
    book.submit("a", "once")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    book.settle(first, failed(first))
    permit(book.admit(first.visit))
    book.dies(ONE.owner)
    found = over(book.admit(TWO))
    assert found.view.status is Status.EXHAUSTED
    assert told(book)[1:] == [(2, "once", "unknown", "crashed")]


def test_a_job_under_which_workers_die_kills_no_more_of_them(book: Book) -> None:
    """Three is the default; the line says what the attempts do not."""
    book.submit("a", "b", deadline=3600)
    for name in ("one", "two", "three"):
        assert claimed(book, name).stage == "a"
    found = over(book.admit(visit("j", "four")))
    assert found.view.status is Status.EXHAUSTED
    assert found.view.shown["why"] == "poison: its worker died or its walk broke off 3 times (max_deliveries)"
    assert [row[2:] for row in told(book)] == [("unknown", "crashed")] * 3


def test_a_worker_that_ends_in_order_is_no_death(book: Book) -> None:
    """Nor is one that only handed the job on."""
    book.submit("a", "b", deadline=3600)
    for name in ("one", "two", "three", "four"):
        admitted = claimed(book, name, dies=False)
        assert book.hand_back(admitted.visit.owner)
        book.dies(admitted.visit.owner)
    assert permit(book.admit(visit("j", "five"))).stage == "a"
    assert [row[2:] for row in told(book)[:-1]] == [("unknown", "drained")] * 4


def test_a_job_that_is_given_back_waits_with_all_that_it_held_free(book: Book) -> None:
    """Its time in the queue counts anew, and its stage is not asked twice where it may not be."""
    book.submit("once", "b")
    admitted = claimed(book, "one", dies=False)
    assert book.hand_back(admitted.visit.owner)
    book.tick(4)
    assert (book.view()["status"], book.view()["queued_s"]) == ("queued", 4)
    book.submit("once", job="k")
    assert permit(book.admit(visit("k", "two"))).stage == "once"
    assert permit(book.admit(TWO)).stage == "b"


def test_nobody_gives_back_what_is_not_theirs(book: Book) -> None:
    """Not another's job, not one that has ended or was never there."""
    book.submit("a", "b")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    assert not book.hand_back(TWO.owner)
    book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert not book.hand_back(ONE.owner)
    assert not book.hand_back(ONE.owner, "nowhere")
    assert book.view()["status"] == "answered"


def test_whoever_gave_a_job_back_has_it_no_more_once_another_has(book: Book) -> None:
    """A reply that came in spite of all is refused by the fence."""
    book.submit("a", "b")
    admitted = claimed(book, "one", dies=False)
    book.hand_back(admitted.visit.owner)
    second = permit(book.admit(TWO))
    assert book.settle(admitted, answered(admitted), Status.ANSWERED, ANSWER) is None
    assert book.admit(admitted.visit) == Taken(known=True)
    assert book.settle(second, answered(second), Status.ANSWERED, replace(ANSWER, text="second")) is not None
    assert book.view()["text"] == "second"


def test_a_cancelled_job_that_is_given_back_has_ended(book: Book) -> None:
    """Its worker was told both at once; nobody else need take it to find out."""
    book.submit("a", "b")
    admitted = claimed(book, "one", dies=False)
    book.cancel()
    assert book.hand_back(admitted.visit.owner)
    assert book.view()["status"] == "cancelled"
    assert told(book) == [(1, "a", "unknown", "drained")]


def test_the_time_for_which_an_admitted_job_waits_for_its_turn_is_time_in_a_queue(book: Book) -> None:
    book.submit("lane", lane="ollama")
    book.tick(2)
    one = replace(visit("j", "one"), lane="ollama")
    book.born(one.owner)
    admitted = permit(book.admit(one))
    book.tick(7)
    late = replace(answered(admitted), started_at=admitted.started_at + 6, duration_s=1.0)
    book.settle(admitted, late, Status.ANSWERED, ANSWER)
    assert book.view()["queued_s"] == 8
