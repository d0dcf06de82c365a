"""How fast a lane's calls go, where a job stands that waits there, and when the lane is too full for it.

`lane` runs on the lane `ollama`, `a` and `b` on `cloud`; whichever member keeps the state.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from staffel_wire import keys
from staffel_wire.pace import pace_of
from tests.worker.state.books import EPOCH, Book, RedisBook
from tests.worker.state.calls import admit, fails, settle, skips, visit
from tests.worker.state.test_contract import ANSWER, answered, failed, permit, told
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Elsewhere, Lesson, Parked, Permit, Settlement

OWNER = visit("any", "home", "ollama").owner


def called(book: Book, seconds: float, *, stage: str = "lane", lane: str = "ollama", **lesson: Any) -> None:
    """A job of this lane's only stage is called, and answers after so many seconds."""
    book.submit(stage, job="done", lane=lane)
    book.born(visit("done", "home", lane).owner)
    one = permit(book.admit(visit("done", "home", lane)))
    book.tick(seconds)
    settlement = Settlement(Status.ANSWERED, ANSWER, lesson=Lesson(worked=True, **lesson))
    assert book.settled(one, replace(answered(one), duration_s=seconds), settlement).view is not None
    book.forget("done")


def paced(book: Book, seconds: float = 2.0, calls: int = 5) -> None:
    for _ in range(calls):
        called(book, seconds)


def wait(book: Book, *jobs: str) -> None:
    for job in jobs:
        book.submit("lane", job=job, lane="ollama", deadline=4000)


def passed_on(book: Book, *plan: str, job: str = "j", **fields: Any) -> Permit | Elsewhere | Parked:
    """A job in the cloud whose first stage, `a`, has failed: where it goes on."""
    one = permit(admit(book, "a", *plan, job=job, **fields))
    fails(book, one)
    found = book.admit(one.visit)
    assert isinstance(found, Permit | Elsewhere | Parked)
    return found


# --- where a job stands


def test_a_job_that_waits_on_a_lane_is_told_its_place_and_when_it_will_have_ended(book: Book) -> None:
    """Ten calls of 2 s: the third has two before it, and its own."""
    paced(book, calls=10)
    wait(book, "first", "second", "third", "fourth")
    found = book.view("third")["position"]
    assert (found["lane"], found["place"], found["of"], found["eta_s"]) == ("ollama", 3, 4, 6.0)
    assert 5 < found["eta_from_s"] < 6 < found["eta_to_s"] < 7
    first = permit(book.admit(visit("first", "home", "ollama")))
    assert book.view("first")["position"] is None, "it waits no more"
    assert book.view("third")["position"]["place"] == 2
    settle(book, first, Reason.SERVER_ERROR, failed=True)


def test_jobs_in_their_owners_hands_come_first(book: Book) -> None:
    """One is called for 0.5 s now, of 2 s that a call takes, one is prepared: it is the next."""
    paced(book, calls=10)
    wait(book, "j")
    book.says("ollama", OWNER, 2, since=book.now - 0.5)
    found = book.view()["position"]
    assert (found["place"], found["of"], found["eta_s"]) == (2, 2, 5.5)
    book.says("ollama", OWNER, 1)
    assert book.view()["position"]["eta_s"] == 4, "prepared, and nothing is called"
    book.dies(OWNER)
    assert book.view()["position"]["eta_s"] == 2, "what a dead worker had in hand comes back into the queue"


def test_between_two_heartbeats_of_the_owner_the_place_is_right_as_well(book: Book) -> None:
    """When a call has ended the next one begins; whoever asked just then was told that it had nearly ended,
    since what was known was of the one before.
    """
    paced(book, calls=10)
    wait(book, "first", "second", "j")
    book.born(OWNER)
    book.says("ollama", OWNER, 0)
    first = permit(book.admit(visit("first", "home", "ollama")))
    book.tick(1)
    assert book.view()["position"]["eta_s"] == 5, "one is called for a second, one and itself come after it"
    permit(book.admit(visit("second", "home", "ollama")))
    found = book.view()["position"]
    assert (found["place"], found["of"], found["eta_s"]) == (2, 2, 5), "prepared, and still before it"
    book.tick(0.9)
    settle(book, first, Reason.SERVER_ERROR, failed=True)
    found = book.view()["position"]
    assert (found["place"], found["of"]) == (1, 1)
    assert found["eta_s"] > 3.5, "the second has just begun"


def test_little_known_little_said(book: Book) -> None:
    """No call, no time; one or two calls, no range."""
    wait(book, "j")
    found = book.view()["position"]
    assert (found["place"], found["of"], found["eta_s"], found["eta_from_s"]) == (1, 1, None, None)
    called(book, 3)
    found = book.view()["position"]
    assert (found["eta_s"], found["eta_from_s"], found["eta_to_s"]) == (3, None, None)


def test_a_batch_lets_interactive_jobs_go_before_it(book: Book) -> None:
    """But for every tenth that is taken: before the first of a batch go nine, and nine more before the second."""
    paced(book)
    for n in range(25):
        wait(book, f"i{n:02}")
    for n in range(3):
        book.submit("lane", job=f"b{n}", lane="ollama", priority="batch", deadline=4000)
    places = {job: book.view(job)["position"]["place"] for job in ("i00", "i08", "i09", "i24", "b0", "b1", "b2")}
    assert places == {"i00": 1, "i08": 9, "i09": 11, "i24": 27, "b0": 10, "b1": 20, "b2": 28}
    assert {book.view(job)["position"]["of"] for job in ("i00", "b2")} == {28}


def test_in_the_cloud_there_is_no_place(book: Book) -> None:
    """Two hundred are called at once there."""
    book.submit("a")
    assert book.view()["position"] is None


def test_whoever_hands_a_job_on_is_told_where_it_stands_then(book: Book) -> None:
    """What a person reads in Flower is made of it."""
    paced(book)
    wait(book, "first")
    found = passed_on(book, "lane")
    assert isinstance(found, Elsewhere)
    place = found.view.shown["position"]
    assert (place["lane"], place["place"], place["of"], place["eta_s"]) == ("ollama", 2, 2, 4.0)
    assert place == book.view()["position"]


# --- a lane that is too full


def test_a_lane_is_passed_over_where_the_deadline_would_come_before_its_turn(book: Book) -> None:
    """With the numbers; what comes after it in the plan runs."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(15)))
    found = passed_on(book, "lane", "b", deadline=20)
    assert isinstance(found, Permit)
    assert found.stage == "b"
    row = book.view()["attempts"][1]
    assert (row["stage"], row["outcome"], row["reason"]) == ("lane", "skipped", "lane_full")
    assert (row["detail"], row["model"]) == ("about 30 s until its turn, 20 s left", "m-lane")


@pytest.mark.parametrize(("waiting", "goes_to"), [(10, "lane"), (11, "b")])
def test_it_may_wait_for_as_long_as_it_has(book: Book, waiting: int, goes_to: str) -> None:
    """Ten calls of 2 s are 20 s."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(waiting)))
    assert passed_on(book, "lane", "b", deadline=20).stage == goes_to


def test_what_later_stages_have_reserved_is_not_there_for_waiting(book: Book) -> None:
    """`kept` has 20 s of the 38."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(10)))
    assert passed_on(book, "lane", "kept", deadline=38).stage == "kept"
    assert book.view()["attempts"][1]["detail"] == "about 20 s until its turn, 18 s left"
    assert passed_on(book, "lane", "kept", job="k", deadline=40).stage == "lane"


def test_what_the_owner_has_in_hand_counts_too(book: Book) -> None:
    """As long as it lives."""
    paced(book)
    book.says("ollama", OWNER, 2)
    assert passed_on(book, "lane", "b", job="j1", deadline=3).stage == "b"
    book.dies(OWNER)
    assert passed_on(book, "lane", "b", job="j2", deadline=3).stage == "lane"


def test_a_flood_of_a_batch_does_not_keep_interactive_jobs_from_the_lane(book: Book) -> None:
    """They go before it; another job of a batch would wait behind it."""
    paced(book)
    for n in range(300):
        book.submit("lane", job=f"w{n}", lane="ollama", priority="batch", deadline=4000)
    assert passed_on(book, "lane", "b", job="j1", deadline=20).stage == "lane"
    assert passed_on(book, "lane", "b", job="j2", deadline=20, priority="batch").stage == "b"
    assert book.view("j2")["attempts"][1]["detail"] == "about 602 s until its turn, 20 s left"


def test_the_first_of_a_batch_waits_for_nine_interactive_jobs_at_most(book: Book) -> None:
    """As the lane's worker takes them: 18 s of the forty that all of them take."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(20)))
    assert passed_on(book, "lane", "b", job="j1", deadline=17, priority="batch").stage == "b"
    assert book.view("j1")["attempts"][1]["detail"] == "about 18 s until its turn, 17 s left"
    assert passed_on(book, "lane", "b", job="j2", deadline=18, priority="batch").stage == "lane"


def test_nobody_judges_by_few_calls(book: Book) -> None:
    """Five are the first that tell something."""
    paced(book, 100, calls=4)
    wait(book, "w")
    assert passed_on(book, "lane", "b", job="j1", deadline=50).stage == "lane"
    called(book, 100)
    assert passed_on(book, "lane", "b", job="j2", deadline=50).stage == "b"


@pytest.mark.parametrize("off", [(), ("b",)])
def test_the_last_stage_that_could_run_is_taken_however_full_its_lane_is(book: Book, off: tuple[str, ...]) -> None:
    """It neither ends nor is parked for a stage that may run later: its ledger is that of a lane with room."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(30)))
    for stage in off:
        book.switch(stage, "off", 3)
    found = passed_on(book, "lane", *off, deadline=20)
    assert isinstance(found, Elsewhere)
    assert told(book) == [(1, "a", "failed", "server_error")]
    book.born(visit("j", "home", "ollama").owner)
    one = permit(book.admit(visit("j", "home", "ollama")))
    assert (one.stage, one.n, one.place) == ("lane", 2, 1)


def test_what_was_passed_over_before_a_full_lane_stays_written_down(book: Book) -> None:
    """And what comes after it is as if nobody had looked: it is tried after the lane's call."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(30)))
    for stage in ("two", "b"):
        book.switch(stage, "off", 3)
    assert isinstance(passed_on(book, "two", "lane", "b", deadline=20), Elsewhere)
    assert skips(book, "j") == [("two", "switched_off")]
    book.born(visit("j", "home", "ollama").owner)
    one = permit(book.admit(visit("j", "home", "ollama")))
    assert (one.stage, one.n, one.of, one.place) == ("lane", 3, 4, 2)
    book.tick(4)
    fails(book, one)
    assert isinstance(found := book.admit(one.visit), Elsewhere)
    assert found.stage == "b"


def test_a_full_lane_is_tried_again_after_the_rest_of_the_plan(book: Book) -> None:
    """As whatever else was passed over for now."""
    paced(book)
    wait(book, *(f"w{n}" for n in range(15)))
    second = passed_on(book, "lane", "b", deadline=20)
    assert isinstance(second, Permit)
    fails(book, second)
    found = book.admit(second.visit)
    assert isinstance(found, Elsewhere)
    assert (found.stage, book.view()["status"]) == ("lane", "queued")
    assert skips(book, "j") == [("lane", "lane_full")]


def test_a_job_that_waited_on_the_lane_is_not_turned_away_by_those_behind_it(book: Book) -> None:
    """Its turn has come."""
    paced(book)
    book.submit("lane", "b", lane="ollama", deadline=20)
    wait(book, *(f"w{n}" for n in range(30)))
    assert permit(book.admit(visit("j", "home", "ollama"))).stage == "lane"


def test_the_cloud_is_never_full(book: Book) -> None:
    """A job that comes there from a lane is taken by one of many."""
    for n in range(30):
        book.submit("a", job=f"w{n}")
    for _ in range(6):
        called(book, 2, stage="a", lane="cloud")
    book.born(OWNER)
    book.submit("lane", "a", "b", lane="ollama", deadline=3)
    one = permit(book.admit(visit("j", "home", "ollama")))
    fails(book, one)
    found = book.admit(one.visit)
    assert isinstance(found, Elsewhere)
    assert found.stage == "a"


# --- what stands in Redis


def test_the_pace_is_of_the_last_fifty_calls(redis_book: RedisBook, no_leaked_keys: Redis) -> None:
    """Length and tokens of each, and for how long of the last minute a call was under way."""
    for n in range(60):
        called(redis_book, 1 + n / 1000)
    pace = pace_of(no_leaked_keys.hget(keys.PACE, "ollama"))
    assert [ms for ms, _, _ in pace.calls] == [1000 + n for n in range(10, 60)]
    assert pace.calls[-1] == (1059, 12, 47)
    assert len(pace.busy) == 13
    assert pace.busy_share(redis_book.ms) == pytest.approx(1, abs=0.001)
    redis_book.tick(30)
    assert pace.busy_share(redis_book.ms) == pytest.approx(0.5, abs=0.01)
    called(redis_book, 3)
    pace = pace_of(no_leaked_keys.hget(keys.PACE, "ollama"))
    assert pace.busy_share(redis_book.ms) == pytest.approx(0.5, abs=0.01), "27 s of before, 3 of now"
    assert redis_book.ttl(keys.PACE) > 86_400


def test_a_long_call_was_under_way_in_every_part_of_its_time(redis_book: RedisBook, no_leaked_keys: Redis) -> None:
    """And no part of it is longer than it is."""
    called(redis_book, 12)
    assert EPOCH % 5 == 0
    part = int(EPOCH) // 5
    found = json.loads(no_leaked_keys.hget(keys.PACE, "ollama") or "")
    assert found["busy"] == f"{part}:5000 {part + 1}:5000 {part + 2}:2000"
    assert found["at"] == redis_book.ms
    called(redis_book, 200)
    assert pace_of(no_leaked_keys.hget(keys.PACE, "ollama")).busy_share(redis_book.ms) == 1


def test_calls_that_were_not_made_and_those_of_the_cloud_have_no_pace(
    redis_book: RedisBook, no_leaked_keys: Redis
) -> None:
    """A host that is not there answers nothing in no time; a job that was ended meanwhile still took its time."""
    called(redis_book, 2, stage="a", lane="cloud")
    redis_book.submit("lane", "b", lane="ollama", job="not there")
    one = permit(redis_book.admit(visit("not there", "home", "ollama")))
    settle(redis_book, one, Reason.CONNECT, failed=True, reached=False)
    called(redis_book, 0)
    assert no_leaked_keys.hlen(keys.PACE) == 0
    redis_book.submit("lane", "b", lane="ollama", job="late", deadline=1)
    late = permit(redis_book.admit(visit("late", "home", "ollama")))
    redis_book.tick(30)
    redis_book.dies(OWNER)
    redis_book.polled("late")
    redis_book.born(OWNER)
    redis_book.settled(late, replace(failed(late), duration_s=1.5), Settlement(lesson=Lesson(failed=True)))
    assert pace_of(no_leaked_keys.hget(keys.PACE, "ollama")).calls == ((1500, 0, 0),)
