"""What a host says that cannot be meant, whichever member keeps the state."""

from __future__ import annotations

from tests.worker.state.books import Book
from tests.worker.state.calls import answers, ask, lets, settle, skips
from worker.failover.attempt import Reason


def test_a_host_that_throttles_for_no_time_at_all_is_given_more_rest_each_time(book: Book) -> None:
    """It names a tenth of a second for ever; the first time that is believed."""
    for rest in (0.1, 4, 8, 16, 32, 60, 60):
        settle(book, ask(book, "a", "b"), Reason.THROTTLED, throttled=True, closed_s=0.1)
        book.tick(rest - 0.001)
        assert not lets(book, "a")
        book.tick(0.001)
    answers(book, ask(book, "a"))
    settle(book, ask(book, "a", "b"), Reason.THROTTLED, throttled=True, closed_s=0.1)
    book.tick(0.1)
    assert lets(book, "a")


def test_a_permanent_fault_that_names_no_time_at_all_keeps_its_stage_closed(book: Book) -> None:
    """Three hundred calls were made with a dead key in a minute; an opening is never shorter than any other."""
    settle(book, ask(book, "a", "b"), Reason.AUTH, permanent=True, closed_s=0.1)
    book.tick(29.999)
    assert not lets(book, "a")
    book.tick(0.001)
    assert ask(book, "a", "b").probe


def test_an_absurd_count_of_tokens_closes_a_stage_for_a_minute_at_most(book: Book) -> None:
    """A milliard of them had closed it for days."""
    answers(book, ask(book, "scarce", tokens_in=0), tokens=10**9)
    assert not lets(book, "scarce")
    book.tick(61)
    assert lets(book, "scarce")


def test_a_chain_whose_money_is_spent_still_asks_what_costs_nothing(book: Book) -> None:
    """One call was a little dearer than estimated, and the house was refused with the clouds."""
    answers(book, ask(book, "priced", chain="cheap", tokens_in=0), usd=0.0101)
    assert ask(book, "priced", "home", chain="cheap", job="j", tokens_in=0).stage == "home"
    assert skips(book, "j") == [("priced", "budget")]
