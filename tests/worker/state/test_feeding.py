"""When parked jobs are sent on, whichever member keeps the state."""

from __future__ import annotations

from tests.worker.state.books import Book
from tests.worker.state.calls import answers, ask, fails, lets, visit
from tests.worker.state.test_contract import over, permit
from tests.worker.state.test_parking import throttle, waits
from worker.failover.answer import Status
from worker.failover.state import Parked


def test_nothing_is_sent_on_before_its_time_nor_twice(book: Book) -> None:
    """What nobody has claimed is sent again after three quarters of a minute: its message may be lost."""
    throttle(book, "a", 5)
    waits(book, "a", job="j", deadline=1000)
    book.tick(4.999)
    assert book.feed() == []
    book.tick(0.001)
    assert (book.feed(), book.feed()) == (["j"], [])
    book.tick(44.999)
    assert book.feed() == []
    book.tick(0.001)
    assert book.feed() == ["j"]


def test_whoever_came_first_is_sent_on_first(book: Book) -> None:
    """As many as the stage has places for; the others follow when there are more."""
    first, second = ask(book, "two"), ask(book, "two")
    for number in range(3):
        book.tick(0.5)
        waits(book, "two", job=f"w{number}")
    assert book.feed() == []
    fails(book, first)
    assert (book.feed(), book.feed()) == (["w0"], [])
    fails(book, second)
    assert (book.feed(), book.feed()) == (["w1"], [])
    third = permit(book.admit(visit("w0")))
    assert book.feed() == []
    answers(book, third)
    assert book.feed() == ["w2"]


def test_a_rate_sends_on_as_many_as_it_takes(book: Book) -> None:
    """One a second, and those on their way are counted."""
    ask(book, "slow"), ask(book, "slow")
    for number in range(4):
        waits(book, "slow", job=f"w{number}")
    book.tick(1)
    assert (book.feed(), book.feed()) == (["w0"], [])
    book.tick(1)
    assert book.feed() == ["w1"]


def test_tokens_send_on_nobody_until_there_are_as_many_as_the_last_call_took(book: Book) -> None:
    """All of the bucket here; how many each will take is looked at when it is admitted."""
    ask(book, "scarce", tokens_in=300)
    waits(book, "scarce", tokens_in=0, job="j")
    book.tick(5.999)
    assert book.feed() == []
    book.tick(0.001)
    assert book.feed() == ["j"]


def test_a_stage_that_is_due_is_sent_one_probe(book: Book) -> None:
    """The first of its line, and nobody else makes it; when it works, all others follow."""
    fails(book, *(ask(book, "a") for _ in range(5)))
    for number in range(3):
        waits(book, "a", job=f"w{number}")
    book.tick(30)
    assert (book.feed(), book.feed()) == (["w0"], [])
    assert not lets(book, "a")
    book.born(visit("w0", "two").owner)
    first = permit(book.admit(visit("w0", "two")))
    assert (first.probe, book.feed()) == (True, [])
    answers(book, first)
    assert book.feed() == ["w1", "w2"]


def test_a_probe_that_was_sent_on_and_never_arrives_is_anothers_in_half_a_minute(book: Book) -> None:
    """Its message may be lost; the line goes on without it."""
    fails(book, *(ask(book, "a") for _ in range(5)))
    waits(book, "a", job="w0")
    waits(book, "a", job="w1")
    book.tick(30)
    assert book.feed() == ["w0"]
    book.tick(29.999)
    assert book.feed() == []
    book.tick(0.001)
    assert book.feed() == ["w1"]


def test_a_parked_job_is_sent_on_at_its_deadline_to_end(book: Book) -> None:
    """Whatever its stage says: by it Celery hears of the end."""
    book.switch("a", "off", 20)
    waits(book, "a", job="j", deadline=30)
    book.switch("a", "off")
    book.tick(29.999)
    assert book.feed() == []
    book.tick(0.001)
    assert (book.feed(), book.feed()) == (["j"], [])
    assert over(book.admit(visit("j", "two"))).view.status is Status.EXPIRED
    book.tick(500)
    assert book.feed() == []


def test_a_parked_job_that_is_cancelled_ends_at_once_and_is_sent_on_once(book: Book) -> None:
    """Its caller sees it at once; its stage need not be open for it."""
    throttle(book, "a", 20)
    waits(book, "a", job="j")
    book.tick(1)
    book.cancel("j")
    shown = book.view("j")
    assert (shown["status"], shown["parked_for"], shown["retry_at"], shown["queued_s"]) == ("cancelled", None, None, 1)
    assert book.signature("j") == "send j"
    assert (book.feed(), book.feed()) == (["j"], [])
    assert over(book.admit(visit("j", "two"))).view.status is Status.CANCELLED
    assert book.signature("j") is None, "it holds the request's text no longer than it must"
    book.tick(500)
    assert book.feed() == []


def test_a_job_that_waits_ends_where_it_may_wait_no_longer(book: Book) -> None:
    """It was sent on, and its stage had thrown it back with a time beyond its deadline."""
    throttle(book, "a", 20)
    waits(book, "a", job="j")
    book.tick(20)
    assert book.feed() == ["j"]
    throttle(book, "a", 100)
    ended = over(book.admit(visit("j", "two"))).view
    assert (ended.status, ended.shown["retry_at"]) == (Status.EXHAUSTED, "2023-11-14T22:15:20.000Z")
    assert not book.holds_request("j")


def test_tokens_send_on_as_many_as_the_last_call_took(book: Book) -> None:
    """What a job needs is not known to the line; without that, all of them would come and go away again."""
    ask(book, "scarce", tokens_in=300)
    for number in range(3):
        waits(book, "scarce", tokens_in=300, job=f"w{number}")
    book.tick(6)
    assert (book.feed(), book.feed()) == (["w0"], [])


def test_a_stage_without_limits_gets_its_line_by_and_by(book: Book) -> None:
    """All that had waited for a host that throttles would else meet it in the instant that it named."""
    throttle(book, "a", 5)
    for number in range(12):
        waits(book, "a", job=f"w{number:02}")
    book.tick(5)
    assert [len(book.feed()), len(book.feed()), len(book.feed())] == [10, 2, 0]


def test_a_job_looks_again_after_a_while_whatever_its_line_does(book: Book) -> None:
    """The line may be one that nobody feeds any more: its stage is gone from the configuration."""
    throttle(book, "a", 3000)
    waits(book, "a", job="j", deadline=4000)
    book.tick(599.999)
    assert book.feed() == []
    book.tick(0.001)
    assert (book.feed(), book.feed()) == (["j"], [])
    assert isinstance(book.admit(visit("j", "two")), Parked)
    assert book.park("j", "send j")
    book.tick(600)
    assert book.feed() == ["j"]
