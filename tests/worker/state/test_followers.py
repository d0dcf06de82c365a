"""Two jobs of one idempotency key have one end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staffel_wire import keys
from tests.worker.state.books import KEPT, RedisBook
from tests.worker.state.calls import visit
from tests.worker.state.rounds import LOOKS_S, claimed, found, needs
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, permit
from worker.failover.answer import Status
from worker.failover.state import Follows, Over
from worker.state.open_jobs import Need


def follower(book: RedisBook, *, deadline: float = 90) -> None:
    """Two jobs of one key: `first` runs, `j` is the second."""
    assert book.submitted("a", job="first", key="k") == ["new", "queued"]
    assert book.submitted("a", key="k", mode="follow", deadline=deadline) == ["new", "queued"]


def waits(book: RedisBook) -> Follows:
    admitted = book.admit(TWO)
    assert isinstance(admitted, Follows)
    assert book.park()
    return admitted


def follows(book: RedisBook) -> Sequence[object]:
    (one,) = found(book)
    assert (one.job, one.need, one.mark) == ("j", Need.FOLLOWS, "first")
    return book.run(book.state.open.follow("j", "first", book.ms))


def test_a_second_job_of_a_key_waits_for_the_first_and_has_its_end(redis_book: RedisBook) -> None:
    """As soon as that one has ended; it asked nobody, and so costs nothing."""
    follower(redis_book)
    running = claimed(redis_book, "first")
    seen = waits(redis_book)
    assert (seen.leader, seen.view.status, seen.view.shown["follows"]) == ("first", Status.PARKED, "first")
    assert follows(redis_book)[0] == "waits"
    redis_book.tick(1)
    assert needs(redis_book) == []
    redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
    assert follows(redis_book)[0] == "over"
    shown = redis_book.view()
    assert (shown["status"], shown["text"], shown["attempts"], shown["cost_usd"]) == ("answered", ANSWER.text, [], 0.0)


def test_who_comes_when_the_first_has_ended_has_its_end_at_once(redis_book: RedisBook) -> None:
    """Its message was still in the queue."""
    follower(redis_book)
    running = claimed(redis_book, "first")
    redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
    admitted = redis_book.admit(TWO)
    assert isinstance(admitted, Over)
    assert (admitted.told, admitted.view.shown["text"]) == (False, ANSWER.text)


@pytest.mark.parametrize("end", ["cancelled", "expired", "gone"])
def test_a_follower_goes_its_own_way_where_the_first_was_given_up(redis_book: RedisBook, end: str) -> None:
    """That was its own caller's deadline or wish."""
    follower(redis_book, deadline=300)
    running = claimed(redis_book, "first")
    waits(redis_book)
    if end == "gone":
        redis_book.run(redis_book.redis.delete(keys.job("first")))
        redis_book.tick(LOOKS_S)
    else:
        redis_book.settle(running, answered(running), Status(end))
    assert follows(redis_book) == ["goes"]
    assert permit(redis_book.admit(TWO)).stage == "a"


def test_a_follower_ends_as_the_first_where_that_failed(redis_book: RedisBook) -> None:
    """And says whose end it is."""
    follower(redis_book)
    running = claimed(redis_book, "first")
    waits(redis_book)
    redis_book.settle(running, answered(running), Status.EXHAUSTED)
    follows(redis_book)
    shown = redis_book.view()
    assert (shown["status"], shown["why"]) == (
        "exhausted", "job first has the same idempotency key, and ended so",
    )  # fmt: skip


def test_a_follower_has_its_own_deadline_and_its_own_cancel(redis_book: RedisBook) -> None:
    """The first one goes on."""
    follower(redis_book, deadline=20)
    claimed(redis_book, "first")
    waits(redis_book)
    redis_book.tick(20.001)
    assert needs(redis_book) == []
    assert (redis_book.view()["status"], redis_book.view("first")["status"]) == ("expired", "running")


def test_a_key_stands_for_one_request(redis_book: RedisBook) -> None:
    """Another job gets the first one's id, or is refused where it asks something else; the deadline may differ."""
    assert redis_book.submitted("a", job="first", key="k") == ["new", "queued"]
    assert redis_book.submitted("a", key="k", deadline=5) == ["same", "first"]
    assert redis_book.submitted("a", key="k", local_only=True) == ["other", "first"]
    assert redis_book.submitted("a", job="first", key="k") == ["known", "queued"]
    assert redis_book.submitted("a", job="first", key="k", local_only=True) == ["other", "first"]
    assert redis_book.submitted("a", job="another", key="l") == ["new", "queued"]
    name = next(iter(redis_book.run(redis_book.redis.keys("staffel:idempotency:*"))))
    assert 0 < redis_book.ttl(name) <= KEPT.idempotency_ttl


def test_where_several_follow_one_that_was_given_up_one_is_asked(redis_book: RedisBook) -> None:
    """All of them asked at once; now the first has the key."""
    follower(redis_book)
    assert redis_book.submitted("a", job="third", key="k", mode="follow") == ["new", "queued"]
    claimed(redis_book, "first")
    waits(redis_book)
    third = redis_book.admit(visit("third", "two"))
    assert isinstance(third, Follows)
    redis_book.cancel("first")
    redis_book.dies(ONE.owner)
    redis_book.cancel("first")
    redis_book.tick(LOOKS_S)
    found(redis_book)
    assert redis_book.run(redis_book.state.open.follow("j", "first", redis_book.ms)) == ["goes"]
    assert redis_book.run(redis_book.state.open.follow("third", "first", redis_book.ms))[0] == "waits"
    assert redis_book.view("third")["follows"] == "j"
