"""Whose a job is: lost replies, second deliveries and dead owners, whichever member keeps the state."""

from __future__ import annotations

from dataclasses import replace

from tests.worker.state.books import Book
from tests.worker.state.test_contract import ANSWER, LANE, ONE, TWO, answered, failed, permit, told
from worker.failover.answer import Status
from worker.failover.state import Elsewhere, Taken, Visit


def once_more(visit: Visit) -> Visit:
    """Another delivery to the same owner."""
    return replace(visit, fence=0, delivery="another")


def test_a_living_owner_keeps_its_job(book: Book) -> None:
    """Against another worker, and against a second delivery to itself."""
    book.submit("a", "b")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    assert book.admit(TWO) == book.admit(once_more(ONE)) == Taken(known=True)
    assert told(book) == [(1, "a", "started", None)]
    assert book.settle(first, answered(first), Status.ANSWERED, ANSWER) is not None


def test_an_admit_whose_reply_was_lost_is_granted_when_it_is_asked_again(book: Book) -> None:
    """The client had asked again by itself, was told that the job was taken, by itself, and left it there for ever."""
    book.submit("gone", "a", "b")
    book.born(ONE.owner)
    book.tick(2)
    lost = permit(book.admit(ONE))
    book.tick(1)
    first = permit(book.admit(ONE))
    assert (first.stage, first.n, first.visit) == (lost.stage, lost.n, lost.visit)
    assert (first.request, first.left_s) == (lost.request, lost.left_s - 1)
    book.settle(first, failed(first))
    permit(book.admit(first.visit))
    second = permit(book.admit(first.visit))
    assert (second.stage, second.n) == ("b", 3)
    assert told(book) == [
        (1, "gone", "skipped", "unsupported"),
        (2, "a", "failed", "server_error"),
        (3, "b", "started", None),
    ]
    assert book.view()["queued_s"] == 2


def test_a_settle_whose_reply_was_lost_changes_nothing_the_second_time(book: Book) -> None:
    """Whether the job went on from there or ended."""
    book.submit("a", "b")
    first = permit(book.admit(ONE))
    assert book.settle(first, failed(first)) is book.settle(first, failed(first)) is None
    second = permit(book.admit(first.visit))
    ended = book.settle(second, answered(second), Status.ANSWERED, ANSWER)
    book.tick(1)
    assert ended is not None
    assert book.settle(second, answered(second), Status.ANSWERED, ANSWER) == ended
    assert len(book.view()["attempts"]) == 2


def test_a_handoff_whose_reply_was_lost_is_told_again(book: Book) -> None:
    """No message has been sent yet, so nobody else can have the job."""
    book.submit("a", "lane")
    first = permit(book.admit(ONE))
    book.settle(first, failed(first))
    for _ in range(2):
        elsewhere = book.admit(first.visit)
        assert isinstance(elsewhere, Elsewhere)
        assert (elsewhere.lane, elsewhere.view.status) == ("ollama", Status.QUEUED)
    assert permit(book.admit(LANE)).stage == "lane"


def test_a_job_whose_handoff_was_lost_and_that_may_run_here_after_all_is_its_owners(book: Book) -> None:
    """Nobody was sent the job. It went on without an owner in its record: a cancel ended it in mid-call."""
    book.submit("a", "lane", "b")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    book.settle(first, failed(first))
    assert isinstance(book.admit(first.visit), Elsewhere)
    book.tick(2)
    book.switch("lane", "off")
    second = permit(book.admit(first.visit))
    assert (second.stage, second.visit) == ("b", first.visit)
    assert (book.view()["status"], book.view()["queued_s"]) == ("running", 2)
    assert book.admit(TWO) == Taken(known=True)


def test_a_dead_owners_job_goes_on_where_it_was(book: Book) -> None:
    """Its call is unknown, at an unknown cost, and its stage gets another chance."""
    book.submit("b", "a")
    book.born(ONE.owner)
    first = permit(book.admit(ONE))
    book.settle(first, failed(first))
    permit(book.admit(first.visit))
    book.dies(ONE.owner)
    book.tick(2)
    second = permit(book.admit(TWO))
    assert (second.stage, second.n, second.visit.fence) == ("a", 3, 2)
    assert second.request is not None
    assert told(book) == [
        (1, "b", "failed", "server_error"),
        (2, "a", "unknown", "crashed"),
        (3, "a", "started", None),
    ]
    crashed = book.view()["attempts"][1]
    assert (crashed["cost_usd"], crashed["worker"], crashed["completed"]) == (None, "one@host", False)


def test_a_crash_in_the_house_costs_nothing(book: Book) -> None:
    """Unlike one in a cloud."""
    book.submit("home")
    book.admit(ONE)
    book.admit(TWO)
    assert [row["cost_usd"] for row in book.view()["attempts"]] == [0, 0]


def test_an_old_owner_can_neither_settle_nor_be_admitted(book: Book) -> None:
    """It was taken for dead and lives: the fence has moved on without it."""
    book.submit("a", "b")
    old = permit(book.admit(ONE))
    new = permit(book.admit(TWO))
    before = book.view()
    assert book.settle(old, answered(old), Status.ANSWERED, ANSWER) is None
    assert book.settle(old, failed(old)) is None
    assert book.admit(old.visit) == Taken(known=True)
    assert book.view() == before
    book.settle(new, failed(new))
    assert permit(book.admit(new.visit)).stage == "b"
