"""Who waits outlives a Redis that is away for a moment, and is told of one that stays away."""

from __future__ import annotations

import asyncio

import pytest

from staffel.errors import Unavailable
from staffel.waiting import PATIENCE_S, Seen, Waiting
from tests.virtual_time import run

ENDED = Seen("answered", "cloud", served=True)


class Redis:
    """Answers until `away_from`, and again from `back_at`, by the loop's clock; each question takes `takes` s."""

    def __init__(self, away_from: float, back_at: float, takes: float = 0.0) -> None:
        self.away_from, self.back_at, self.takes, self.met = away_from, back_at, takes, False

    async def ask(self, jobs: list[str]) -> tuple[frozenset[str], list[Seen]]:
        now = asyncio.get_running_loop().time()
        if self.away_from <= now < self.back_at:
            await asyncio.sleep(self.takes)
            raise Unavailable("away")
        self.met = True
        status = "answered" if now >= self.back_at else "running"
        return frozenset({"cloud"}), [Seen(status, "cloud", served=True) for _ in jobs]

    async def waited(self) -> tuple[Seen | str, float]:
        loop = asyncio.get_running_loop()
        waiting = Waiting(self.ask, lambda: self.met)
        try:
            return await waiting.until("job", lambda seen: seen.status == "answered"), loop.time()
        except Unavailable as error:
            return str(error), loop.time()


@pytest.mark.parametrize("takes", [0.0, 3.0])
def test_a_moment_without_redis_ends_no_wait(takes: float) -> None:
    """Half a second ended `staffel ask` with exit code 6, while its job was answered and paid for."""
    assert run(Redis(1.0, 4.0, takes).waited())[0] == ENDED


@pytest.mark.parametrize("takes", [0.0, 3.0])
def test_a_redis_that_stays_away_is_told(takes: float) -> None:
    """After some seconds, and the last question's own time."""
    said, at = run(Redis(1.0, 1000.0, takes).waited())
    assert said == "away"
    assert 1.0 + PATIENCE_S <= at <= 1.2 + PATIENCE_S + takes + 0.2


def test_a_redis_that_never_was_there_is_told_at_once() -> None:
    """A wrong port is no blip."""
    assert run(Redis(0.0, 1000.0).waited()) == ("away", 0.0)


def test_each_absence_has_its_own_patience() -> None:
    """Two short ones an hour apart are not one long one."""

    async def twice() -> Seen | str:
        redis = Redis(1.0, 4.0)
        first = asyncio.create_task(redis.waited())
        await asyncio.sleep(3.9)
        redis.away_from, redis.back_at = 100.0, 104.0
        return (await first)[0]

    assert run(twice()) == ENDED
