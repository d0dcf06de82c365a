"""What only Redis has: times to live, the scripts that clients call, the heartbeats of processes."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from redis import Redis

from staffel_wire import keys
from tests.worker.state.books import GENERAL, STAGES, RedisBook
from tests.worker.state.test_contract import ANSWER, LANE, ONE, TWO, answered, failed, over, permit, told
from worker.failover.answer import Status
from worker.failover.state import Elsewhere, Taken
from worker.state.connection import connect_sync, trouble
from worker.state.redis import Beat, RedisState

JOB, LEDGER = keys.job("j"), keys.attempts("j")
DEAD_AFTER = keys.WORKER_DEAD_AFTER_MS / 1000


def near(seconds: float) -> object:
    """A time to live that has just been set."""
    return pytest.approx(seconds, abs=5)


def test_a_record_outlives_its_deadline_by_an_answers_time(redis_book: RedisBook) -> None:
    """And a job that ended is kept as long from its end on; the ledger by its own time."""
    redis_book.submit("a", "b", deadline=500)
    assert redis_book.ttl(JOB) == near(600)
    redis_book.tick(50)
    first = permit(redis_book.admit(ONE))
    redis_book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert (redis_book.ttl(JOB), redis_book.ttl(LEDGER)) == (near(GENERAL.answer_ttl), near(GENERAL.ledger_ttl))


@pytest.mark.parametrize("lane", ["cloud", "ollama"])
def test_a_ledger_does_not_end_before_its_job(redis_book: RedisBook, lane: str) -> None:
    """It lived from one attempt on for `ledger_ttl`: a job that waits for longer would have lost it, and its count."""
    day = 86_400
    redis_book.submit("a", "lane" if lane == "ollama" else "b", deadline=day)
    first = permit(redis_book.admit(ONE))
    assert redis_book.ttl(LEDGER) == near(day + GENERAL.ledger_ttl)
    redis_book.tick(100)
    redis_book.settle(first, failed(first))
    assert redis_book.ttl(LEDGER) == near(day - 100 + GENERAL.ledger_ttl)
    redis_book.admit(first.visit)
    assert redis_book.ttl(LEDGER) == near(day - 100 + GENERAL.ledger_ttl)


def test_a_request_is_deleted_when_its_job_ends(redis_book: RedisBook) -> None:
    """Its text is kept no longer than it is needed; all the rest stays to be looked at."""
    redis_book.submit("a")
    assert redis_book.holds_request()
    redis_book.cancel()
    assert not redis_book.holds_request()
    assert redis_book.field("plan") == '["a"]'


def test_submitting_a_known_job_again_changes_nothing(redis_book: RedisBook) -> None:
    """Whatever its state: whoever asks twice by the same id joins the first."""
    redis_book.submit("a", "b")
    before = redis_book.run(redis_book.redis.hgetall(JOB))
    redis_book.tick(5)
    assert redis_book.submitted("b", again=True, message="m") == ["known", "queued"]
    first = permit(redis_book.admit(ONE))
    assert redis_book.submitted("b", again=True, message="m") == ["known", "running"]
    redis_book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert redis_book.submitted("b", again=True, message="m") == ["known", "answered"]
    assert redis_book.field("plan") == before["plan"]
    assert redis_book.run(redis_book.redis.exists("cloud")) == 0, "no message was sent"


def test_a_job_that_ended_unanswered_can_be_asked_anew(redis_book: RedisBook) -> None:
    """Only if that was meant; then nothing of its former life is left but the count of its owners."""
    redis_book.submit("a", "b")
    first = permit(redis_book.admit(ONE))
    redis_book.settle(first, failed(first), Status.EXHAUSTED)
    assert redis_book.submitted("b", message="m") == ["known", "exhausted"]
    redis_book.tick(60)
    assert redis_book.submitted("b", again=True, message="m", label="second") == ["new", "queued"]
    shown = redis_book.view()
    assert (shown["status"], shown["attempts"], shown["duration_s"]) == ("queued", [], 0)
    assert redis_book.field("label") == "second"
    assert redis_book.run(redis_book.redis.lrange("cloud", 0, -1)) == ["m"]
    redis_book.run(redis_book.redis.delete("cloud"))
    assert permit(redis_book.admit(TWO)).stage == "b"


def test_an_owner_of_a_jobs_former_life_cannot_settle_its_new_one(redis_book: RedisBook) -> None:
    """The fence began again at 1, so that a worker taken for dead could end the job that was asked anew."""
    redis_book.submit("a", "b")
    old = permit(redis_book.admit(ONE))
    assert redis_book.cancelled() == "cancelled", "its owner does not live"
    assert redis_book.submitted("a", "b", again=True) == ["new", "queued"]
    new = permit(redis_book.admit(TWO))
    assert redis_book.settle(old, answered(old), Status.ANSWERED, ANSWER) is None
    assert redis_book.admit(old.visit) == Taken(known=True)
    assert told(redis_book) == [(1, "a", "started", None)]
    redis_book.settle(new, failed(new))


def test_the_message_and_the_record_are_written_in_one_step(redis_book: RedisBook) -> None:
    """No job without a message, no message without a job."""
    assert redis_book.submitted("a", message="the message") == ["new", "queued"]
    assert redis_book.run(redis_book.redis.lrange("cloud", 0, -1)) == ["the message"]
    assert redis_book.view()["status"] == "queued"


def test_a_poll_expires_a_waiting_job_at_its_deadline(redis_book: RedisBook) -> None:
    """With no worker anywhere: no caller waits for ever."""
    redis_book.submit("a", deadline=30)
    redis_book.submit("a", deadline=60, job="k")
    redis_book.tick(30)
    assert redis_book.polled("j", "k", "l") == ([], ["queued", "cloud", "queued", "cloud", "unknown", ""])
    redis_book.tick(0.001)
    assert redis_book.polled("j", "k") == ([], ["expired", "cloud", "queued", "cloud"])
    shown = redis_book.view()
    assert (shown["status"], shown["queued_s"], shown["duration_s"]) == ("expired", 30.001, 30.001)
    assert not redis_book.holds_request()
    assert over(redis_book.admit(ONE)).view.status is Status.EXPIRED


def test_a_poll_ends_a_job_whose_worker_died(redis_book: RedisBook) -> None:
    """And closes its ledger: nobody else will."""
    redis_book.submit("a", deadline=30)
    redis_book.admit(ONE)
    redis_book.tick(31)
    assert redis_book.polled("j")[1] == ["expired", "cloud"]
    assert told(redis_book) == [(1, "a", "unknown", "crashed")]


def test_a_poll_gives_a_living_worker_time_to_end_its_job_itself(redis_book: RedisBook) -> None:
    """Then it ends there as well: a worker may live and have lost the job, and its caller waited for ever."""
    redis_book.submit("a", deadline=30)
    redis_book.born(ONE.owner)
    first = permit(redis_book.admit(ONE))
    redis_book.tick(30 + DEAD_AFTER)
    assert redis_book.polled("j")[1] == ["running", "cloud"]
    redis_book.tick(0.001)
    assert redis_book.polled("j")[1] == ["expired", "cloud"]
    view = redis_book.settle(first, answered(first), Status.ANSWERED, ANSWER)
    assert view is not None
    assert (view.status, view.shown["text"]) == (Status.EXPIRED, None)
    assert told(redis_book) == [(1, "a", "unknown", "deadline")]
    assert view.shown["cost_usd"] == 0.000123, "the ledger says what the call cost all the same"


def test_a_poll_says_which_lanes_are_served(redis_book: RedisBook) -> None:
    """By processes that live; two of one lane are two entries."""
    for owner in (ONE.owner, TWO.owner, LANE.owner):
        redis_book.born(owner)
    assert sorted(redis_book.polled()[0]) == ["cloud", "cloud", "ollama"]
    redis_book.dies(LANE.owner)
    redis_book.tick(0.001)
    assert sorted(redis_book.polled()[0]) == ["cloud", "cloud"]


def test_a_cancel_ends_a_waiting_job_at_once(redis_book: RedisBook) -> None:
    """Nobody would end it otherwise."""
    redis_book.submit("a", "b")
    redis_book.tick(4)
    assert redis_book.cancelled() == "cancelled"
    shown = redis_book.view()
    assert (shown["status"], shown["queued_s"], shown["duration_s"], shown["attempts"]) == ("cancelled", 4, 4, [])
    assert redis_book.ttl(JOB) == near(GENERAL.answer_ttl)


def test_a_cancel_of_a_job_that_waits_for_another_lane_ends_it_at_once(redis_book: RedisBook) -> None:
    """Its former owner lives, and has nothing to do with it any more."""
    redis_book.submit("a", "lane")
    redis_book.born(ONE.owner)
    first = permit(redis_book.admit(ONE))
    redis_book.settle(first, failed(first))
    assert isinstance(redis_book.admit(first.visit), Elsewhere)
    assert redis_book.cancelled() == "cancelled"


def test_a_cancel_of_a_running_job_is_its_workers_to_carry_out(redis_book: RedisBook) -> None:
    """It is marked, and the worker's next heartbeat tells it."""
    redis_book.submit("a", "b")
    redis_book.born(ONE.owner)
    redis_book.admit(ONE)
    assert redis_book.run(redis_book.state.beat(ONE.owner, ["j"], redis_book.ms)) == Beat([], keeps=True, feeds=False)
    assert redis_book.cancelled(running=False) == "running", "Celery's plain revoke leaves it alone"
    assert redis_book.run(redis_book.state.beat(ONE.owner, ["j"], redis_book.ms)) == Beat([], keeps=True, feeds=False)
    assert redis_book.cancelled() == redis_book.cancelled() == "cancelling"
    assert redis_book.run(redis_book.state.beat(ONE.owner, ["k", "j"], redis_book.ms)).cancelled == ["j"]


def test_a_cancel_of_a_job_whose_worker_died_ends_it(redis_book: RedisBook) -> None:
    """Nobody is left to carry it out."""
    redis_book.submit("a", "b")
    redis_book.admit(ONE)
    assert redis_book.cancelled() == "cancelled"
    assert told(redis_book) == [(1, "a", "unknown", "crashed")]


@pytest.mark.parametrize("end", [Status.ANSWERED, Status.EXHAUSTED, Status.REFUSED])
def test_a_cancel_of_an_ended_job_tells_its_end(redis_book: RedisBook, end: Status) -> None:
    """And changes nothing; a job that nobody knows is unknown, and none is made of it."""
    redis_book.submit("a")
    first = permit(redis_book.admit(ONE))
    view = redis_book.settle(first, answered(first), end, ANSWER if end is Status.ANSWERED else None)
    assert view is not None
    assert redis_book.cancelled() == end
    assert redis_book.view() == view.shown
    assert redis_book.cancelled("nobody") == "unknown"
    assert redis_book.run(redis_book.redis.exists(keys.job("nobody"))) == 0


def test_a_process_lives_for_ten_seconds_after_its_last_heartbeat(redis_book: RedisBook) -> None:
    """Its jobs are another's from then on, not a millisecond earlier."""
    redis_book.submit("a")
    redis_book.run(redis_book.state.beat(ONE.owner, [], redis_book.ms))
    redis_book.admit(ONE)
    redis_book.tick(DEAD_AFTER - 0.001)
    assert redis_book.admit(TWO) == Taken(known=True)
    redis_book.tick(0.001)
    assert permit(redis_book.admit(TWO)).visit.fence == 2


def test_a_process_that_leaves_is_gone_at_once(redis_book: RedisBook) -> None:
    """A worker that was stopped in order has nothing under way."""
    redis_book.run(redis_book.state.beat(ONE.owner, [], redis_book.ms))
    redis_book.run(redis_book.state.leave(ONE.owner))
    assert redis_book.polled() == ([], [])


def test_processes_that_died_long_ago_are_forgotten(redis_book: RedisBook) -> None:
    """Each start of a worker makes a name of its own: they would pile up."""
    redis_book.run(redis_book.state.beat(ONE.owner, [], redis_book.ms))
    redis_book.tick(61)
    redis_book.run(redis_book.state.beat(TWO.owner, [], redis_book.ms))
    assert redis_book.run(redis_book.redis.zrange(keys.WORKERS, 0, -1)) == [TWO.owner]
    assert redis_book.ttl(keys.WORKERS) == near(86_400)


def test_the_servers_time_is_the_clock(redis_book: RedisBook) -> None:
    """Machines of a cluster do not agree on theirs; a clock is handed in by tests alone."""
    redis_book.now = time.time()
    redis_book.submit("a")
    first = redis_book.run(redis_book.state.admit(ONE))
    assert permit(first).started_at == pytest.approx(time.time(), abs=30)
    assert permit(first).left_s == pytest.approx(90, abs=30)


def test_a_stage_of_a_hundred_names_is_admitted_in_one_script(redis_book: RedisBook) -> None:
    """Every stage of the plan is looked at in one step, its skips written down in it."""
    plan = [f"gone-{number}" for number in range(99)]
    redis_book.submit(*plan, "a")
    first = permit(redis_book.admit(ONE))
    assert (first.stage, first.n, first.of) == ("a", 100, 100)
    assert len(redis_book.view()["attempts"]) == 100


def test_names_and_texts_that_look_like_a_ledgers_own_words_stay_what_they_are(
    redis_book: RedisBook, no_leaked_keys: Redis
) -> None:
    """A row under way is found by its text; a model may be called anything."""
    cruel = '"outcome":"started"'
    stages = {"a": replace(STAGES["a"], model=cruel), "b": STAGES["b"]}
    redis_book.state = RedisState(redis_book.redis, stages, GENERAL)
    redis_book.submit("a", "b")
    first = permit(redis_book.admit(ONE))
    redis_book.settle(first, replace(failed(first), model=cruel))
    redis_book.admit(first.visit)
    redis_book.cancelled()
    assert told(redis_book) == [(1, "a", "failed", "server_error"), (2, "b", "unknown", "crashed")]
    assert redis_book.view()["attempts"][0]["model"] == cruel
    assert {json.loads(row)["n"] for row in no_leaked_keys.hvals(LEDGER)} == {1, 2}


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1/0", "127.0.0.1:6379", "http://127.0.0.1", "redis://h:port/0", "unix:///nowhere"]
)
def test_nothing_answers_where_there_is_no_redis(url: str) -> None:
    """A URL of another kind ended the worker with a traceback."""
    began = time.monotonic()
    said = trouble(url)
    assert said is not None
    assert "does not answer" in said or "is no Redis URL" in said
    assert time.monotonic() - began < 5


def test_a_redis_that_is_there_answers(redis_url: str) -> None:
    """A wrong password is no answer, and the line that says so does not show it."""
    assert trouble(redis_url) is None
    said = trouble(redis_url.replace("redis://:", "redis://:not-"))
    assert said is not None
    assert "refuses the password" in said
    assert "not-" not in said
    with connect_sync(redis_url) as client:
        assert client.ping()
