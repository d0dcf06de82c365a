"""When a call may go out: at once, or one after the other for all who ask the same host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from config.stages import Stage
from worker.failover.clocks import Reply
from worker.failover.provider import Kind

Ask = Callable[[float, bool], Coroutine[Any, Any, Reply]]
"""Makes the call; hears how long (s) the job has waited for its turn, and whether its model may have to be loaded."""

Work = Callable[[], Awaitable[Reply | None]]
"""Something to be done at a host beside the calls of jobs; its reply, where it has one."""

Idle = Callable[[Work], Awaitable[None]]
"""Does a piece of work while no job's call is under way."""

NOT_ASKED = Reply(asked=False)
"""Its time was over before its turn came."""

AGAIN = Reply(asked=False)
"""The call before it has failed: whether the stage may be asked is to be seen anew."""

SETTLES_S = 1.0
"""So long a call that has failed may take to be settled before the next one goes on all the same."""


class Turns(Protocol):
    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:
        """Make the call once it may be made; `NOT_ASKED` where that is not within so many seconds, or `AGAIN`."""
        ...

    def settled(self, job: str) -> None:
        """What came of this job's call is known to all workers."""
        ...


class AtOnce:
    """A lane on which many run at once."""

    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:  # noqa: ARG002
        return await ask(0.0, False)  # noqa: FBT003 - an Ask's own

    def settled(self, job: str) -> None:
        pass


class Lease(Protocol):
    """This process's right to ask the lane's host, which others may have taken over meanwhile."""

    async def confirmed(self) -> None:
        """Returns while it is certain, and waits where it is not."""
        ...

    async def lengthen(self) -> None:
        """Have it outlast a load and a call."""
        ...

    def shorten(self) -> None:
        """A call is enough again."""
        ...


class Warm(Protocol):
    """What is known of the models that the lane's host has loaded."""

    async def is_cold(self, stage: Stage) -> bool: ...

    def answered(self, stage: Stage) -> None: ...

    def unsure(self) -> None: ...


_HOST_ENDED = frozenset({Kind.CONNECT, Kind.OURS, Kind.STATUS, Kind.CUT, Kind.IN_STREAM})
"""Faults after which nothing of the call is left at the host; all others are our leaving it in the middle."""


def _was_left(reply: Reply) -> bool:
    return reply.fault is not None and reply.fault.kind not in _HOST_ENDED


_RESTARTED = frozenset({Kind.CONNECT, Kind.CUT})
"""Faults after which the host may have been started anew, without any model."""


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
        self._busy = False
        self._failures = 0
        self._unsettled: dict[str, asyncio.Event] = {}
        self.since: float | None = None
        """When the call under way began, by the event loop's clock."""

    @property
    def in_hand(self) -> int:
        """What may be at the host at any moment: the call that runs, those that wait, and what is done beside them."""
        return len(self._waiting) + (self.since is not None) + self._busy

    @property
    def rests_s(self) -> float:
        """Seconds for which the host is still to be left alone."""
        return max(0.0, self._rests_until - self._now())

    def was_unasked(self, job: str) -> bool:
        """Whether a job that was broken off was still waiting for its turn; told once."""
        if job not in self._unasked:
            return False
        self._unasked.discard(job)
        return True

    def waits(self, job: str) -> bool:
        """Whether this job is admitted, and no host has heard of it."""
        return job in self._unasked

    def dismiss(self) -> None:
        """Break off those that wait: this process begins nothing more."""
        for task in self._waiting:
            task.cancel()

    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:
        began, failures = self._now(), self._failures
        self._unasked.add(job)  # until its turn comes; where it is broken off before, until that is told
        try:
            async with asyncio.timeout(within_s):
                cold = await self._taken(stage)
        except TimeoutError:
            self._unasked.discard(job)
            return NOT_ASKED
        self._unasked.discard(job)
        if failures != self._failures:
            self._lock.release()
            return AGAIN
        broken_off = True
        try:
            self.since = self._now()
            self._begun()
            reply = await ask(self.since - began, cold)
            broken_off = _was_left(reply)
            if reply.end is not None:
                self._warm.answered(stage)
            elif reply.fault is not None and reply.fault.kind in _RESTARTED:
                self._warm.unsure()
            if reply.fault is not None or reply.end is None:
                self._failures += 1
                self._unsettled[job] = asyncio.Event()
        finally:
            self.since = None
            self._lease.shorten()
            self._passed_on(stage if broken_off else None)
        await asyncio.sleep(0)  # the next call goes out before this one is judged
        return reply

    def settled(self, job: str) -> None:
        if job in self._unsettled:
            self._unsettled.pop(job).set()

    async def idle(self, work: Work) -> None:
        """Do something else at the host, when no call is under way."""
        async with self._lock:
            await self._rested()
            self._busy = True
            try:
                await self._lease.lengthen()
                await self._lease.confirmed()
                reply = await work()
                if reply is not None and _was_left(reply):
                    self.rest(self._cool_off)
            except asyncio.CancelledError:
                self.rest(self._cool_off)
                raise
            finally:
                self._busy = False
                self._lease.shorten()

    async def _taken(self, stage: Stage) -> bool:
        """Wait for one's turn; whether the stage's model may have to be loaded."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs
        self._waiting.add(task)
        try:
            await self._lock.acquire()
            try:
                await self._all_settled()
                await self._rested()
                await self._lease.confirmed()
                cold = await self._warm.is_cold(stage)
                if cold:
                    await self._lease.lengthen()
                await self._lease.confirmed()
            except BaseException:
                self._lock.release()
                raise
        finally:
            self._waiting.discard(task)
        return cold

    async def _all_settled(self) -> None:
        """A walk that is broken off settles nothing."""
        for job, event in list(self._unsettled.items()):
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLES_S):
                    await event.wait()
            self._unsettled.pop(job, None)

    async def _rested(self) -> None:
        while (seconds := self.rests_s) > 0:  # noqa: ASYNC110 - it may have become longer meanwhile
            await asyncio.sleep(seconds)

    def rest(self, seconds: float) -> None:
        """Leave the host alone for so long from now on."""
        self._rests_until = max(self._rests_until, self._now() + seconds)

    def _passed_on(self, broken_off: Stage | None) -> None:
        if broken_off is not None:
            self.rest(broken_off.cool_off)
        self._lock.release()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
