"""The jobs that have not ended, as housekeeping looks at them: which are to be ended, sent again, told or sought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from config.celery import UNACKED, UNACKED_INDEX
from config.file import General
from staffel_wire import keys
from staffel_wire.message import HOUSEKEEPING, envelope
from staffel_wire.scripts import source
from staffel_wire.submit import LOOKS_MS
from worker.state.time_given import time_given

_SCRIPTS = Path(__file__).parent / "lua"

MOST_LOOKED_AT = 500
"""Jobs of one look, twice a second: more would keep Redis from its workers for some milliseconds."""

SOONER_MS = 2_000
"""When a running job is looked at again: its owner's death is seen so much later at most."""

HELD_S = 12.0
"""A consumer refreshes the messages that it holds every 2 s; one that has not for this long holds none any more."""

SERVED_MS = 2_000

_CHUNK = 50
_GONE = "gone"


class Need(StrEnum):
    """What a job needs of whoever keeps house."""

    SENDS = "sends"
    """Its message is to be put onto its queue."""
    TELLS = "tells"
    """Its message is to be put onto a queue that is served: it has ended, and Celery may not have heard."""
    SEEKS = "seeks"
    """It waits, and its message should be somewhere."""
    FOLLOWS = "follows"
    """It waits for the end of another job."""


@dataclass(frozen=True, slots=True)
class Found:
    """A job in need; `signature` sends it where its message is more than plain. `mark`: when it was queued as the
    record says, or the job that it follows.
    """

    job: str
    need: Need
    queue: str
    signature: str
    mark: str


class OpenJobs:
    """Steps of housekeeping, each one script or one read; whoever does one twice does no harm."""

    def __init__(self, redis: Redis, general: General, housekeeper: str) -> None:
        """`housekeeper` is the key of the office whose holder looks."""
        self._redis, self._most, self.office = redis, general.max_deliveries, housekeeper
        self._kept = [general.answer_ttl, general.ledger_ttl, general.dead_ttl]
        self._reconcile = redis.register_script(source("reconcile", _SCRIPTS))
        self._follow = redis.register_script(source("follow", _SCRIPTS))
        self._requeue = redis.register_script(source("requeue", _SCRIPTS))
        self._lapse = redis.register_script(source("lapse", _SCRIPTS))
        self._told = redis.register_script(source("told", _SCRIPTS))
        self._seek = redis.register_script(source("seek", _SCRIPTS))
        self._held = redis.register_script(source("held", _SCRIPTS))

    async def _now_ms(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds * 1000 + micros // 1000)

    async def due(self, now_ms: int | None = None) -> list[str]:
        """The jobs that are to be looked at now, those that have waited longest first."""
        now = await self._now_ms() if now_ms is None else now_ms
        found = await self._redis.zrangebyscore(keys.OPEN, "-inf", now, start=0, num=MOST_LOOKED_AT)
        return [str(job) for job in found]

    async def reconcile(self, jobs: Sequence[str], member: str, now_ms: int | None = None) -> list[Found]:
        """End, put back or pass over each of these jobs, and say what is left to be done.

        Nothing where `member` does not keep house, or has not been heard for some seconds itself.
        """
        names = [name for job in jobs for name in (keys.job(job), keys.attempts(job))]
        given = [keys.WORKER_DEAD_AFTER_MS, *self._kept, time_given(now_ms), self._most, LOOKS_MS, SOONER_MS, member]
        lists = [keys.WORKERS, keys.OPEN, keys.DEAD, keys.PARKED, self.office, keys.WAITING]
        found = await self._reconcile(keys=[*lists, *names], args=given)
        await self._forget([jobs[place] for place, what, *_ in found if what == _GONE])
        return [
            Found(jobs[place], Need(what), queue, signature, mark or "")
            for place, what, queue, signature, mark in found
            if what != _GONE
        ]

    async def _forget(self, gone: Sequence[str]) -> None:
        """Take jobs without a record out of the lists; only the record knew which ticket was theirs."""
        if not gone:
            return
        whose, first = frozenset(gone), 0
        while tickets := await self._redis.zrange(keys.WAITING, first, first + MOST_LOOKED_AT - 1):
            theirs = {one: job for one in map(str, tickets) if (job := one.split(" ", 2)[2]) in whose}
            names = [keys.WAITING, *map(keys.job, theirs.values())]
            first += MOST_LOOKED_AT - int(await self._lapse(keys=names, args=list(theirs)))
        await self._lapse(keys=[keys.OPEN, *map(keys.job, gone)], args=gone)

    async def follow(self, job: str, leader: str, now_ms: int | None = None) -> list[Any]:
        """Have a job wait for the end of another, or share it, or go its own way: what the script says.

        Of several that would go their own way the first has the key from then on, and the others follow it.
        """
        key = str(await self._redis.hget(keys.job(job), "key") or "")
        while True:
            names = [keys.job(job), keys.attempts(job), keys.job(leader), keys.OPEN, keys.DEAD]
            names += [keys.idempotency(key), keys.WAITING]
            said = await self._follow(keys=names, args=[LOOKS_MS, *self._kept, leader, time_given(now_ms), job])
            if said[0] != "instead":
                return list(said)
            leader = str(said[1])

    async def told(self, job: str) -> None:
        """Celery has heard of this job's end."""
        await self._told(keys=[keys.job(job), keys.OPEN], args=[1, ""])

    async def untold(self, job: str, now_ms: int | None = None) -> None:
        """Celery has heard something else after the end of this job: it is told again."""
        await self._told(keys=[keys.job(job), keys.OPEN], args=[0, time_given(now_ms)])

    async def served(self) -> frozenset[str]:
        """The lanes that a worker serves which was heard just now: one that died may count as living for some time."""
        members = await self._redis.zrangebyscore(keys.WORKERS, await self._now_ms() - SERVED_MS, "+inf")
        return frozenset(str(member).partition("/")[0] for member in members)

    async def whereabouts(self, lanes: Iterable[str], now_ms: int | None = None) -> frozenset[str]:
        """The jobs whose messages are in both queues of these lanes, or in the hands of a living consumer.

        Queues first, each from its newest message on: one that is taken meanwhile is seen in its consumer's hands.
        """
        found: set[str] = set()
        for queue in (name for lane in lanes for each in keys.queues(lane) for name in keys.messages(each)):
            first = 0
            while jobs := await self._seek(keys=[queue], args=[first, first + _CHUNK - 1]):
                found.update(jobs)
                first += _CHUNK
        found.update(await self._held(keys=[UNACKED_INDEX, UNACKED], args=[HELD_S, time_given(now_ms)]))
        return frozenset(found)

    async def requeue(self, job: str, queued: str, now_ms: int | None = None) -> bool:
        """Whether a job whose message is nowhere is to be sent again: not if it has gone on since it was `queued`."""
        names = [keys.job(job), keys.OPEN, keys.WAITING]
        return bool(await self._requeue(keys=names, args=[queued, LOOKS_MS, time_given(now_ms)]))

    async def push(self, jobs: Sequence[str], queue: str) -> None:
        """Put plain messages of these jobs to the front of a queue: they have waited already."""
        await self._redis.rpush(queue, *(envelope(job, queue, origin=HOUSEKEEPING) for job in jobs))
