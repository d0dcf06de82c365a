"""Whose turn it is: jobs that wait, jobs that are new, and stages of two lanes, whichever member keeps the state."""

from __future__ import annotations

from tests.worker.state.books import Book
from tests.worker.state.calls import admit, answers, ask, fails, settle, skips, visit
from tests.worker.state.test_contract import over, permit
from tests.worker.state.test_parking import throttle, waits
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Elsewhere, Parked


def test_one_that_was_sent_on_comes_before_one_that_is_new(book: Book) -> None:
    """New ones are faster than a message; five parked jobs expired while sixty new ones were served."""
    ask(book, "slow"), ask(book, "slow")
    waits(book, "slow", job="old")
    book.tick(1)
    assert book.feed() == ["old"]
    assert ask(book, "slow", "b", job="new").stage == "b"
    assert skips(book, "new") == [("slow", "limit")]
    assert permit(book.admit(visit("old", "two"))).stage == "slow"


def test_one_whose_message_takes_long_keeps_nobody_from_the_stage(book: Book) -> None:
    """It may stand behind ten thousand others in its queue."""
    ask(book, "slow"), ask(book, "slow")
    waits(book, "slow", job="old")
    book.tick(1)
    assert book.feed() == ["old"]
    book.tick(1.001)
    assert ask(book, "slow", "b").stage == "slow"


def test_places_and_tokens_are_kept_for_those_sent_on_as_well(book: Book) -> None:
    """For a moment; then they are anybody's."""
    first, _ = ask(book, "two"), ask(book, "two")
    waits(book, "two", job="old")
    answers(book, first)
    assert book.feed() == ["old"]
    assert ask(book, "two", "b").stage == "b"
    ask(book, "scarce", tokens_in=0)
    ask(book, "scarce", tokens_in=0)
    waits(book, "scarce", job="older")
    book.tick(3)
    assert book.feed() == ["older"]
    assert ask(book, "scarce", "b").stage == "b"


def test_of_what_is_tried_again_a_stage_of_this_lane_comes_first(book: Book) -> None:
    """A job went to and fro between two lanes until its deadline, each time a moment too late for the other one."""
    throttle(book, "a", 5)
    book.switch("lane", "off", 5)
    assert isinstance(admit(book, "a", "lane", job="j"), Parked)
    book.park("j", "send j")
    book.tick(5)
    assert permit(book.admit(visit("j", "three", "ollama"))).stage == "lane"
    assert isinstance(admit(book, "lane", "a"), Elsewhere)


def test_a_probe_is_free_again_when_the_job_that_it_was_kept_for_goes_elsewhere(book: Book) -> None:
    """It was nobody's for half a minute, over and over."""
    throttle(book, "b", 30)
    fails(book, *(ask(book, "a", "kept") for _ in range(5)))
    waits(book, "b", "a", job="j")
    book.tick(30)
    assert book.feed() == ["j"]
    assert permit(book.admit(visit("j", "two"))).stage == "b"
    assert ask(book, "a", "kept").probe


def test_a_probe_is_free_again_when_the_job_that_it_was_kept_for_has_ended(book: Book) -> None:
    """Cancelled on its way to another lane, or too late."""
    fails(book, *(ask(book, "a") for _ in range(5)))
    waits(book, "a", job="j", deadline=40)
    book.tick(30)
    assert book.feed() == ["j"]
    assert ask(book, "a", "b").stage == "b"
    book.cancel("j")
    assert over(book.admit(visit("j", "two"))).view.status is Status.CANCELLED
    assert ask(book, "a", "b").probe


def test_a_stage_that_throttles_a_job_again_and_again_is_given_up(book: Book) -> None:
    """Its ledger would grow until its deadline, which may be a month away."""
    book.submit("a", job="j", deadline=10_000)
    book.born(visit("j").owner)
    for number in range(30):
        admitted = permit(book.admit(visit("j", "one")))
        settled = settle(book, admitted, Reason.THROTTLED, throttled=True, closed_s=5)
        assert (settled.view is None) is (number < 29)
        if settled.view is None:
            assert isinstance(book.admit(admitted.visit), Parked)
            book.tick(5)
    assert book.view("j")["status"] == "exhausted"


def test_a_stage_that_has_throttled_a_job_and_is_open_all_the_same_is_not_tried_again(book: Book) -> None:
    """It was asked two thousand times in five seconds: its word came from before a reset, and closed nothing."""
    admitted = ask(book, "a", job="j")
    book.switch("a", "reset")
    settled = settle(book, admitted, Reason.THROTTLED, throttled=True, closed_s=60)
    assert settled.view is not None
    assert settled.view.status is Status.EXHAUSTED
