"""Celery hears of every end, once, whoever has to tell it."""

from __future__ import annotations

from dataclasses import replace

from staffel_wire import keys
from tests.worker.state.books import RedisBook
from tests.worker.state.rounds import claimed, found, needs, open_jobs
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, over
from worker.failover.answer import Status
from worker.failover.state import Taken
from worker.state.open_jobs import Found, Need


def test_celery_is_told_of_an_end_that_no_worker_saw_until_it_has_heard(redis_book: RedisBook) -> None:
    """A message goes to a queue that is served, and may get lost in its turn."""
    redis_book.submitted("a", celery="1", signature="more than plain", deadline=90)
    redis_book.cancel()
    queued = str(redis_book.field("enqueued_at"))
    for seconds in (15, 15, 30):
        assert found(redis_book) == [Found("j", Need.TELLS, "cloud", "more than plain", queued)]
        assert needs(redis_book) == []
        redis_book.tick(seconds)
    assert not over(redis_book.admit(TWO)).told
    redis_book.run(redis_book.state.open.told("j"))
    assert needs(redis_book) == []
    assert (open_jobs(redis_book), redis_book.field("signature")) == ([], None)


def test_celery_hears_of_an_answer_whose_worker_died_in_telling_it(redis_book: RedisBook) -> None:
    """Between the settle and Celery's own result. A living one is left alone with it, up to a minute."""
    for job, dies in (("j", True), ("k", False)):
        redis_book.submitted("a", job=job, celery="1", deadline=90)
        running = claimed(redis_book, job)
        redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
        assert redis_book.admit(replace(TWO, job=job)) == Taken(known=True)
        if dies:
            redis_book.dies(ONE.owner)
            assert not over(redis_book.admit(replace(TWO, job=job))).told
        redis_book.tick(15)
        assert needs(redis_book) == ([(job, Need.TELLS)] if dies else [])
        redis_book.run(redis_book.state.open.told("j"))
    redis_book.tick(15)
    assert needs(redis_book) == []
    redis_book.tick(30)
    assert needs(redis_book) == [("k", Need.TELLS)]
    assert not over(redis_book.admit(replace(TWO, job="k"))).told


def test_who_gets_a_message_once_more_learns_that_celery_has_heard(redis_book: RedisBook) -> None:
    """It does not hear it a second time; nobody looks at the job any more."""
    redis_book.submitted("a", celery="1", signature="more than plain", deadline=90)
    redis_book.run(redis_book.state.open.told("j"))
    running = claimed(redis_book)
    redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
    redis_book.run(redis_book.state.open.told("j"))
    assert over(redis_book.admit(TWO)).told
    assert (open_jobs(redis_book), redis_book.field("signature")) == ([], None)
    redis_book.run(redis_book.state.open.told("nowhere"))
    assert not redis_book.run(redis_book.redis.exists(keys.job("nowhere")))


def test_of_two_deliveries_of_an_end_one_tells_it(redis_book: RedisBook) -> None:
    """Two free places took both within a millisecond, and callbacks ran twice; a lost reply is asked again."""
    redis_book.submitted("a", celery="1", deadline=90)
    redis_book.cancel()
    for owner in (ONE.owner, TWO.owner):
        redis_book.born(owner)
    assert not over(redis_book.admit(ONE)).told
    assert not over(redis_book.admit(ONE)).told
    assert redis_book.admit(TWO) == redis_book.admit(replace(ONE, delivery="another")) == Taken(known=True)
    redis_book.dies(ONE.owner)
    assert not over(redis_book.admit(TWO)).told


def test_celery_is_told_again_where_it_has_heard_something_else_since(redis_book: RedisBook) -> None:
    """A paused worker woke up, and wrote a state over the end."""
    redis_book.submitted("a", celery="1", deadline=90)
    redis_book.cancel()
    redis_book.run(redis_book.state.open.told("j"))
    assert open_jobs(redis_book) == []
    redis_book.run(redis_book.state.open.untold("j", redis_book.ms))
    assert needs(redis_book) == [("j", Need.TELLS)]


def test_a_celery_caller_who_joins_a_clients_job_hears_of_its_end(redis_book: RedisBook) -> None:
    """It was submitted by a client, under an id that a task has now."""
    redis_book.submit("a", deadline=90)
    running = claimed(redis_book)
    redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
    assert redis_book.submitted("a", celery="1") == ["known", "answered"]
    assert needs(redis_book) == []
    redis_book.dies(ONE.owner)
    redis_book.tick(15)
    assert needs(redis_book) == [("j", Need.TELLS)]
