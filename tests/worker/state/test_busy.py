"""A host that is busy is no host that is down, whichever member keeps the state: it says so, so it is there.

Stage `a` opens after 5 failures in a row, for 30 s.
"""

from __future__ import annotations

from tests.worker.state.books import Book
from tests.worker.state.calls import answers, ask, fails, lets, settle, skips
from worker.failover.attempt import Reason
from worker.failover.state import Permit


def busy(book: Book, called: Permit) -> None:
    """No time is named, as by Ollama."""
    settle(book, called, Reason.THROTTLED, throttled=True)


def test_a_busy_host_never_opens_its_breaker(book: Book) -> None:
    """Thirty times in a row: it is asked less often, and by any call, not by a probe."""
    for number in range(30):
        called = ask(book, "a", "b")
        assert (called.stage, called.probe) == ("a", False), number
        busy(book, called)
        assert ask(book, "a", "b", job=f"early-{number}").stage == "b"
        assert skips(book, f"early-{number}") == [("a", "throttled")]
        book.tick(60)
    answers(book, ask(book, "a", "b"))
    assert lets(book, "a")


def test_a_busy_host_is_neither_a_success_nor_a_failure(book: Book) -> None:
    """Four failures before it and one after it are five in a row; four before it and none after it are four."""
    fails(book, *(ask(book, "a", "b") for _ in range(4)))
    busy(book, ask(book, "a", "b"))
    book.tick(60)
    assert lets(book, "a")
    fails(book, ask(book, "a", "b"))
    assert not lets(book, "a")


def test_a_probe_that_finds_the_host_busy_finds_out_nothing(book: Book) -> None:
    """The stage stays as open as it was, its time no longer, and the next call is the probe."""
    fails(book, *(ask(book, "a", "b") for _ in range(5)))
    book.tick(30)
    for _ in range(30):
        probe = ask(book, "a", "b")
        assert (probe.stage, probe.probe) == ("a", True)
        busy(book, probe)
        assert not lets(book, "a")
        book.tick(60)
    fails(book, ask(book, "a", "b"))
    book.tick(59.999)
    assert not lets(book, "a")
    book.tick(0.001)
    answers(book, ask(book, "a", "b"))
    fails(book, *(ask(book, "a", "b") for _ in range(4)))
    assert lets(book, "a"), "it was closed by its own success"


def test_a_crash_and_a_lack_of_memory_do_open_it(book: Book) -> None:
    """Both are a 500 of the host, and a busy moment between them saves it from nothing."""
    for _ in range(4):
        fails(book, ask(book, "a", "b"))
        busy(book, ask(book, "a", "b"))
        book.tick(60)
    fails(book, ask(book, "a", "b"))
    assert ask(book, "a", "b", job="next").stage == "b"
    assert skips(book, "next") == [("a", "breaker_open")]
