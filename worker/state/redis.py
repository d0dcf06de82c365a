"""The shared state in Redis: one script a step, the server's clock, every key with a TTL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from config.file import General
from config.stages import Stage, identity
from staffel_wire import keys
from staffel_wire import record as shown
from staffel_wire.scripts import source
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt
from worker.failover.state import (
    GOES_ON,
    LOUD_S,
    MOST_DROPPED,
    REFUSALS,
    REMEMBERED_S,
    UNFIT,
    Admission,
    Elsewhere,
    Over,
    Permit,
    Settled,
    Settlement,
    Taken,
    Visit,
)

_HERE = Path(__file__).parent / "lua"


class RedisState:
    """One admit, one settle, one round trip each; `now_ms` is for tests only."""

    def __init__(self, redis: Redis, stages: Mapping[str, Stage], general: General) -> None:
        self._redis = redis
        self._ttls = (general.answer_ttl, general.ledger_ttl)
        self._stages = json.dumps({name: _offer(stage, place) for place, (name, stage) in enumerate(stages.items())})
        self._ids = {name: identity(stage) for name, stage in stages.items()}
        self._stage_keys = [keys.stage(name) for name in stages]
        self._unfit = json.dumps(sorted(UNFIT))
        self._admit = redis.register_script(source("admit", _HERE))
        self._settle = redis.register_script(source("settle", _HERE))
        self._beat = redis.register_script(source("beat", _HERE))

    async def admit(self, visit: Visit, now_ms: int | None = None) -> Admission:
        names = [keys.job(visit.job), keys.attempts(visit.job), keys.WORKERS, keys.GATES, *self._stage_keys]
        reply = await self._admit(
            keys=names,
            args=[
                visit.owner, visit.lane, visit.worker, visit.fence, self._stages, keys.WORKER_DEAD_AFTER_MS,
                *self._ttls, _given(now_ms), visit.delivery, self._unfit,
            ],
        )  # fmt: skip
        match reply:
            case ["permit", name, place, n, left, kept, now, fence, request, plan, dropped]:
                steps = tuple(json.loads(plan))
                return Permit(
                    replace(visit, fence=fence), name, place, n, n + len(steps) - place - 1, left / 1000, kept / 1000,
                    now / 1000, steps, json.loads(request) if request else None, frozenset(json.loads(dropped or "[]")),
                )  # fmt: skip
            case ["elsewhere", lane, name, seen, now]:
                return Elsewhere(lane, name, _view(visit.job, seen, now))
            case ["over", seen, now]:
                return Over(_view(visit.job, seen, now))
        return Taken(known=reply != ["unknown"])

    async def settle(
        self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON, now_ms: int | None = None
    ) -> Settled:
        job, lesson, answer = permit.visit.job, settlement.lesson, settlement.answer
        reply = await self._settle(
            keys=[keys.job(job), keys.attempts(job), keys.GATES, keys.stage(permit.stage)],
            args=[
                permit.visit.fence, attempt.n, json.dumps(attempt.as_record(), separators=(",", ":")), permit.place,
                settlement.end or "", json.dumps(asdict(answer)) if answer else "", *self._ttls, _given(now_ms),
                self._unfit, settlement.otherwise or "", permit.stage, attempt.reason or "", int(lesson.worked),
                round(lesson.closed_s * 1000), lesson.dropped, lesson.refused, int(lesson.loud), REFUSALS,
                round(LOUD_S * 1000), round(REMEMBERED_S * 1000), self._ids[permit.stage],
                int(lesson.believed), MOST_DROPPED,
            ],
        )  # fmt: skip
        match reply:
            case ["over", seen, now, alarm]:
                return Settled(_view(job, seen, now), alarm=bool(alarm))
            case ["ok", alarm]:
                return Settled(alarm=bool(alarm))
        return Settled(fenced=True)

    async def beat(self, member: str, jobs: Sequence[str], now_ms: int | None = None) -> list[str]:
        """Say that this process lives; returns those of its jobs that were cancelled."""
        places = await self._beat(keys=[keys.WORKERS, *map(keys.job, jobs)], args=[member, _given(now_ms)])
        return [jobs[place] for place in places]

    async def leave(self, member: str) -> None:
        """Say that this process has ended."""
        await self._redis.zrem(keys.WORKERS, member)


def _offer(stage: Stage, place: int) -> dict[str, Any]:
    """What admit.lua knows of a stage; `place` is that of its key among those of all stages."""
    return {
        "lane": stage.lane, "home": stage.local, "reserve_ms": round(stage.reserve * 1000), "model": stage.model,
        "images": stage.takes.images, "place": place, "id": identity(stage),
    }  # fmt: skip


def _given(now_ms: int | None) -> int | str:
    return "" if now_ms is None else now_ms


def _view(job: str, seen: Any, now: int) -> View:  # noqa: ANN401 - what a script returns
    record, ledger = (shown.pairs(part) for part in seen)
    return View(job, Status(record["status"]), shown.as_object(job, record, ledger, now))
