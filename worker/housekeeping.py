"""What a worker process does beside its jobs: it says that it lives, hears of cancels, and sends parked jobs on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

from worker.failover.chain import Stop
from worker.reconciler import Reconciler, Send
from worker.state.connection import AWAY, comes_back
from worker.state.lane_lease import Claim, Said
from worker.state.redis import RedisState

PUBLISH_S = 5.0
"""How often a process makes sure that Redis still knows what it can do."""

BEAT_S = 0.5
"""How often a process says that it lives and asks for cancelled jobs: a cancel closes a call within this."""

FEED_S = 0.1
"""How often the one process that is the housekeeper looks for parked jobs that may run, while there are any."""

_MOST_TOLD = 1000

_log = logging.getLogger("staffel")

KEEP_S = 0.5
"""How often the housekeeper looks at the open jobs that are due."""


class InLane(Protocol):
    """A process's part in a lane that one serves at a time."""

    def claim(self) -> Claim: ...

    async def heard(self, said: Said, claim: Claim) -> None: ...


class Housekeeping:
    """Three loops: the beats are never late because of a message that is being sent."""

    def __init__(
        self,
        state: RedisState,
        member: str,
        running: Mapping[str, Stop],
        publish: Callable[[], Awaitable[object]],
        send: Send,
        *,
        post: InLane | None = None,
    ) -> None:
        """`running` are the walks of this process; `publish` says what it can do where that was lost; `post` is its
        part in a lane that runs one request at a time.
        """
        self._state, self._member, self._running = state, member, running
        self._publish, self._send, self._post = publish, send, post
        self._reconciler = Reconciler(state.open, member, send, self._not_sent)
        self._published = 0.0
        self._may_feed, self._may_keep = asyncio.Event(), asyncio.Event()
        self.over = asyncio.Event()
        self._away = False
        self._told: set[str] = set()

    async def run(self) -> None:
        """Until it is `over`; the last beat has then been heard, and none comes after the process has left.

        A cancel would not do: redis-py may swallow it on Python 3.11 (cpython#86296), and who goes on beating keeps its
        jobs.
        """
        keeps = self._whenever(
            self._may_keep, self._reconciler.round, KEEP_S, whose="open jobs", cannot="cannot be looked at"
        )
        feeds = self._whenever(self._may_feed, self._feed, FEED_S, whose="parked jobs", cannot="cannot be sent on")
        others = [asyncio.create_task(keeps), asyncio.create_task(feeds)]
        try:
            await self._beat_until_over()
        finally:
            for other in others:
                other.cancel()

    async def _beat_until_over(self) -> None:
        now = asyncio.get_running_loop().time
        away_since: float | None = None
        while not self.over.is_set():
            began = now()
            try:
                await self.beat()
                if away_since is not None:
                    _log.warning(
                        "Redis is back after %.1f s: results are written; new jobs start once Celery is there too",
                        now() - away_since,
                    )
                away_since, self._away = None, False
            except AWAY as error:
                self._away = True
                self._may_feed.clear()
                self._may_keep.clear()
                if away_since is None:
                    away_since = began
                    _log.warning(
                        "Redis is away (%s): calls under way go on and their results wait here; nothing new starts",
                        type(error).__name__,
                    )
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self.over.wait()

    async def beat(self) -> None:
        """One heartbeat, now."""
        now = asyncio.get_running_loop().time()
        if now - self._published >= PUBLISH_S:
            await self._publish()
            self._published = now
        claim = self._post.claim() if self._post else None
        beat = await self._state.beat(self._member, list(self._running), claim=claim)
        if self._post is not None and claim is not None and beat.lane is not None:
            await self._post.heard(beat.lane, claim)
        for job in beat.cancelled:
            if job in self._running:
                self._running[job].ask()
        for may, does in ((self._may_feed, beat.feeds), (self._may_keep, beat.keeps)):
            if does:
                may.set()
            else:
                may.clear()

    async def _whenever(
        self, may: asyncio.Event, step: Callable[[], Awaitable[None]], every_s: float, *, whose: str, cannot: str
    ) -> None:
        """Again and again, while it is this process's to do; `whose` and `cannot` tell of what Redis refuses."""
        while True:
            await may.wait()
            try:
                await step()
            except AWAY as error:
                if not comes_back(error):  # else the beats tell it
                    self._say(whose, f"{cannot} ({type(error).__name__}); it is tried again")
            await asyncio.sleep(every_s)

    async def _feed(self) -> None:
        jobs = await self._state.feed()
        found = dict(zip(jobs, await self._state.signatures(jobs), strict=True)) if jobs else {}
        for job in [job for job, signature in found.items() if signature is None]:
            await self._state.forget(job)
        messages = {job: signature for job, signature in found.items() if signature is not None}
        if messages:
            await asyncio.to_thread(self._send_on, messages)

    def _send_on(self, messages: Mapping[str, str]) -> None:
        """What is not sent here is given out again after a while (`SENT_AGAIN_MS`)."""
        for job, signature in messages.items():
            if self._away:
                return
            try:
                self._send(signature, None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are sent, and it is tried again
                self._say(f"parked job {job}", f"could not be sent on ({type(error).__name__}); it is tried again")

    def _not_sent(self, job: str, error: Exception) -> None:
        self._say(f"job {job}", f"could not be sent again ({type(error).__name__}); it is tried again")

    def _say(self, whose: str, what: str) -> None:
        """Once, and nothing of the message: it may hold a customer's text."""
        if whose not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(whose)
            _log.warning("%s %s", whose, what)
