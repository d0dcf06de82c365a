"""Many waits on one connection: one question for all of them, asked again and again.

A question, and not a subscription: a connection that is subscribed can do nothing else, and a message that is
published while nobody listens is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from staffel.errors import Unavailable

FAST_S = 0.02
SLOW_S = 0.2
"""A question is asked every 20 ms while the youngest wait is young, and every 200 ms once it is 10 s old."""

PATIENCE_S = 5.0
"""How long a Redis that was there may be away before those who wait are told; a restart takes less."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job's status, its lane, and whether a living worker serves that lane."""

    status: str
    lane: str
    served: bool


Ask = Callable[[list[str]], Awaitable[tuple[frozenset[str], list[Seen]]]]


@dataclass(eq=False, slots=True)
class _Wait:
    job: str
    enough: Callable[[Seen], bool]
    since: float
    future: asyncio.Future[Seen]


class Waiting:
    """Runs one asking coroutine while anybody waits, and none otherwise."""

    def __init__(self, ask: Ask, met: Callable[[], bool] = lambda: False) -> None:
        """`met` says whether Redis ever answered: one that did is asked again, one that never did is not there."""
        self._ask, self._met = ask, met
        self._waits: set[_Wait] = set()
        self._asking: asyncio.Task[None] | None = None

    async def until(self, job: str, enough: Callable[[Seen], bool]) -> Seen:
        """The first sight of the job that is enough; raises what the question raises."""
        loop = asyncio.get_running_loop()
        wait = _Wait(job, enough, loop.time(), loop.create_future())
        self._waits.add(wait)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_while_needed())
        try:
            return await wait.future
        finally:
            self._waits.discard(wait)

    async def _ask_while_needed(self) -> None:
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while self._waits:
            jobs = sorted({wait.job for wait in self._waits})
            asked = loop.time()
            try:
                _, seen = await self._ask(jobs)
            except Unavailable as error:
                away_since = asked if away_since is None else away_since
                if not self._met() or loop.time() - away_since >= PATIENCE_S:
                    self._fail(error)
                    return
                await asyncio.sleep(SLOW_S)
                continue
            except Exception as error:  # noqa: BLE001 - every waiter learns it, none is left waiting
                self._fail(error)
                return
            away_since = None
            self._tell(dict(zip(jobs, seen, strict=True)))
            if self._waits:
                await asyncio.sleep(self._pause())

    def _tell(self, seen: dict[str, Seen]) -> None:
        for wait in list(self._waits):
            if wait.job in seen and wait.enough(seen[wait.job]) and not wait.future.done():
                wait.future.set_result(seen[wait.job])
                self._waits.discard(wait)

    def _fail(self, error: Exception) -> None:
        for wait in list(self._waits):
            if not wait.future.done():
                wait.future.set_exception(error)
        self._waits.clear()

    def _pause(self) -> float:
        age = asyncio.get_running_loop().time() - max(wait.since for wait in self._waits)
        return min(SLOW_S, FAST_S + age * (SLOW_S - FAST_S) / 10)

    def stop(self) -> None:
        """Ask no more; whoever still waits gets `Unavailable`, since nobody would ever answer."""
        if self._asking is not None:
            self._asking.cancel()
        self._fail(Unavailable("the client was closed while a job was waited for; the job goes on"))
