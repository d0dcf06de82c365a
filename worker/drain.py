"""The walks under way in a process, and how they end before their time when the process does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from worker.failover.answer import View
from worker.failover.attempt import Attempt
from worker.failover.state import GOES_ON, Admission, Permit, Settled, Settlement, State, Visit
from worker.state.connection import AWAY

HAND_BACK_S = 1.5
"""How long jobs may take to be handed back; where Redis is away, others learn by the silence of the heart."""

_AGAIN_S = 0.2
T = TypeVar("T")


class Abandoned(Exception):
    """This process ends before the job does; the job is any worker's now, and its message goes back."""


class Walks:
    """What runs here, each under its job's id. From the process's event loop only."""

    def __init__(self, hand_back: Callable[[str], Awaitable[object]]) -> None:
        """`hand_back` gives a job's record back, so that any worker may claim it."""
        self._hand_back = hand_back
        self._under_way: set[asyncio.Task[Any]] = set()
        self._settling: dict[str, asyncio.Task[Settled]] = {}
        self._changed = asyncio.Event()
        self._hurried = self._over = False
        self.abandoned: set[str] = set()
        """The jobs whose messages are to go back to the queue."""
        self.closed = False
        """Whether nothing new is begun."""

    async def run(self, job: str, work: Coroutine[Any, Any, T], *, begins: bool = True) -> T:
        """What the work brings; `Abandoned` where the process ends before, the job's record already handed back.

        A walk that is broken off while it settles the job's end brings that end.
        `begins`: it does not belong to what is under way, so that it is not begun any more once this is closed.
        """
        if self._over or (begins and self.closed):
            work.close()
            self.abandoned.add(job)
            raise Abandoned
        self.abandoned.discard(job)
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if (end := await self._give_back(job)) is not None:
                return cast("T", end)
            self.abandoned.add(job)
            raise Abandoned from None
        finally:
            self._under_way.discard(task)
            self._changed.set()

    async def _give_back(self, job: str) -> View | None:
        """A message that comes before its record is given back would find a living owner, and be forgotten.

        Its end, where a settle under way has ended it: Celery is still to be told, and nobody else is as near.
        """
        with suppress(TimeoutError, *AWAY):
            async with asyncio.timeout(HAND_BACK_S):
                if (settling := self._settling.get(job)) is not None:
                    await asyncio.wait([settling])
                    if settling.exception() is None and (view := settling.result().view) is not None:
                        return view
                await self._hand_back(job)
        return None

    async def settle(self, job: str, settling: Coroutine[Any, Any, Settled]) -> Settled:
        """Carried through, also when its walk is broken off: what a host has answered is paid for."""
        task = self._settling[job] = asyncio.ensure_future(settling)
        task.add_done_callback(partial(self._settled, job))
        return await asyncio.shield(task)

    def _settled(self, job: str, task: asyncio.Task[Settled]) -> None:
        self._settling.pop(job, None)
        if not task.cancelled():
            task.exception()  # whoever still walks has met it; of a walk that was broken off nobody would

    def __len__(self) -> int:
        return len(self._under_way)

    def interrupt(self) -> None:
        """Hand back all that is under way, and go on: this process has lost its lane to another."""
        for task in self._under_way:
            task.cancel()

    def hurry(self) -> None:
        """Wait no longer."""
        self._hurried = True
        self._changed.set()

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, let what runs end for so long, then hand the rest back. Bounded."""
        self.closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._under_way and not self._hurried:
                    self._changed.clear()
                    await self._changed.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S + _AGAIN_S):
                self._over = True
                await self._break_off()

    async def _break_off(self) -> None:
        """A cancel is said again, since redis-py may swallow one on Python 3.11 (cpython#86296); not at once, since a
        second one would break into a call's clean-up.
        """
        loop = asyncio.get_running_loop()
        said = loop.time() - _AGAIN_S
        while self._under_way:
            if loop.time() - said >= _AGAIN_S:
                for task in self._under_way:
                    task.cancel()
                said = loop.time()
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._changed.wait()


class Unbroken:
    """A shared state whose settles are carried through."""

    def __init__(self, state: State, walks: Walks) -> None:
        self._state, self._walks = state, walks

    async def admit(self, visit: Visit) -> Admission:
        return await self._state.admit(visit)

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        return await self._walks.settle(permit.visit.job, self._state.settle(permit, attempt, settlement))
