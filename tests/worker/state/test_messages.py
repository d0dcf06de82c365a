"""Where a message may be, and what becomes of a job whose message is nowhere."""

from __future__ import annotations

import json

from config.celery import UNACKED, UNACKED_INDEX
from staffel_wire.message import envelope
from tests.worker.state.books import RedisBook
from tests.worker.state.calls import admit
from tests.worker.state.rounds import LOOKS_S, claimed, found
from tests.worker.state.test_parking import parked, throttle
from worker.state.open_jobs import HELD_S


def held(book: RedisBook, job: str, age_s: float) -> None:
    """A message that a consumer holds, as kombu writes it down."""
    message = [json.loads(envelope(job, "cloud")), "", "cloud"]
    book.run(book.redis.hset(UNACKED, job, json.dumps(message)))
    book.run(book.redis.zadd(UNACKED_INDEX, {job: book.now - age_s}))


def test_messages_are_seen_in_every_list_of_a_queue_and_in_the_hands_of_the_living(redis_book: RedisBook) -> None:
    """Not in those of the dead, and whatever else lies there."""
    many = [f"j{number}" for number in range(450)]
    redis_book.run(redis_book.redis.lpush("cloud", *(envelope(job, "cloud") for job in many)))
    redis_book.run(redis_book.redis.lpush("cloud", "no JSON", "[]", '{"properties": 3}', "null"))
    redis_book.run(redis_book.redis.lpush("cloud\x06\x166", envelope("later", "cloud")))
    redis_book.run(redis_book.redis.lpush("ollama", envelope("lane", "ollama")))
    held(redis_book, "alive", HELD_S - 1)
    held(redis_book, "dead", HELD_S + 1)
    redis_book.run(redis_book.redis.zadd(UNACKED_INDEX, {"acked": redis_book.now}))

    def known(*lanes: str) -> frozenset[str]:
        return redis_book.run(redis_book.state.open.whereabouts(lanes, redis_book.ms)) - {""}

    assert known("cloud") == {*many, "later", "alive"}
    assert known("ollama", "nowhere") == {"lane", "alive"}
    redis_book.run(redis_book.redis.delete("cloud", "cloud\x06\x166", "ollama", UNACKED, UNACKED_INDEX))


def test_a_lost_message_is_sent_again_unless_the_job_has_gone_on(redis_book: RedisBook) -> None:
    """The one who missed it may have looked while it was under way."""
    redis_book.submit("a", deadline=90)
    redis_book.tick(LOOKS_S)
    (one,) = found(redis_book)

    def requeued() -> bool:
        return redis_book.run(redis_book.state.open.requeue("j", one.mark, redis_book.ms))

    assert [requeued(), requeued()] == [True, False]
    claimed(redis_book)
    assert not requeued()


def test_a_parked_jobs_message_that_got_lost_in_a_full_queue_is_sent_again(redis_book: RedisBook) -> None:
    """It was sent once more only where its lane's queue was empty, and a busy one never is."""
    for job in ("lost", "there"):
        throttle(redis_book, "a", 5)
        parked(admit(redis_book, "a", job=job, deadline=300))
        assert redis_book.park(job, f"send {job}")
    redis_book.tick(5)
    assert sorted(redis_book.feed()) == ["lost", "there"]
    redis_book.run(redis_book.redis.lpush("cloud", envelope("another", "cloud"), envelope("there", "cloud")))
    redis_book.tick(45)
    assert redis_book.feed() == ["lost"]
    redis_book.run(redis_book.redis.delete("cloud"))
