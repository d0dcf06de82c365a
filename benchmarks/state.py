"""What the shared state costs Redis: server time of one admit and one settle, as a ratio to an empty script.

    python -m benchmarks.state [--rounds 300]

Plans of 1, 5 and 20 stages with limits and a budget, the first healthy, or all but the last with an open breaker, or
all of them. The times are Redis's own (`INFO commandstats`, microseconds a call); the baseline is an EVAL that does
nothing, in the same minute on the same embedded Valkey.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from config.file import General
from config.limits import Limits
from config.stages import Stage, identity
from staffel import embedded
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import Request
from staffel_wire.scripts import source
from staffel_wire.submit import submitting
from worker.failover.answer import Answer, Status
from worker.failover.attempt import Attempt, Outcome
from worker.failover.state import Lesson, Permit, Settlement, Visit
from worker.state.connection import connect
from worker.state.redis import RedisState

LIMITS = Limits(max_in_flight=1_000_000, requests_per_minute=100_000_000, tokens_per_minute=1_000_000_000)
OPEN_MS = 4_000_000_000_000
"""A time that is far off."""

SCENES = ("first healthy", "all open but the last", "all open")


class Yard:
    """One embedded server, one state over a plan of so many stages."""

    def __init__(self, redis: Redis, length: int) -> None:
        self.redis = redis
        names = tuple(f"stage-{place:02}" for place in range(length))
        self.stages = {
            name: Stage(name, "scripted", model="m", limits=LIMITS, usd_per_day=1_000_000.0) for name in names
        }
        self.plan = names
        self.state = RedisState(redis, self.stages, General())
        self._jobs = 0

    async def open(self, count: int) -> None:
        """Let the breakers of the first so many stages be open."""
        await self.redis.flushdb()
        gates = {name: f"breaker_open {OPEN_MS} {identity(self.stages[name])}" for name in self.plan[:count]}
        if gates:
            await self.redis.hset(keys.GATES, mapping={**gates})
            await self.redis.expire(keys.GATES, 3600)

    async def job(self) -> Visit:
        """A new job on the whole plan."""
        self._jobs += 1
        job = f"job-{self._jobs}"
        request = Request(prompt="Why is the sky blue?")
        names, given = submitting(job, request, Entry(self.plan, "cloud", 60.0), Catalogue({}), message="")
        await self.redis.eval(source("submit"), len(names), *names, *given)
        return Visit(job, "cloud", "cloud/bench/1", "bench@here")

    async def settle(self, permit: Permit) -> None:
        """The call has brought an answer."""
        attempt = Attempt(permit.n, permit.of, permit.stage, "m", Outcome.ANSWERED, started_at=permit.started_at)
        answer = Answer("Because of the air.", permit.stage, "stop", truncated=False, usage=None)
        lesson = Lesson(worked=True, tokens=100, usd=0.0)
        await self.state.settle(permit, attempt, Settlement(Status.ANSWERED, answer, lesson=lesson))


async def served(redis: Redis, work: Callable[[], Awaitable[Any]], command: str) -> float:
    """Microseconds of server time that one call of this command takes in this work."""
    await redis.config_resetstat()
    await work()
    stats: Mapping[str, Any] = await redis.info("commandstats")
    return float(stats[f"cmdstat_{command}"]["usec_per_call"])


async def measure(rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="staffel-bench-") as folder:
        server = embedded.start(Path(folder))
        redis = connect(server.url)
        try:
            return await _measured(redis, rounds)
        finally:
            await redis.aclose()
            embedded.stop(server)


async def _measured(redis: Redis, rounds: int) -> dict[str, float]:
    async def nothing() -> None:
        for _ in range(rounds):
            await redis.eval("return 0", 0)

    found = {"an empty EVAL": await served(redis, nothing, "eval")}
    for length in (1, 5, 20):
        yard = Yard(redis, length)
        for scene, count in zip(SCENES, (0, length - 1, length), strict=True):
            if length == 1 and count == 0 and scene != SCENES[0]:
                continue
            await yard.open(count)
            await yard.state.admit(await yard.job())  # the rules and the script are there from now on
            visits = [await yard.job() for _ in range(rounds)]
            permits: list[Permit] = []

            async def admit(yard: Yard = yard, visits: list[Visit] = visits, permits: list[Permit] = permits) -> None:
                admitted = [await yard.state.admit(visit) for visit in visits]
                permits += [one for one in admitted if isinstance(one, Permit)]

            async def settle(yard: Yard = yard, permits: list[Permit] = permits) -> None:
                for permit in permits:
                    await yard.settle(permit)

            found[f"admit, {length:2} stages, {scene}"] = await served(redis, admit, "evalsha")
            if permits:
                await yard.settle(permits.pop())  # this script too
                found[f"settle, {length:2} stages, {scene}"] = await served(redis, settle, "evalsha")
    return found


def report(found: Mapping[str, float]) -> str:
    """One line a row: microseconds, and the ratio to the empty script."""
    base = next(iter(found.values()))
    lines = [f"{'':44}{'us a call':>10}{'ratio':>8}"]
    return "\n".join([*lines, *(f"{title:44}{us:10.1f}{us / base:8.1f}" for title, us in found.items())])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    print(report(asyncio.run(measure(parser.parse_args().rounds))))
