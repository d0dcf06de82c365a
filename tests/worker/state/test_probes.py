"""The probes that the owner of a lane makes: no job is sent where nothing may answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from config.limits import Breaker
from config.stages import Stage
from tests.nodes import Valkey
from tests.worker.state.books import RedisBook
from tests.worker.state.calls import visit
from tests.worker.state.test_contract import failed, permit
from worker.failover.attempt import Reason
from worker.failover.state import Admission, Lesson, Parked, Permit
from worker.state.probes import Due

OWNER, OTHER = "ollama/one/1", "ollama/two/2"
RULE = Breaker(consecutive_failures=1, open_for=30, open_growth=2)
LANE = {
    "local": Stage("local", "ollama", model="m", lane="ollama", breaker=RULE),
    "cloudy": Stage("cloudy", "scripted", model="m", lane="ollama", breaker=RULE),
}


@pytest.fixture
def book(valkey: Valkey) -> Iterator[RedisBook]:
    book = RedisBook(valkey.another().url, LANE)
    book.born(OWNER)
    book.born(OTHER)
    yield book
    book.close()


def take(book: RedisBook, owner: str = OWNER) -> Due | None:
    book._beat_all()
    return book.run(book.state.probes("ollama").take(owner, book.ms))


def told(book: RedisBook, due: Due, lesson: Lesson, owner: str = OWNER) -> bool:
    return book.run(book.state.probes("ollama").settle(owner, due, lesson, Reason.TIMEOUT, book.ms))


def admitted(book: RedisBook, job: str, stage: str = "local") -> Admission:
    book.submit(stage, job=job, lane="ollama", deadline=3600)
    return book.admit(replace(visit(job, "one"), owner=OWNER, lane="ollama"))


def opened(book: RedisBook, stage: str = "local") -> None:
    call = admitted(book, f"opens-{stage}", stage)
    assert isinstance(call, Permit)
    book.settle(call, failed(call), lesson=Lesson(failed=True))


def due_again(book: RedisBook, stage: str = "local") -> None:
    """It has failed, and the time of its breaker is over."""
    opened(book, stage)
    book.tick(30)


def test_a_closed_stage_needs_none_and_an_open_one_not_before_its_time(book: RedisBook) -> None:
    assert take(book) is None
    opened(book)
    book.tick(29.999)
    assert take(book) is None
    book.tick(0.001)
    assert take(book) == Due("local", 1)


def test_it_is_made_once(book: RedisBook) -> None:
    due_again(book)
    assert book.run(book.state.probes("ollama").is_due(book.ms))
    assert take(book) is not None
    assert not book.run(book.state.probes("ollama").is_due(book.ms))
    assert take(book, OTHER) is None


def test_no_job_is_the_probe_of_a_local_host(book: RedisBook) -> None:
    """It would wait for its whole timeout where the host is still wedged."""
    due_again(book)
    assert isinstance(admitted(book, "waits"), Parked)
    book.park("waits")
    assert book.feed() == []


def test_what_answers_is_closed_and_those_who_wait_go_on(book: RedisBook) -> None:
    due_again(book)
    admitted(book, "waits")
    book.park("waits")
    due = take(book)
    assert due is not None
    assert told(book, due, Lesson(worked=True))
    assert book.feed() == ["waits"]
    assert permit(book.admit(replace(visit("waits", "one"), owner=OWNER, lane="ollama"))).stage == "local"


def test_what_fails_again_is_open_for_longer(book: RedisBook) -> None:
    due_again(book)
    due = take(book)
    assert due is not None
    told(book, due, Lesson(failed=True))
    book.tick(59.999)
    assert take(book) is None
    book.tick(0.001)
    assert take(book) == Due("local", 2)


def test_a_busy_host_is_asked_again_and_is_neither_open_for_longer_nor_closed(book: RedisBook) -> None:
    due_again(book)
    due = take(book)
    assert due is not None
    told(book, due, Lesson(throttled=True, closed_s=5))
    assert take(book) is None, "it is left alone as long as it asks for"
    book.tick(5)
    assert take(book) == due


def test_the_probe_of_an_owner_that_has_died_is_made_by_the_next_one(book: RedisBook) -> None:
    due_again(book)
    due = take(book)
    assert due is not None
    book.dies(OWNER)
    assert take(book, OTHER) == due
    assert not told(book, due, Lesson(worked=True))
    assert isinstance(admitted(book, "later"), Parked), "a late owner's word counts for nothing"


def test_other_protocols_are_probed_by_a_job(book: RedisBook) -> None:
    due_again(book, "cloudy")
    assert take(book) is None
    assert permit(admitted(book, "probes", "cloudy")).probe
