"""One call at a time in a worker process: who is next, when, and after which rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from config.stages import Stage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind
from worker.failover.turns import AGAIN, NOT_ASKED, Ask, Lease, Needed, Warm, Work

SETTLES_S = 1.0
"""So long a call that has failed may take to be settled before the next one goes on all the same."""

_HOST_ENDED = frozenset({Kind.CONNECT, Kind.OURS, Kind.STATUS, Kind.CUT, Kind.IN_STREAM})
"""Faults after which nothing of the call is left at the host; all others are our leaving it in the middle."""

_RESTARTED = frozenset({Kind.CONNECT, Kind.CUT})
"""Faults after which the host may have been started anew, without any model."""


def was_left(reply: Reply) -> bool:
    """Whether we left the host in the middle of a call."""
    return reply.fault is not None and reply.fault.kind not in _HOST_ENDED


class Failures:
    """The calls that have failed, and those of them that other workers do not know of yet."""

    def __init__(self) -> None:
        self.count = 0
        self._unsettled: dict[str, asyncio.Event] = {}

    def add(self, job: str) -> None:
        self.count += 1
        self._unsettled[job] = asyncio.Event()

    def settled(self, job: str) -> None:
        if job in self._unsettled:
            self._unsettled.pop(job).set()

    async def all_settled(self) -> None:
        """A walk that is broken off settles nothing, and is not waited for for long."""
        for job, event in list(self._unsettled.items()):
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLES_S):
                    await event.wait()
            self._unsettled.pop(job, None)


class Baton:
    """One call at a time in this process, while the process holds its lane. From its event loop only.

    Whoever waits for it is claimed and admitted already: so the next call starts while the one before is still being
    settled, and the host is never idle for our bookkeeping. Only a failure is settled first, and those who were
    admitted before it are admitted anew: its breaker may be open by now. After a call that was broken off the host is
    left alone for the stage's `cool_off`: while it evaluates a prompt it notices late that its caller has left
    (ollama#11889).
    """

    def __init__(
        self, lease: Lease, warm: Warm, begun: Callable[[], None] = lambda: None, *, cool_off: float = 0.0
    ) -> None:
        """`begun` hears that a call begins; `cool_off` (s) is for what is no call of a stage."""
        self._lease, self._warm, self._begun, self._cool_off = lease, warm, begun, cool_off
        self._lock = asyncio.Lock()
        self._rests_until = 0.0
        self._waiting: set[asyncio.Task[Any]] = set()
        self._unasked: set[str] = set()
        self._failures = Failures()
        self._kept_for: str | None = None
        self._keeps: asyncio.TimerHandle | None = None
        self._closed = False
        self._since: float | None = None
        self.busy = False
        """Whether something is done at the host beside the jobs."""

    @property
    def in_hand(self) -> int:
        """The jobs here that are admitted: the one whose call runs, and those that wait for it."""
        return len(self._waiting) + (self._since is not None)

    @property
    def running_s(self) -> float | None:
        """For how long the call under way has taken."""
        return None if self._since is None else self._now() - self._since

    @property
    def rests_s(self) -> float:
        """Seconds for which the host is still to be left alone."""
        return max(0.0, self._rests_until - self._now())

    def was_unasked(self, job: str) -> bool:
        """Whether a job that was broken off was still waiting for its turn; told once."""
        waited = job in self._unasked
        self._unasked.discard(job)
        return waited

    def waits(self, job: str) -> bool:
        """Whether this job is admitted, and no host has heard of it."""
        return job in self._unasked

    def dismiss(self) -> None:
        """Begin nothing more: those that wait are broken off, and so is whoever comes."""
        self._closed = True
        for task in self._waiting:
            task.cancel()

    def settled(self, job: str) -> None:
        self._unasked.discard(job)
        self._failures.settled(job)
        if self._takes_kept(job):
            self._lock.release()

    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:
        """Raises CancelledError where this process begins nothing more, or has lost the lane to another one."""
        began, failures = self._now(), self._failures.count
        self._unasked.add(job)  # until its turn comes; where it is broken off before, until that is told
        if self._closed or not self._lease.fence:
            raise asyncio.CancelledError
        try:
            async with asyncio.timeout(within_s):
                cold = await self._taken(job, stage, failures)
        except TimeoutError:
            cold, reply = None, NOT_ASKED
        else:
            reply = AGAIN
        self._unasked.discard(job)
        if cold is None:
            return reply
        broken_off = True
        try:
            self._since = self._now()
            self._begun()
            reply = await ask(self._since - began, cold)
            broken_off = was_left(reply)
            self._learn(job, stage, reply)
        finally:
            self._since = None
            self._pass_on(stage.cool_off if broken_off else 0.0)
        await asyncio.sleep(0)  # the next call goes out before this one is judged
        return reply

    async def idle(self, needed: Needed, work: Work) -> None:
        """Do something else at the host, when no call is under way, if it is needed then."""
        await self._lock.acquire()
        broken_off = False
        try:
            await self._rested()
            if await needed():
                self.busy = broken_off = True
                await self._lease.lengthen()
                await self._lease.confirmed()
                reply = await work()
                broken_off = reply is not None and was_left(reply)
        finally:
            self.busy = False
            self._pass_on(self._cool_off if broken_off else 0.0)

    async def _taken(self, job: str, stage: Stage, failures: int) -> bool | None:
        """Wait for one's turn; whether the stage's model may have to be loaded, None where one is to be admitted anew:
        a call has failed meanwhile, or this process has been silent for so long that others may have the job.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs
        self._waiting.add(task)
        try:
            if not self._takes_kept(job):
                await self._lock.acquire()
            try:
                await self._failures.all_settled()
                if await self._lease.confirmed() or failures != self._failures.count:
                    self._keep_for(job)
                    return None
                await self._rested()
                await self._lease.confirmed()
                if cold := await self._warm.is_cold(stage):
                    await self._lease.lengthen()
                await self._lease.confirmed()
            except BaseException:
                self._pass_on(0.0)
                raise
        finally:
            self._waiting.discard(task)
        return cold

    def _keep_for(self, job: str) -> None:
        """Its turn stays its own while it is admitted anew: whoever came later would overtake it."""
        self._kept_for = job
        self._keeps = asyncio.get_running_loop().call_later(SETTLES_S, self.settled, job)

    def _takes_kept(self, job: str) -> bool:
        """Whether the baton is held for this job; it is not any more."""
        if self._kept_for != job or self._keeps is None:
            return False
        self._keeps.cancel()
        self._kept_for = self._keeps = None
        return True

    def _learn(self, job: str, stage: Stage, reply: Reply) -> None:
        if reply.end is not None:
            self._warm.answered(stage)
        else:
            self._failures.add(job)
        if reply.fault is not None and reply.fault.kind in _RESTARTED:
            self._warm.unsure()

    async def _rested(self) -> None:
        while (seconds := self.rests_s) > 0:  # noqa: ASYNC110 - it may have become longer meanwhile
            await asyncio.sleep(seconds)

    def _pass_on(self, rest_s: float) -> None:
        """To whoever is next; the host is left alone for so long before."""
        self._rests_until = max(self._rests_until, self._now() + rest_s)
        self._lease.shorten()
        self._lock.release()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
