"""What is kept of a job that ended without an answer, how it is walked again, and how it is thrown away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from config.file import General
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Offer, Plan
from staffel_wire.dead import DeadLetter, dropping, listed, looking, newest, replaying, shown
from staffel_wire.ends import polling
from tests.worker.state.books import CHAINS, STAGES, RedisBook, price
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, failed, over, permit, told
from worker.failover.answer import Status
from worker.failover.state import Permit, Settlement, Visit
from worker.state.redis import RedisState

OFFERS = tuple(
    Offer(name, stage.lane, stage.local) for name, stage in STAGES.items() if name in {"a", "b", "home", "lane"}
)
GONE = ("ended_at", "answer", "why", "retry_at", "cancel", "follows", "teller", "permit", "signature", "throttled:0")


class KeepingBook(RedisBook):
    """Its workers and clients keep dead letters for 500 s."""

    general = General(answer_ttl=100, ledger_ttl=1000, dead_ttl=500)
    catalogue = Catalogue({"default": Plan(OFFERS, 90)}, answer_ttl=100, ledger_ttl=1000, dead_ttl=500)

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.state = RedisState(self.redis, STAGES, self.general, CHAINS, price)

    def dies_of(self, *plan: str, job: str = "j", visit: Visit = ONE, **fields: Any) -> None:
        """Every stage of the plan fails."""
        self.submit(*plan, job=job, **fields)
        self.fails(job, visit)

    def fails(self, job: str = "j", visit: Visit = ONE) -> None:
        at = replace(visit, job=job)
        while isinstance(one := self.admit(at), Permit):
            self.settled(one, failed(one), Settlement())
            at = one.visit
        over(one)

    def letters(self) -> list[DeadLetter]:
        jobs = self.script("dead", *newest())[::2]
        replies = self.script("dead", *looking(jobs, "brief")) if jobs else []
        return [listed(job, one) for job, one in zip(jobs, replies, strict=True) if not isinstance(one, str)]

    def letter(self, job: str = "j", *, request: bool = False) -> dict[str, Any]:
        (reply,) = self.script("dead", *looking([job], "request" if request else "whole"))
        assert not isinstance(reply, str), reply
        return shown(job, reply)

    def replay(self, job: str = "j", from_stage: str | None = None, deadline: float | None = None,
               catalogue: Catalogue | None = None) -> list[str]:  # fmt: skip
        return list(self.script("replay", *replaying(job, from_stage, deadline, catalogue or self.catalogue, self.ms)))

    def drop(self, *jobs: str) -> list[str]:
        return list(self.script("drop", *dropping(jobs, self.general.answer_ttl)))

    def record(self, job: str = "j") -> Mapping[str, str]:
        return self.run(self.redis.hgetall(keys.job(job)))

    def queued(self, lane: str) -> list[Any]:
        return [json.loads(one)["headers"]["id"] for one in self.run(self.redis.lrange(lane, 0, -1))]


@pytest.fixture
def keeping(no_leaked_keys: Redis, redis_url: str) -> Iterator[KeepingBook]:
    book = KeepingBook(redis_url)
    yield book
    book.close()


def test_an_exhausted_job_is_kept_whole_for_its_time(keeping: KeepingBook) -> None:
    """Its request, its plan and all attempts; the list holds no request, and says what was called last."""
    keeping.dies_of("a", "b")
    assert keeping.holds_request()
    assert 400 < keeping.ttl(keys.job("j")) <= 500
    assert 500 < keeping.ttl(keys.attempts("j")) <= 1000
    (letter,) = keeping.letters()
    assert (letter.job, letter.status, letter.chain, letter.attempts) == ("j", "exhausted", "default", 2)
    assert (letter.stage, letter.reason, letter.why, letter.label) == ("b", "server_error", None, None)
    whole = keeping.letter()
    assert (whole["plan"], whole["status"], len(whole["attempts"])) == (["a", "b"], "exhausted", 2)
    assert "request" not in whole
    assert keeping.letter(request=True)["request"] == {"prompt": "Why?"}


def test_skips_are_not_told_where_a_call_was_made(keeping: KeepingBook) -> None:
    """What a host said says more than that the next stage takes no such job; without a call, the last skip is told."""
    keeping.dies_of("a", "blind", images=True)
    assert [(one.attempts, one.stage, one.reason) for one in keeping.letters()] == [(2, "a", "server_error")]
    keeping.submit("b", "a", job="k", local_only=True)
    over(keeping.admit(replace(ONE, job="k")))
    keeping.submit("a", job="l", deadline=30)
    keeping.tick(31)
    over(keeping.admit(replace(ONE, job="l")))
    found = {one.job: (one.status, one.attempts, one.stage, one.reason) for one in keeping.letters()}
    assert next(iter(found)) == "l"
    assert found["k"] == ("exhausted", 2, "a", "local_only")
    assert found["l"] == ("expired", 0, None, None)


@pytest.mark.parametrize("end", ["answered", "refused", "cancelled"])
def test_other_ends_keep_nothing(keeping: KeepingBook, end: str) -> None:
    """Nobody would ask the same again: what was asked is forgotten."""
    keeping.submit("a")
    if end == "cancelled":
        assert keeping.cancelled() == "cancelled"
    else:
        one = permit(keeping.admit(ONE))
        if end == "answered":
            keeping.settle(one, answered(one), Status.ANSWERED, ANSWER)
        else:
            keeping.settle(one, failed(one), Status.REFUSED)
    assert keeping.view()["status"] == end
    assert not keeping.holds_request()
    assert keeping.letters() == []
    assert keeping.replay() == ["none", end]
    assert keeping.queued("cloud") == []


def test_without_a_time_to_keep_them_there_are_none(redis_book: RedisBook) -> None:
    """`dead_ttl = 0`: as if they were answered."""
    redis_book.submit("a")
    one = permit(redis_book.admit(ONE))
    redis_book.settle(one, failed(one), Status.EXHAUSTED)
    assert not redis_book.holds_request()
    assert redis_book.script("dead", *newest()) == []


def test_the_set_forgets_what_is_over(keeping: KeepingBook) -> None:
    """Each new one takes out those whose time is over; the set itself ends with the last."""
    keeping.dies_of("a", job="old")
    keeping.tick(501)
    keeping.dies_of("a", job="new")
    assert keeping.run(keeping.redis.zrange(keys.DEAD, 0, -1)) == ["new"]
    assert 400 < keeping.ttl(keys.DEAD) <= 500


def test_one_whose_record_is_gone_is_taken_out_of_the_set(keeping: KeepingBook) -> None:
    """Redis ends a record by its time to live, and tells nobody."""
    for job in ("j", "k"):
        keeping.dies_of("a", job=job)
    keeping.run(keeping.redis.delete(keys.job("k")))
    assert [letter.job for letter in keeping.letters()] == ["j"]
    assert keeping.run(keeping.redis.zrange(keys.DEAD, 0, -1)) == ["j"]


def test_a_replayed_job_is_as_new_and_its_former_life_is_told(keeping: KeepingBook) -> None:
    """The same id is answered: attempts are numbered on, times are of this life, costs of both."""
    keeping.tick(3)
    keeping.dies_of("a", "b", deadline=30)
    for name in GONE:
        keeping.run(keeping.redis.hset(keys.job("j"), name, "1"))
    keeping.run(keeping.redis.set("celery-task-meta-j", "FAILURE"))
    fence = int(keeping.record()["fence"])
    keeping.tick(60)
    assert keeping.replay() == ["queued", "cloud"]
    record = keeping.record()
    assert not set(GONE) & set(record)
    anew = {
        "status": "queued", "next": "0", "again": "[]", "deaths": "0", "owner": "", "queued_ms": "0",
        "deadline_ms": "30000", "fence": str(fence + 1),
    }  # fmt: skip
    assert {name: record[name] for name in anew} == anew
    assert [int(record[name]) - keeping.ms for name in ("submitted_at", "enqueued_at", "deadline_at")] == [0, 0, 30_000]
    assert 100 < keeping.ttl(keys.job("j")) <= 130
    assert keeping.ttl(keys.attempts("j")) > 900
    assert keeping.queued("cloud") == ["j"]
    assert keeping.run(keeping.redis.zscore(keys.OPEN, "j")) == keeping.ms + 10_000
    assert keeping.run(keeping.redis.exists(keys.DEAD, "celery-task-meta-j")) == 0
    keeping.tick(1)
    one = permit(keeping.admit(TWO))
    assert (one.stage, one.n) == ("a", 3)
    keeping.tick(1)
    assert keeping.settle(one, answered(one), Status.ANSWERED, ANSWER) is not None
    found = keeping.view()
    assert (found["status"], found["queued_s"], found["duration_s"]) == ("answered", 1, 2)
    assert [(row["n"], row["stage"], row["outcome"]) for row in found["attempts"]] == [
        (1, "a", "failed"), (2, "b", "failed"), (3, "a", "answered"),
    ]  # fmt: skip
    assert not keeping.holds_request()


def test_who_walked_the_former_life_changes_nothing(keeping: KeepingBook) -> None:
    """A paused worker wakes up after the deadline, the end and the replay of its job."""
    keeping.submit("a", "b", deadline=30)
    keeping.born(ONE.owner)
    before = permit(keeping.admit(ONE))
    keeping.dies(ONE.owner)
    keeping.tick(31)
    keeping.script("poll", *polling(["j"], keeping.general, keeping.ms))
    assert [letter.status for letter in keeping.letters()] == ["expired"]
    assert keeping.replay()[0] == "queued"
    assert keeping.settled(before, answered(before), Settlement(Status.ANSWERED, ANSWER)).fenced
    assert keeping.view()["status"] == "queued"
    assert told(keeping) == [(1, "a", "unknown", "crashed")]


def test_of_two_who_replay_at_once_the_second_learns_it(keeping: KeepingBook) -> None:
    """There is one message, and one walk."""
    keeping.dies_of("a")
    assert keeping.replay() == ["queued", "cloud"]
    assert keeping.replay() == ["none", "queued"]
    assert keeping.queued("cloud") == ["j"]


def test_it_may_begin_with_a_later_stage_on_its_lane(keeping: KeepingBook) -> None:
    """And with more time than before; if what follows fails too, it is a dead letter again."""
    keeping.dies_of("a", "b", deadline=30)
    assert keeping.replay(from_stage="b", deadline=45) == ["queued", "cloud"]
    assert (keeping.record()["next"], keeping.record()["deadline_ms"]) == ("1", "45000")
    keeping.fails()
    assert told(keeping) == [
        (1, "a", "failed", "server_error"), (2, "b", "failed", "server_error"), (3, "b", "failed", "server_error"),
    ]  # fmt: skip
    (letter,) = keeping.letters()
    assert (letter.status, letter.attempts) == ("exhausted", 3)


@pytest.mark.parametrize(
    ("from_stage", "local_only", "lane"), [(None, False, "cloud"), ("lane", False, "ollama"), ("gone", False, "ollama")]
)
def test_the_lane_is_that_of_the_first_stage_which_is_still_there(
    keeping: KeepingBook, from_stage: str | None, local_only: bool, lane: str
) -> None:
    """Lanes change with the configuration, and stages go; the walk passes over what is gone."""
    keeping.submit("a", "gone", "lane", deadline=30)
    keeping.tick(31)
    over(keeping.admit(ONE))
    assert keeping.replay(from_stage=from_stage) == ["queued", lane]
    assert keeping.queued(lane) == ["j"]
    assert keeping.record()["lane"] == lane


def test_what_must_stay_in_the_house_begins_in_the_house(keeping: KeepingBook) -> None:
    """As at its submit: nothing outside is asked, so that no worker outside the lane is needed."""
    keeping.submit("a", "lane", deadline=30, local_only=True, lane="ollama")
    keeping.tick(31)
    keeping.script("poll", *polling(["j"], keeping.general, keeping.ms))
    assert keeping.replay() == ["queued", "ollama"]


def test_a_stage_that_is_not_in_the_plan_is_refused_and_so_is_a_plan_of_which_nothing_is_left(
    keeping: KeepingBook,
) -> None:
    """It stays a dead letter."""
    keeping.dies_of("a", "b")
    assert keeping.replay(from_stage="c") == ["plan", '["a", "b"]']
    nothing = Catalogue({"default": Plan((Offer("lane", "ollama", local=True),), 90)})
    assert keeping.replay(catalogue=nothing) == ["nowhere", '["a", "b"]']
    assert [letter.job for letter in keeping.letters()] == ["j"]
    assert keeping.run(keeping.redis.keys("cloud")) == keeping.run(keeping.redis.keys("ollama")) == []
    assert keeping.replay("unheard-of") == ["none", "unknown"]


def test_a_dropped_one_forgets_what_was_asked_and_not_how_it_ended(keeping: KeepingBook) -> None:
    """For as long as of any other job; its plan stays. It cannot be replayed or dropped again."""
    keeping.dies_of("a", job="j")
    keeping.dies_of("a", job="k")
    keeping.submit("a", job="l")
    assert keeping.drop("j", "l", "unheard-of") == ["dropped", "queued", "unknown"]
    assert not keeping.holds_request()
    assert keeping.holds_request("k")
    assert keeping.holds_request("l")
    assert 0 < keeping.ttl(keys.job("j")) <= 100
    assert (keeping.view()["status"], keeping.record()["plan"]) == ("exhausted", '["a"]')
    assert keeping.run(keeping.redis.zrange(keys.DEAD, 0, -1)) == ["k"]
    assert keeping.replay() == ["none", "exhausted"]
    assert keeping.drop("j") == ["exhausted"]


def test_one_that_is_asked_anew_under_its_id_is_none_any_more(keeping: KeepingBook) -> None:
    """Nobody may replay what is under way."""
    keeping.dies_of("a")
    assert keeping.submitted("a", again=True) == ["new", "queued"]
    assert keeping.letters() == []
    assert keeping.replay() == ["none", "queued"]
