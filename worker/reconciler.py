"""No job is lost: one whose worker or message is gone is sent again, and Celery hears of every end."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import MappingProxyType

from config.stages import CLOUD
from staffel_wire import keys
from worker.state.open_jobs import MOST_LOOKED_AT, Found, Need, OpenJobs

MISSED_S = 3.0
"""A job whose message is seen nowhere is looked for once more after this: one on its way is nowhere for a moment."""

_SHARE = 50
"""Queues are searched for at most a fiftieth of the time, however long they are."""

_MOST_LOOKS = 20
"""So many looks make a round at most."""

_WHY = MappingProxyType(
    {
        Need.SENDS: "is sent again: its worker has died",
        Need.SEEKS: "is sent again: its message was lost",
        Need.FOLLOWS: "goes its own way: the one that it followed was given up",
        Need.TELLS: "has ended without a worker: its caller is told",
    }
)
_log = logging.getLogger("staffel")

Send = Callable[[str, str | None], None]
"""Puts a message, a signature as JSON, onto its own queue or the one that is named. It may block."""

Say = Callable[[str, Exception], None]
"""Hears which job's message could not be sent, and why."""


class Search:
    """The jobs that wait in a queue as far as is known, and whose messages are looked for."""

    def __init__(self, jobs: OpenJobs) -> None:
        self._jobs = jobs
        self._waiting: dict[str, Found] = {}
        self._missed: dict[str, str] = {}
        self._next_at = 0.0

    def add(self, found: Iterable[Found]) -> None:
        self._waiting.update((one.job, one) for one in found)

    async def lost(self) -> list[Found]:
        """Those that no queue and no consumer knew, twice in a row, and that have not gone on since."""
        now = asyncio.get_running_loop().time
        began = now()
        if not self._waiting or began < self._next_at:
            return []
        known = await self._jobs.whereabouts({keys.lane_of(one.queue) for one in self._waiting.values()})
        gone = {job: one for job, one in self._waiting.items() if job not in known}
        lost = [one for job, one in gone.items() if self._missed.get(job) == one.mark]
        self._waiting = {job: one for job, one in gone.items() if self._missed.get(job) != one.mark}
        self._missed = {job: one.mark for job, one in self._waiting.items()}
        self._next_at = now() + max(_SHARE * (now() - began), MISSED_S if self._missed else 0.0)
        return [one for one in lost if await self._jobs.requeue(one.job, one.mark)]


class Reconciler:
    """One round at a time; what a round does not come to, the next one does."""

    def __init__(self, jobs: OpenJobs, member: str, send: Send, say: Say) -> None:
        self._jobs, self._member, self._send, self._say = jobs, member, send, say
        self._search = Search(jobs)

    async def round(self) -> None:
        """Look at the jobs that are due. Raises what Redis raises; what cannot be sent is looked at again."""
        for _ in range(_MOST_LOOKS):
            due = await self._jobs.due()
            if due:
                await self._mend(await self._jobs.reconcile(due, self._member))
            if len(due) < MOST_LOOKED_AT:
                break
        await self._sends(await self._search.lost())

    async def _mend(self, found: Iterable[Found]) -> None:
        needs: dict[Need, list[Found]] = defaultdict(list)
        for one in found:
            needs[one.need].append(one)
        self._search.add(needs[Need.SEEKS])
        for one in needs[Need.FOLLOWS]:
            if await self._jobs.follow(one.job, one.mark) == ["goes"]:
                needs[Need.SENDS].append(one)
        await self._sends(needs[Need.SENDS])
        if needs[Need.TELLS]:
            served = await self._jobs.served()
            await self._sends(needs[Need.TELLS], lambda queue: self._telling(keys.lane_of(queue), served))

    def _telling(self, lane: str, served: frozenset[str]) -> str:
        """Where somebody takes it soon, before all batch jobs: a lane of one place may be busy for long."""
        return next((one for one in (lane, CLOUD) if one in served), self._member.partition("/")[0])

    async def _sends(self, found: Iterable[Found], where: Callable[[str], str] = str) -> None:
        """To the front of a queue, since they have waited; what is more than plain goes by Celery, to the back."""
        plain: dict[str, list[str]] = defaultdict(list)
        for one in found:
            _log.info("job %s %s", one.job, _WHY[one.need])
            if not one.signature:
                plain[where(one.queue)].append(one.job)
        for queue, jobs in plain.items():
            await self._jobs.push(jobs, queue)
        for one in found:
            if one.signature:
                try:
                    await asyncio.to_thread(self._send, one.signature, where(one.queue))
                except Exception as error:  # noqa: BLE001 - whatever it is, the others are sent, and it is tried again
                    self._say(one.job, error)
