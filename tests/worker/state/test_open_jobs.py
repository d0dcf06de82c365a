"""What housekeeping finds in the jobs that have not ended, and what it does about each."""

from __future__ import annotations

import pytest

from staffel_wire import keys
from tests.worker.state.books import RedisBook
from tests.worker.state.calls import visit
from tests.worker.state.rounds import DEAD_S, LOOKS_S, ME, SOONER_S, claimed, found, needs, open_jobs
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, failed, over, permit, told
from worker.failover.answer import Status
from worker.failover.state import Settlement
from worker.state.open_jobs import Found, Need


def test_a_new_job_is_looked_at_after_some_time_and_sought(redis_book: RedisBook) -> None:
    """Again and again for as long as it waits; its message should be somewhere."""
    redis_book.submit("a", deadline=90)
    assert needs(redis_book) == []
    for _ in range(3):
        redis_book.tick(LOOKS_S)
        assert found(redis_book) == [Found("j", Need.SEEKS, "cloud", "", str(redis_book.field("enqueued_at")))]
        assert needs(redis_book) == []


def test_a_job_of_a_living_worker_is_left_alone(redis_book: RedisBook) -> None:
    """However long its call takes; once it has ended nobody looks any more."""
    redis_book.submit("a", deadline=90)
    running = claimed(redis_book)
    for _ in range(20):
        redis_book.tick(SOONER_S)
        assert needs(redis_book) == []
    redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER)
    assert open_jobs(redis_book) == []


def test_a_job_whose_worker_has_died_is_sent_again(redis_book: RedisBook) -> None:
    """Within the time of a death and one look; its call is told as unknown by whoever takes it."""
    redis_book.submit("a", deadline=90)
    claimed(redis_book)
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == []
    redis_book.dies(ONE.owner)
    redis_book.tick(SOONER_S)
    assert needs(redis_book) == [("j", Need.SENDS)]
    assert (redis_book.view()["status"], redis_book.field("deaths")) == ("queued", "1")
    assert permit(redis_book.admit(TWO)).stage == "a"
    assert told(redis_book) == [(1, "a", "unknown", "crashed"), (2, "a", "started", None)]


def test_a_reply_that_was_waiting_when_its_worker_was_taken_for_dead_still_counts(redis_book: RedisBook) -> None:
    """Nobody has asked anew yet: it is paid, and whoever gets the message finds the job answered."""
    redis_book.submit("a", deadline=90)
    running = claimed(redis_book)
    redis_book.dies(ONE.owner)
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == [("j", Need.SENDS)]
    assert redis_book.settle(running, answered(running), Status.ANSWERED, ANSWER) is not None
    assert over(redis_book.admit(TWO)).view.status is Status.ANSWERED


def test_a_job_that_kills_its_workers_ends_here(redis_book: RedisBook) -> None:
    """No worker takes it a fourth time."""
    redis_book.submit("a", deadline=3600)
    for death in range(3):
        claimed(redis_book)
        redis_book.dies(ONE.owner)
        redis_book.tick(LOOKS_S)
        assert needs(redis_book) == ([("j", Need.SENDS)] if death < 2 else [])
    shown = redis_book.view()
    assert (shown["status"], shown["why"]) == (
        "exhausted", "poison: its worker died or its walk broke off 3 times (max_deliveries)",
    )  # fmt: skip


@pytest.mark.parametrize("parks", [False, True])
def test_a_job_past_its_deadline_ends_though_nobody_serves_its_lane(redis_book: RedisBook, parks: bool) -> None:
    """And though nobody asks for it: at its deadline, not at the next look."""
    redis_book.submit("lane", lane="ollama", deadline=LOOKS_S + 3)
    if parks:
        redis_book.switch("lane", "off", 5)
        redis_book.admit(visit("j", lane="ollama"))
        assert redis_book.park()
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == ([] if parks else [("j", Need.SEEKS)])
    redis_book.tick(3.001)
    assert needs(redis_book) == []
    assert redis_book.view()["status"] == "expired"
    assert open_jobs(redis_book) == []


def test_a_living_worker_may_end_its_late_job_itself(redis_book: RedisBook) -> None:
    """It has as long as a death takes, then the job ends without it."""
    redis_book.submit("a", deadline=15)
    claimed(redis_book)
    redis_book.tick(15.001)
    assert needs(redis_book) == []
    assert redis_book.view()["status"] == "running"
    redis_book.tick(DEAD_S)
    assert needs(redis_book) == []
    assert redis_book.view()["status"] == "expired"


@pytest.mark.parametrize("ends", ["expired", "poison", "cancelled"])
def test_a_reply_that_comes_after_its_job_was_ended_by_others_changes_nothing(redis_book: RedisBook, ends: str) -> None:
    """A paused worker's: its answer had stood in the ledger of a job that had ended without one."""
    redis_book.submit("a", deadline=15 if ends == "expired" else 3600)
    for _ in range(3 if ends == "poison" else 1):
        running = claimed(redis_book)
        redis_book.dies(ONE.owner)
        if ends == "cancelled":
            redis_book.cancel()
        redis_book.tick(15.001)
        found(redis_book)
    shown = redis_book.view()
    assert shown["status"] == ("exhausted" if ends == "poison" else ends)
    late = redis_book.settled(running, answered(running), Settlement(Status.ANSWERED, ANSWER)).view
    assert late is not None
    assert late.shown == redis_book.view()
    last = late.shown["attempts"][-1]
    assert (last["outcome"], last["cost_usd"]) == ("unknown", 0.000123), "what it cost is told all the same"
    assert {**late.shown, "attempts": [], "cost_usd": None} == {**shown, "attempts": []}


def test_a_job_that_was_told_to_wait_and_is_in_no_line_is_sent_again(redis_book: RedisBook) -> None:
    """Its worker died in between."""
    redis_book.submit("a", deadline=90)
    redis_book.switch("a", "off", 60)
    redis_book.admit(ONE)
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == [("j", Need.SENDS)]
    redis_book.admit(TWO)
    assert redis_book.park()
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == []


def test_what_is_gone_is_looked_at_no_more(redis_book: RedisBook) -> None:
    """Its record had an end."""
    redis_book.submit("a", deadline=90)
    redis_book.run(redis_book.redis.delete(keys.job("j")))
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == []
    assert open_jobs(redis_book) == []


def test_who_has_slept_judges_nobody(redis_book: RedisBook) -> None:
    """The machine woke up, and the housekeeper looked before others had been heard: their jobs were asked again."""
    redis_book.submit("a", deadline=300)
    claimed(redis_book)
    assert needs(redis_book) == []
    redis_book.tick(30)
    state = redis_book.state.open
    due = redis_book.run(state.due(redis_book.ms))
    assert due == ["j"]
    assert redis_book.run(state.reconcile(due, ME, redis_book.ms)) == []
    assert redis_book.view()["status"] == "running"
    assert needs(redis_book) == [], "its own beat gives all the others their time anew"
    assert redis_book.run(state.reconcile(due, "cloud/another/2", redis_book.ms)) == [], "it does not keep house"


def test_of_two_housekeepers_one_sends(redis_book: RedisBook) -> None:
    """Each configuration has one: both had read that the job was due."""
    redis_book.submit("a", deadline=90)
    claimed(redis_book)
    redis_book.dies(ONE.owner)
    redis_book.tick(LOOKS_S)
    due = redis_book.run(redis_book.state.open.due(redis_book.ms))
    assert needs(redis_book) == [("j", Need.SENDS)]
    assert redis_book.run(redis_book.state.open.reconcile(due, ME, redis_book.ms)) == []


def test_a_job_that_nobody_calls_has_killed_nobody(redis_book: RedisBook) -> None:
    """Its worker died between two calls; it is put back all the same."""
    redis_book.submit("a", "b", deadline=3600)
    running = claimed(redis_book)
    redis_book.settle(running, failed(running))
    redis_book.dies(ONE.owner)
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == [("j", Need.SENDS)]
    assert redis_book.field("deaths") is None


def test_a_cancelled_job_whose_worker_died_is_over(redis_book: RedisBook) -> None:
    """It was marked, and its worker died before it saw that."""
    redis_book.submit("a", deadline=90)
    claimed(redis_book)
    redis_book.cancel()
    redis_book.dies(ONE.owner)
    redis_book.tick(LOOKS_S)
    assert needs(redis_book) == []
    assert redis_book.view()["status"] == "cancelled"


def test_a_job_that_breaks_its_walks_ends_as_poison(redis_book: RedisBook) -> None:
    """Its request cannot be read by this version, for one: that is no end of the worker, and no loop either."""
    redis_book.submit("a", deadline=3600)
    for broken in range(3):
        claimed(redis_book)
        assert redis_book.run(redis_book.state.hand_back("j", ONE.owner, redis_book.ms, died=True))
        assert redis_book.view()["status"] == ("queued" if broken < 2 else "exhausted")
    assert str(redis_book.view()["why"]).startswith("poison")


def test_a_settle_of_a_job_without_a_record_says_so(redis_book: RedisBook) -> None:
    """Redis came back empty: whoever waits is told, as a delivery of it is."""
    redis_book.submit("a", deadline=90)
    running = claimed(redis_book)
    redis_book.run(redis_book.redis.delete(keys.job("j")))
    assert redis_book.settled(running, answered(running), Settlement(Status.ANSWERED, ANSWER)).gone


def test_a_job_whose_stage_is_not_asked_again_waits_where_its_next_one_runs(redis_book: RedisBook) -> None:
    """The lane's only worker had died in it: the job waited there till its end, with a living stage in the cloud."""
    redis_book.submit("lane-once", "a", lane="ollama", deadline=90)
    on_the_lane = visit("j", lane="ollama")
    redis_book.born(on_the_lane.owner)
    permit(redis_book.admit(on_the_lane))
    redis_book.dies(on_the_lane.owner)
    redis_book.tick(LOOKS_S)
    (one,) = found(redis_book)
    assert (one.need, one.queue, redis_book.field("lane")) == (Need.SENDS, "cloud", "cloud")
    assert permit(redis_book.admit(TWO)).stage == "a"


def test_a_cancel_of_what_has_no_record_is_kept(redis_book: RedisBook) -> None:
    """A foreign message may wait in a queue; whoever takes it looks for the wish."""
    assert redis_book.cancelled() == "unknown"
    assert 0 < redis_book.ttl(keys.revoked("j")) <= keys.REVOKED_TTL_S
