"""The shared state in Redis: one script a step, the server's clock, every key with a TTL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import ResponseError

from config.file import General
from config.stages import Chain, Stage, identity
from staffel_wire import keys
from staffel_wire.position import looked
from staffel_wire.scripts import source
from staffel_wire.stages import Action, switching
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt, Reason
from worker.failover.state import (
    GOES_ON,
    Admission,
    Displaced,
    Elsewhere,
    Follows,
    Lesson,
    Over,
    Parked,
    Permit,
    Settled,
    Settlement,
    Taken,
    Visit,
)
from worker.state.lane_lease import Claim, Said, said
from worker.state.open_jobs import OpenJobs
from worker.state.probes import Probes
from worker.state.rules import Prices, Rules, nano_usd, places_of
from worker.state.time_given import time_given

SCRIPTS = Path(__file__).parent / "lua"
_HAVE_A_MESSAGE = frozenset({Status.QUEUED, Status.RUNNING})


@dataclass(frozen=True, slots=True)
class Beat:
    """What a process learns with its heartbeat: its jobs that were cancelled, whether it `keeps` house for all workers,
    and whether there are parked jobs for it to send on; and how it stands with its lane, if that is its own.
    """

    cancelled: Sequence[str]
    keeps: bool
    feeds: bool
    lane: Said | None = None


class RedisState:
    """One admit, one settle, one round trip each; `now_ms` is for tests only.

    `pulse` is a connection for the heartbeat alone: behind a hundred steps on a slow line, it would come too late.
    """

    def __init__(
        self, redis: Redis, stages: Mapping[str, Stage], general: General,
        chains: Mapping[str, Chain] = MappingProxyType({}), prices: Prices = lambda _stage: None, *,
        pulse: Redis | None = None,
    ) -> None:  # fmt: skip
        self._redis, self._stages = redis, stages
        self._rules = Rules(stages, chains, general, prices)
        self._admit = redis.register_script(source("admit", SCRIPTS))
        self._settle = redis.register_script(source("settle", SCRIPTS))
        self._hand_back = redis.register_script(source("hand_back", SCRIPTS))
        self._park = redis.register_script(source("park", SCRIPTS))
        self._feed = redis.register_script(source("feed", SCRIPTS))
        self._forget = redis.register_script(source("forget", SCRIPTS))
        self._pulse = pulse or redis
        self._beat = self._pulse.register_script(source("beat", SCRIPTS))
        self._leave = self._pulse.register_script(source("leave", SCRIPTS))
        self._switch = redis.register_script(source("switch"))
        self._probing = {name: redis.register_script(source(name, SCRIPTS)) for name in ("probe", "probed")}
        self.open = OpenJobs(redis, general, keys.housekeeper(self._rules.digest))

    async def prepare(self) -> None:
        """Let Redis know our scripts and rules before the first job asks for them."""
        for script in (self._admit, self._settle, self._park, self._feed, self._hand_back):
            await self._redis.script_load(script.script)
        await self._write_rules()

    async def _write_rules(self) -> None:
        fields = [part for pair in self._rules.fields.items() for part in pair]
        await self._redis.hset(self._rules.key, items=fields)
        await self._redis.expire(self._rules.key, keys.RULES_TTL_S)

    async def _ask(self, script: AsyncScript, job: str, arguments: Sequence[Any]) -> Any:  # noqa: ANN401 - its reply
        """Run a script; where Redis does not hold our rules (any more), write them and ask again."""
        names = [*self._rules.keys, keys.job(job), keys.attempts(job)]
        reply = await script(keys=names, args=arguments)
        if reply != ["rules"]:
            return reply
        await self._write_rules()
        return await script(keys=names, args=arguments)

    async def admit(self, visit: Visit, now_ms: int | None = None) -> Admission:
        given = [visit.owner, visit.lane, visit.worker, visit.fence, visit.delivery, visit.job, time_given(now_ms)]
        match await self._ask(self._admit, visit.job, given):
            case ["permit", name, place, n, left, kept, now, fence, request, plan, dropped, probe]:
                steps = tuple(json.loads(plan))
                return Permit(
                    replace(visit, fence=fence), name, place, n, n + len(steps) - place - 1, left / 1000, kept / 1000,
                    now / 1000, steps, json.loads(request) if request else None, frozenset(json.loads(dropped or "[]")),
                    bool(probe),
                )  # fmt: skip
            case ["elsewhere", lane, name, seen, now, standing]:
                return Elsewhere(lane, name, _view(visit.job, seen, now, standing))
            case ["over", seen, now, told]:
                return Over(_view(visit.job, seen, now), told=bool(told))
            case ["follows", leader]:
                return await self._follow(visit, leader, now_ms)
            case ["parked", name, lane, reason, until, seen, now]:
                return Parked(name, lane, Reason(reason), until / 1000, _view(visit.job, seen, now))
            case ["displaced"]:
                return Displaced()
            case [word]:
                return Taken(known=word != "unknown")
        raise AssertionError("admit.lua says something else")

    async def _follow(self, visit: Visit, leader: str, now_ms: int | None) -> Admission:
        match await self.open.follow(visit.job, leader, now_ms):
            case ["waits", seen, now]:
                return Follows(leader, _view(visit.job, seen, now))
            case ["over", seen, now, told]:
                return Over(_view(visit.job, seen, now), told=bool(told))
        return await self.admit(visit, now_ms)

    async def hand_back(
        self, job: str, owner: str, now_ms: int | None = None, *, died: bool = False, called: bool = True
    ) -> bool:
        """Let a job that this process has under way wait in its queue again, since the process ends, or since the job
        has broken its walk (`died`), which counts as a death of its worker. Not `called`: it still waited for its turn,
        and no host has heard of it.

        False: it was not this owner's any more.
        """
        return bool(await self._ask(self._hand_back, job, [owner, time_given(now_ms), int(died), int(called)]))

    async def settle(
        self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON, now_ms: int | None = None
    ) -> Settled:
        job, answer = permit.visit.job, settlement.answer
        row = json.dumps(attempt.as_record(), separators=(",", ":"))
        given = [
            permit.visit.fence, attempt.n, row, permit.place, settlement.end or "",
            json.dumps(asdict(answer)) if answer else "", settlement.last, attempt.reason or "",
            json.dumps(_lesson(settlement.lesson)), time_given(now_ms),
        ]  # fmt: skip
        match await self._ask(self._settle, job, given):
            case ["over", seen, now, alarm, told]:
                return Settled(_view(job, seen, now), alarm=bool(alarm), told=bool(told))
            case ["gone"]:
                return Settled(gone=True)
            case ["ok", alarm]:
                return Settled(alarm=bool(alarm))
        return Settled(fenced=True)

    async def park(self, job: str, signature: str, now_ms: int | None = None) -> bool:
        """Put a job that was told to wait into its stage's line; `signature` is what sends it on.

        False: it has ended meanwhile, or goes on.
        """
        return bool(await self._ask(self._park, job, [job, signature, time_given(now_ms)]))

    async def feed(self, now_ms: int | None = None) -> list[str]:
        """The parked jobs that are to be sent on now; each is told again after a while if nobody claims it, and its
        message is nowhere.
        """
        sent, doubtful = await self._ask(self._feed, "", [time_given(now_ms)]) or ([], [])
        if not doubtful:
            return list(sent)
        known = await self.open.whereabouts({stage.lane for stage in self._stages.values()}, now_ms)
        return [*sent, *(job for job in doubtful if job not in known)]

    async def signatures(self, jobs: Sequence[str]) -> list[str | None]:
        """What sends these jobs on, None where a record is gone or a worker has the job."""
        reading = self._redis.pipeline(transaction=False)
        for job in jobs:
            reading.hmget(keys.job(job), "status", "signature")
        return [None if status in _HAVE_A_MESSAGE else signature for status, signature in await reading.execute()]

    async def forget(self, job: str) -> None:
        """Take a job out of all lines that has no message to be sent on."""
        await self._ask(self._forget, job, [job])

    async def switch(self, stage: str, action: Action, for_s: float | None = None, now_ms: int | None = None) -> bool:
        """Do by hand what `staffel stages off | on | reset` does; False where there is no such stage."""
        if stage not in self._stages:
            return False
        for_ms = None if for_s is None else round(for_s * 1000)
        names, given = switching(stage, identity(self._stages[stage]), action, for_ms, now_ms)
        await self._switch(keys=names, args=given)
        return True

    async def beat(
        self, member: str, jobs: Sequence[str], now_ms: int | None = None, *, claim: Claim | None = None
    ) -> Beat:
        """Say that this process lives, and what it claims of its lane; where nobody could for a while, nobody is dead
        for that.
        """
        of_lane = [] if claim is None else [keys.lane(claim.lane), *places_of(claim.lane, self._stages.values())]
        names = [keys.WORKERS, keys.housekeeper(self._rules.digest), keys.PARKED, keys.LANES, *of_lane]
        given = [member, keys.WORKER_DEAD_AFTER_MS, time_given(now_ms), len(of_lane), *(claim.given() if claim else ())]
        keeps, feeds, places, lane = await self._beat(keys=[*names, *map(keys.job, jobs)], args=given)
        cancelled = [jobs[place] for place in places]
        return Beat(cancelled, bool(keeps), bool(feeds), said(lane) if lane else None)

    def probes(self, lane: str) -> Probes:
        """The probes that this lane's owner makes."""
        return Probes(
            lane, lambda name, given: self._ask(self._probing[name], "", given), lambda one: json.dumps(_lesson(one))
        )

    async def is_there(self, member: str, me: str) -> bool:
        """Whether Redis has the connection of that process's heart; True as well where it does not tell.

        A machine closes the connections of a process that dies, and not those of one that is paused.
        """
        try:
            names = {client["name"] for client in await self._pulse.client_list()}
        except ResponseError:  # an operator forbids it
            return True
        return pulse_name(me) not in names or pulse_name(member) in names

    async def leave(self, member: str, lane: str | None = None, rests_ms: int = 0, now_ms: int | None = None) -> None:
        """Say that this process has ended; its lane is another's once the host has rested."""
        names = [keys.WORKERS, *([keys.lane(lane), keys.LANES] if lane else [])]
        await self._leave(keys=names, args=[member, lane or "", rests_ms, time_given(now_ms)])


def pulse_name(member: str) -> str:
    """What the connection is called over which a process says that it lives."""
    return f"staffel-pulse:{member.rpartition('/')[2]}"


def _lesson(lesson: Lesson) -> dict[str, Any]:
    """A lesson in the units of the scripts; what is not known is left out."""
    told: dict[str, Any] = asdict(lesson)
    told["closed_ms"] = round(told.pop("closed_s") * 1000)
    usd = told.pop("usd")
    told["nano"] = None if usd is None else nano_usd(usd)
    return {key: value for key, value in told.items() if value is not None}


def _view(job: str, seen: Any, now: int, standing: Sequence[Any] = ()) -> View:  # noqa: ANN401 - what a script returns
    found = looked(job, (seen, now, standing))
    return View(job, Status(found["status"]), found)
