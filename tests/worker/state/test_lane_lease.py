"""The lease of a lane, as Redis keeps it: one owner, followed when it is dead or its last call must have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staffel_wire import keys
from tests.worker.state.books import RedisBook
from tests.worker.state.calls import visit
from tests.worker.state.test_contract import answered, permit
from worker.failover.state import Displaced, Permit
from worker.state.lane_lease import LEASE_S, Claim, Said, host_s
from worker.state.redis import pulse_name

ME, OTHER = "ollama/one/1", "ollama/two/2"
LEASE_MS = round(LEASE_S * 1000)
CLAIM = Claim("ollama", 0.0, lasts_ms=LEASE_MS + 60_000)


def beat(book: RedisBook, member: str, **more: object) -> Said:
    said = book.run(book.state.beat(member, [], book.ms, claim=replace(CLAIM, **more))).lane
    assert said is not None
    return said


def ends(book: RedisBook) -> int:
    """Milliseconds until the lease ends by itself."""
    (_, score), *others = book.run(book.redis.zrange(keys.lane("ollama"), 0, -1, withscores=True))
    assert not others
    return round(score) - book.ms


def admitted(book: RedisBook, member: str = ME) -> Permit:
    """A call of the lane's stage is admitted."""
    book.submit("lane", job=f"job-of-{member[-1]}", lane="ollama")
    return permit(book.admit(replace(visit(f"job-of-{member[-1]}", "x"), owner=member, lane="ollama")))


@pytest.fixture
def book(redis_book: RedisBook) -> RedisBook:
    return redis_book


def test_the_first_one_has_it_and_the_others_learn_whose_it_is(book: RedisBook) -> None:
    mine = beat(book, ME)
    assert mine.fence > 0
    assert beat(book, OTHER, met=True) == Said(0, ME, 0, known=False)
    assert beat(book, ME, fence=mine.fence, met=True) == replace(mine, known=True)
    assert ends(book) == LEASE_MS


def test_an_owner_without_a_call_is_followed_when_its_lease_ends(book: RedisBook) -> None:
    first = beat(book, ME)
    beat(book, OTHER)
    book.tick(LEASE_S - 0.001)
    assert beat(book, OTHER).fence == 0
    book.tick(0.001)
    second = beat(book, OTHER)
    assert second.fence > first.fence
    assert beat(book, ME, fence=first.fence, met=True) == Said(0, OTHER, 0)


def test_an_owner_with_a_call_is_followed_when_that_must_have_ended(book: RedisBook) -> None:
    """Its heart stands still for much longer than ten seconds; that it is dead is not known."""
    beat(book, ME)
    longest = host_s(book.stages["lane"])
    admitted(book)
    assert ends(book) == LEASE_MS + longest * 1000
    book.tick(LEASE_S + longest - 0.001)
    assert beat(book, OTHER).fence == 0
    book.tick(0.001)
    assert beat(book, OTHER).fence > 0


def test_a_call_keeps_the_lease_with_each_heartbeat_and_lets_go_of_it_when_it_is_settled(book: RedisBook) -> None:
    beat(book, ME)
    call = admitted(book)
    book.tick(5)
    beat(book, ME, lasts_ms=90_000)
    assert ends(book) == 90_000
    book.settle(call, answered(call))
    assert ends(book) == LEASE_MS


def test_what_is_done_beside_the_jobs_keeps_the_lease_as_well(book: RedisBook) -> None:
    """A job's end does not shorten it meanwhile."""
    beat(book, ME)
    call = admitted(book)
    beat(book, ME, lasts_ms=150_000, busy=True)
    book.settle(call, answered(call))
    assert ends(book) == 150_000
    beat(book, ME, lasts_ms=90_000)
    assert ends(book) == LEASE_MS


def test_a_lane_that_nobody_has_had_meanwhile_is_its_owners_under_the_same_number(book: RedisBook) -> None:
    """Redis was away for longer than a lease."""
    first = beat(book, ME)
    book.tick(LEASE_S + 1)
    assert beat(book, ME, met=True, fence=first.fence).fence == first.fence
    book.tick(LEASE_S + 1)
    assert beat(book, OTHER).fence > first.fence
    book.tick(LEASE_S + 1)
    assert beat(book, ME, met=True, fence=first.fence).fence > first.fence + 1000 * LEASE_S


def test_an_owner_that_is_known_to_be_dead_is_followed_after_the_host_has_rested(book: RedisBook) -> None:
    beat(book, ME)
    admitted(book)
    beat(book, OTHER)
    book.tick(LEASE_S)
    assert beat(book, OTHER, bereaved="ollama/three/3").owner == ME
    assert beat(book, OTHER, bereaved=ME, cool_ms=2000).owner == "-"
    book.tick(1.999)
    assert beat(book, OTHER).fence == 0
    book.tick(0.001)
    assert beat(book, OTHER).fence > 0


def test_an_owner_that_was_heard_meanwhile_is_not_dead(book: RedisBook) -> None:
    first = beat(book, ME)
    admitted(book)
    book.tick(LEASE_S)
    beat(book, ME, fence=first.fence, met=True)
    assert beat(book, OTHER, bereaved=ME).owner == ME


def test_who_does_not_hold_the_lane_is_admitted_nothing_on_it(book: RedisBook) -> None:
    beat(book, OTHER)
    book.submit("lane", lane="ollama")
    assert book.admit(replace(visit("j", "x"), owner=ME, lane="ollama")) == Displaced()
    assert book.hand_back(ME)
    assert book.view()["status"] == "queued"
    assert book.view()["attempts"] == []


def test_a_job_that_waited_for_its_turn_is_given_back_as_if_it_had_not_been_admitted(book: RedisBook) -> None:
    beat(book, ME)
    call = admitted(book)
    assert book.run(book.state.hand_back(call.visit.job, ME, book.ms, called=False))
    assert book.view(call.visit.job)["attempts"] == []
    assert book.run(book.redis.zcard(keys.in_flight("lane"))) == 0


def test_an_owner_that_leaves_is_followed_at_once_or_when_the_host_has_rested(book: RedisBook) -> None:
    beat(book, ME)
    book.run(book.state.leave(ME, "ollama", 0, book.ms))
    assert beat(book, OTHER).fence > 0
    book.run(book.state.leave(ME, "ollama", 500, book.ms))
    assert beat(book, OTHER, met=True).fence > 0, "it is not the lane of who left"
    book.run(book.state.leave(OTHER, "ollama", 500, book.ms))
    assert beat(book, ME).fence == 0
    book.tick(0.5)
    assert beat(book, ME).fence > 0


def test_whoever_had_the_lane_has_it_again_where_all_was_lost(book: RedisBook) -> None:
    """Who stood by waits; else the host would be asked by both."""
    first = beat(book, ME)
    beat(book, OTHER)
    book.run(book.redis.flushdb())
    assert beat(book, OTHER, met=True) == Said(0, "", 0, known=False)
    assert beat(book, ME, met=True, fence=first.fence) == replace(first, known=False)


def test_a_longer_silence_of_all_is_nobodys_death(book: RedisBook) -> None:
    """Redis was away for a minute: its owner's call is still under way, and it is heard first or last."""
    first = beat(book, ME)
    admitted(book)
    beat(book, OTHER)
    book.tick(7)
    assert beat(book, OTHER, met=True, bereaved=ME).owner == ME
    assert beat(book, ME, met=True, fence=first.fence).fence == first.fence


def test_a_cloud_worker_has_no_lane(book: RedisBook) -> None:
    assert book.run(book.state.beat("cloud/one/1", [], book.ms)).lane is None


def test_a_connection_that_redis_has_is_found_by_its_process(book: RedisBook) -> None:
    async def named(member: str) -> None:
        await book.redis.client_setname(pulse_name(member))

    assert book.run(book.state.is_there(OTHER, ME)), "where one's own is not found nothing is known"
    book.run(named("a/b/77-abc"))
    assert book.run(book.state.is_there("other/name/77-abc", "a/b/77-abc"))
    assert not book.run(book.state.is_there(OTHER, "a/b/77-abc"))
