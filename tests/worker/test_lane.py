"""What a worker makes of its lane's lease: when it may ask, whom it follows, and when it knows that it was followed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from redis.exceptions import ConnectionError as RedisAway

from config.stages import Stage
from tests.virtual_time import run
from worker.lane import GONE_S, Lane
from worker.state.lane_lease import LEASE_S, Claim, Said

STAGES = [Stage("a", "ollama", timeout=20, cool_off=2, cold_load_timeout=90), Stage("b", "ollama", timeout=5)]
HOST_S = 3 + 20 + 2
"""The longest that a call of theirs may keep the host: to connect, to answer, and its rest."""

MINE = Said(fence=7)


@dataclass
class Known:
    """Whose connections Redis has, and what a lane has told."""

    there: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    beats: int = 0
    away: bool = False
    lane: Lane = field(init=False)

    def __post_init__(self) -> None:
        self.lane = Lane("ollama", STAGES, self._is_there, self._beat, asyncio.get_running_loop().time)
        self.lane.won = lambda: self.told.append("won")
        self.lane.lost = lambda: self.told.append("lost")

    async def _is_there(self, member: str) -> bool:
        return member in self.there

    async def _beat(self) -> None:
        self.beats += 1
        if self.away:
            raise RedisAway

    async def hears(self, said: Said) -> None:
        await self.lane.heard(said, self.claims())

    def claims(self) -> Claim:
        return self.lane.claim(None, 0, busy=False)


def known(test: Callable[[Known], Awaitable[None]]) -> Known:
    async def testing() -> Known:
        found = Known()
        await test(found)
        return found

    return run(testing())


def test_it_is_certain_for_as_long_as_the_last_heartbeat_reaches() -> None:
    async def test(found: Known) -> None:
        await found.hears(MINE)
        await found.lane.confirmed()
        await asyncio.sleep(LEASE_S)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await found.lane.confirmed()
        asking = asyncio.create_task(found.lane.confirmed())
        await asyncio.sleep(0)
        await found.hears(MINE)
        await asking

    assert known(test).told == ["won"]


def test_a_heartbeat_that_took_long_is_no_longer_worth_its_whole_time() -> None:
    async def test(found: Known) -> None:
        sent = found.claims()
        await asyncio.sleep(2)
        await found.lane.heard(MINE, sent)
        await asyncio.sleep(LEASE_S - 1.9)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await found.lane.confirmed()

    known(test)


def test_whoever_was_followed_learns_it_and_so_does_who_has_it_again() -> None:
    """A new term is a new lane: what was admitted before belongs to nobody."""

    async def test(found: Known) -> None:
        await found.hears(MINE)
        await found.hears(Said(0, "ollama/other/1"))
        assert not found.lane.held.is_set()
        await found.hears(Said(fence=9))
        await found.hears(Said(fence=11))

    assert known(test).told == ["won", "lost", "won", "lost", "won"]


def test_a_silent_owner_without_a_connection_is_dead_once_that_is_sure() -> None:
    async def test(found: Known) -> None:
        silent = Said(0, "ollama/other/1", silent_ms=round(LEASE_S * 1000))
        await found.hears(silent)
        assert found.claims().bereaved == ""
        await asyncio.sleep(GONE_S)
        await found.hears(silent)
        assert found.claims().bereaved == "ollama/other/1"
        found.there.add("ollama/other/1")
        await found.hears(silent)
        assert found.claims().bereaved == "", "it has a connection again"

    known(test)


@pytest.mark.parametrize("silent_ms", [0, round(LEASE_S * 1000) - 1])
def test_an_owner_that_was_heard_just_now_is_not_dead(silent_ms: int) -> None:
    async def test(found: Known) -> None:
        for _ in range(5):
            await found.hears(Said(0, "ollama/other/1", silent_ms))
            await asyncio.sleep(GONE_S)
        assert found.claims().bereaved == ""

    known(test)


def test_two_silent_owners_one_after_the_other_are_not_one() -> None:
    async def test(found: Known) -> None:
        for other in ("one", "two"):
            await found.hears(Said(0, f"ollama/{other}/1", 9000))
            await asyncio.sleep(GONE_S)
        await found.hears(Said(0, "ollama/three/1", 9000))
        assert found.claims().bereaved == ""

    known(test)


def test_who_finds_that_redis_has_lost_its_data_leaves_the_lane_to_whoever_had_it() -> None:
    async def test(found: Known) -> None:
        await found.hears(Said(0, "ollama/other/1", known=False))
        assert found.claims().may_take, "it was never heard before: nothing is lost"
        await found.hears(Said(0, known=False))
        assert not found.claims().may_take
        await asyncio.sleep(3)
        assert found.claims().may_take

    known(test)


def test_a_long_call_begins_once_redis_has_heard_how_long_it_is() -> None:
    """A heartbeat that was sent before says nothing of it."""

    async def test(found: Known) -> None:
        await found.hears(MINE)
        before = found.claims()
        assert before.lasts_ms == 1000 * (LEASE_S + HOST_S)
        await asyncio.sleep(0.1)
        await found.lane.lengthen()
        assert found.beats == 1
        assert found.claims().lasts_ms == 1000 * (LEASE_S + HOST_S + 90)
        await found.lane.heard(MINE, before)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await found.lane.confirmed()
        await found.hears(MINE)
        await found.lane.confirmed()
        found.lane.shorten()
        assert found.claims().lasts_ms == 1000 * (LEASE_S + HOST_S)

    known(test)


def test_where_redis_does_not_hear_of_a_long_call_it_does_not_begin() -> None:
    async def test(found: Known) -> None:
        await found.hears(MINE)
        found.away = True
        await asyncio.sleep(0.1)
        await found.lane.lengthen()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await found.lane.confirmed()

    known(test)


def test_a_process_that_ends_takes_no_lane() -> None:
    async def test(found: Known) -> None:
        assert found.claims().may_take
        found.lane.closed = True
        assert not found.claims().may_take

    known(test)


def test_what_it_tells_of_its_call() -> None:
    async def test(found: Known) -> None:
        claim = found.lane.claim(1.5, 2, busy=True)
        assert (claim.running_ms, claim.in_hand, claim.busy, claim.cool_ms, claim.fence) == (1500, 2, True, 2000, 0)

    known(test)
