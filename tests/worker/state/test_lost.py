"""What Redis has lost or kept from before, and what workers could not tell it meanwhile."""

from __future__ import annotations

from config.stages import identity
from staffel_wire import keys
from tests.worker.state.books import STAGES, RedisBook
from tests.worker.state.calls import ask, lets, settle
from tests.worker.state.test_contract import ONE, TWO, failed, permit
from worker.failover.attempt import Reason
from worker.failover.state import Settlement, Taken


def test_a_server_that_lost_its_scripts_is_given_them_again(redis_book: RedisBook) -> None:
    """As after a restart."""
    redis_book.submit("a", "b")
    first = permit(redis_book.admit(ONE))
    redis_book.run(redis_book.redis.script_flush())
    assert redis_book.settle(first, failed(first)) is None
    redis_book.run(redis_book.redis.script_flush())
    assert permit(redis_book.admit(first.visit)).stage == "b"


def test_a_server_that_lost_the_rules_is_given_them_again(redis_book: RedisBook) -> None:
    """As after a restart without its data, or a day; they are written down once, and end by themselves."""
    redis_book.submit("a", "b")
    first = permit(redis_book.admit(ONE))
    (rules,) = redis_book.run(redis_book.redis.keys("staffel:rules:*"))
    assert 0 < redis_book.ttl(rules) <= keys.RULES_TTL_S
    redis_book.run(redis_book.redis.delete(rules))
    assert redis_book.settle(first, failed(first)) is None
    assert redis_book.run(redis_book.redis.keys("staffel:rules:*")) == [rules]


def test_a_stage_of_which_an_older_version_wrote_is_closed_as_any_other(redis_book: RedisBook) -> None:
    """Its hash had an id and no generation, so that nothing that it said was heard."""
    redis_book.run(redis_book.redis.hset(keys.stage("a"), mapping={"id": identity(STAGES["a"]), "dropped": "[]"}))
    redis_book.run(redis_book.redis.expire(keys.stage("a"), 86_400))
    settle(redis_book, ask(redis_book, "a", "b"), Reason.THROTTLED, throttled=True, closed_s=60)
    assert not lets(redis_book, "a")


def test_a_job_that_is_asked_anew_is_not_ended_by_its_former_life(redis_book: RedisBook) -> None:
    """A worker that was thought dead answered the new question with the old one's text."""
    redis_book.submit("a", "b")
    redis_book.born(ONE.owner)
    before = permit(redis_book.admit(ONE))
    redis_book.dies(ONE.owner)
    assert redis_book.cancelled() == "cancelled"
    assert redis_book.submitted("a", "b", again=True) == ["new", "queued"]
    assert redis_book.settled(before, failed(before), Settlement()).fenced
    assert redis_book.admit(before.visit) == Taken(known=True)
    assert permit(redis_book.admit(TWO)).n == 1


def beats(book: RedisBook, *owners: str) -> None:
    for owner in owners:
        book.run(book.state.beat(owner, [], book.ms))


def test_nobody_is_dead_for_what_was_not_heard_while_nobody_could_be(redis_book: RedisBook) -> None:
    """Redis was away, or the machine asleep: the first worker to be heard again took the jobs of all others."""
    beats(redis_book, ONE.owner, TWO.owner)
    redis_book.submit("a")
    permit(redis_book.run(redis_book.state.admit(ONE, redis_book.ms)))
    redis_book.tick(30)
    beats(redis_book, TWO.owner)
    assert redis_book.run(redis_book.state.admit(TWO, redis_book.ms)) == Taken(known=True)


def test_who_alone_was_away_makes_nobody_live(redis_book: RedisBook) -> None:
    """Its own line to Redis was cut: each time, it gave the dead their time anew."""
    beats(redis_book, ONE.owner, TWO.owner)
    redis_book.submit("a")
    permit(redis_book.run(redis_book.state.admit(ONE, redis_book.ms)))
    redis_book.tick(8)
    beats(redis_book, "cloud/three/3")
    redis_book.tick(8)
    beats(redis_book, TWO.owner)
    assert permit(redis_book.run(redis_book.state.admit(TWO, redis_book.ms))).stage == "a"


def test_who_was_dead_before_stays_dead(redis_book: RedisBook) -> None:
    """Redis came and went several times, and nobody's job went on."""
    beats(redis_book, ONE.owner)
    redis_book.submit("a")
    permit(redis_book.run(redis_book.state.admit(ONE, redis_book.ms)))
    redis_book.tick(5)
    beats(redis_book, TWO.owner)
    redis_book.tick(7)
    beats(redis_book, TWO.owner)
    assert permit(redis_book.run(redis_book.state.admit(TWO, redis_book.ms))).stage == "a"


def test_a_worker_of_the_future_is_dead(redis_book: RedisBook) -> None:
    """The server's clock was set back by an hour; those who live are heard again within a second."""
    redis_book.submit("a")
    redis_book.run(redis_book.state.beat(ONE.owner, [], redis_book.ms + 3_600_000))
    permit(redis_book.run(redis_book.state.admit(ONE, redis_book.ms)))
    permit(redis_book.run(redis_book.state.admit(TWO, redis_book.ms)))
