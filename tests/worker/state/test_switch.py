"""What an operator does to a stage by hand, whichever member keeps the state."""

from __future__ import annotations

from tests.worker.state.books import Book
from tests.worker.state.calls import ask, fails, lets, settle, skips
from tests.worker.state.test_parking import throttle, waits
from worker.failover.attempt import Reason


def test_switching_a_stage_on_or_resetting_it_sends_its_line_on(book: Book) -> None:
    """An operator need not wait until its time is over; the ones of another reason stay."""
    throttle(book, "a", 60)
    book.switch("a", "off", 70)
    waits(book, "a", job="j")
    assert book.switch("a", "on")
    assert book.feed() == []
    assert book.switch("a", "reset")
    assert book.feed() == ["j"]


def test_an_operators_hand_is_above_what_was_counted(book: Book) -> None:
    """Off is off until its time is over or it is switched on; a reset forgets what was counted, and leaves it off."""
    fails(book, *(ask(book, "a", "b") for _ in range(5)))
    book.switch("a", "off", 3600)
    assert ask(book, "a", "b", job="off").stage == "b"
    assert skips(book, "off") == [("a", "switched_off")]
    book.switch("a", "reset")
    assert not lets(book, "a")
    book.tick(3600)
    admitted = ask(book, "a", "b")
    assert (admitted.stage, admitted.probe) == ("a", False)


def test_a_reset_forgets_what_a_stage_has_taught_and_what_it_is_doing(book: Book) -> None:
    """Its fields, its faults, its failures; a call that is under way changes nothing of the new beginning."""
    assert settle(book, ask(book, "a", "b"), Reason.UNSUPPORTED, dropped="seed", loud=True).alarm
    late = ask(book, "a", "b")
    fails(book, *(ask(book, "a", "b") for _ in range(5)))
    book.tick(30)
    assert ask(book, "a", "b", owner="two").probe
    assert book.switch("a", "reset")
    fresh = ask(book, "a", "b")
    assert (fresh.stage, fresh.probe, fresh.dropped) == ("a", False, frozenset())
    fails(book, late, *(ask(book, "a", "b") for _ in range(4)))
    assert lets(book, "a")
    assert settle(book, fresh, Reason.UNSUPPORTED, dropped="seed", loud=True).alarm


def test_a_reset_keeps_what_was_asked_and_spent(book: Book) -> None:
    """The host does not forget it either."""
    ask(book, "slow"), ask(book, "slow")
    ask(book, "capped", tokens_in=1000), ask(book, "capped", tokens_in=1000)
    for stage in ("slow", "capped"):
        assert book.switch(stage, "reset")
        assert not lets(book, stage)


def test_a_stage_that_nobody_knows_is_not_switched(book: Book) -> None:
    """And whoever mistyped its name is told so."""
    assert not book.switch("gone", "off")
