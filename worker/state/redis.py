"""The shared state in Redis: one script a step, the server's clock, every key with a TTL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from config.file import General
from config.stages import Stage
from staffel_wire import keys
from staffel_wire import record as shown
from staffel_wire.scripts import source
from worker.failover.answer import Answer, Status, View
from worker.failover.attempt import Attempt
from worker.failover.state import Admission, Elsewhere, Over, Permit, Taken, Visit

_HERE = Path(__file__).parent / "lua"


class RedisState:
    """One admit, one settle, one round trip each; `now_ms` is for tests only."""

    def __init__(self, redis: Redis, stages: Mapping[str, Stage], general: General) -> None:
        self._redis = redis
        self._ttls = (general.answer_ttl, general.ledger_ttl)
        self._stages = json.dumps(
            {
                s.name: {"lane": s.lane, "home": s.local, "reserve_ms": round(s.reserve * 1000), "model": s.model}
                for s in stages.values()
            }
        )
        self._admit = redis.register_script(source("admit", _HERE))
        self._settle = redis.register_script(source("settle", _HERE))
        self._beat = redis.register_script(source("beat", _HERE))

    async def admit(self, visit: Visit, now_ms: int | None = None) -> Admission:
        names = [keys.job(visit.job), keys.attempts(visit.job), keys.WORKERS]
        reply = await self._admit(
            keys=names,
            args=[
                visit.owner, visit.lane, visit.worker, visit.fence, self._stages, keys.WORKER_DEAD_AFTER_MS,
                *self._ttls, _given(now_ms), visit.delivery,
            ],
        )  # fmt: skip
        match reply:
            case ["permit", name, place, n, left, kept, now, fence, request, plan]:
                steps = tuple(json.loads(plan))
                return Permit(
                    replace(visit, fence=fence), name, place, n, len(steps), left / 1000, kept / 1000, now / 1000,
                    steps, json.loads(request) if request else None,
                )  # fmt: skip
            case ["elsewhere", lane, name, seen, now]:
                return Elsewhere(lane, name, _view(visit.job, seen, now))
            case ["over", seen, now]:
                return Over(_view(visit.job, seen, now))
        return Taken(known=reply != ["unknown"])

    async def settle(
        self, permit: Permit, attempt: Attempt, end: Status | None = None, answer: Answer | None = None,
        now_ms: int | None = None,
    ) -> View | None:  # fmt: skip
        job = permit.visit.job
        reply = await self._settle(
            keys=[keys.job(job), keys.attempts(job)],
            args=[
                permit.visit.fence, attempt.n, json.dumps(attempt.as_record(), separators=(",", ":")), permit.place,
                end or "", json.dumps(asdict(answer)) if answer else "", *self._ttls, _given(now_ms),
            ],
        )  # fmt: skip
        return _view(job, reply[1], reply[2]) if reply[0] == "over" else None

    async def beat(self, member: str, jobs: Sequence[str], now_ms: int | None = None) -> list[str]:
        """Say that this process lives; returns those of its jobs that were cancelled."""
        places = await self._beat(keys=[keys.WORKERS, *map(keys.job, jobs)], args=[member, _given(now_ms)])
        return [jobs[place] for place in places]

    async def leave(self, member: str) -> None:
        """Say that this process has ended."""
        await self._redis.zrem(keys.WORKERS, member)


def _given(now_ms: int | None) -> int | str:
    return "" if now_ms is None else now_ms


def _view(job: str, seen: Any, now: int) -> View:  # noqa: ANN401 - what a script returns
    record, ledger = (shown.pairs(part) for part in seen)
    return View(job, Status(record["status"]), shown.as_object(job, record, ledger, now))
