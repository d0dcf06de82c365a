"""A worker process at a lane that runs one request at a time: it serves while it holds the lane, and else stands by."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from config.stages import Stage
from worker.failover.baton import Baton
from worker.failover.turns import Idle
from worker.lane import Lane
from worker.state.connection import AWAY
from worker.state.lane_lease import Claim, Said
from worker.warmth import Warmth

SHOWN_AFTER_S = 0.1
"""A call that has taken so long is told then, and not with the next heartbeat: whoever waits behind it counts on it."""

AGAIN_S = 5.0

CLOSES_S = 0.5
"""What a load or a probe that is broken off may take to close its connection."""

Loop = Callable[[Idle], Coroutine[Any, Any, None]]

_log = logging.getLogger("staffel")


class Server(Protocol):
    """The worker's side of the broker, as another thread may tell it."""

    def serve(self) -> None:
        """Take jobs: the lane is this process's now."""
        ...

    def stand_by(self) -> None:
        """Take none: the lane is another's."""
        ...

    def stand_by_now(self) -> None:
        """The same, in the consumer's own thread, before it takes its first message."""
        ...


class Post:
    """The lane's lease, its baton, and the consumer that takes jobs from its queue. From the process's event loop,
    `attend` aside.
    """

    def __init__(
        self, lane: str, stages: Sequence[Stage], warm: Warmth, *, interrupt: Callable[[], None],
        is_there: Callable[[str], Awaitable[bool]], beat: Callable[[], Awaitable[object]],
    ) -> None:  # fmt: skip
        """`interrupt` hands back all walks under way; `is_there` and `beat` as `Lane` needs them."""
        self.lane = Lane(lane, stages, is_there, beat)
        self._warm = warm
        cool_off = max((stage.cool_off for stage in stages), default=0.0)
        self.baton = Baton(self.lane, warm, self._begun, cool_off=cool_off)
        self._interrupt, self._beat = interrupt, beat
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._server: Server | None = None
        self._loops: Sequence[Loop] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self.lane.won, self.lane.lost = self._won, self._lost

    def attend(self, server: Server) -> None:
        """Have this consumer serve the lane whenever it is ours; in the consumer's thread, before it takes anything."""
        self._server = server
        if not self.lane.held.is_set():
            server.stand_by_now()

    def meanwhile(self, *loops: Loop) -> None:
        """What runs while the lane is ours, for ever; each asks the host by what it is given."""
        self._loops = [self._keep_warm, *loops]

    async def _keep_warm(self, idle: Idle) -> None:
        await self._warm.keep(idle, self.lane.held)

    def claim(self) -> Claim:
        return self.lane.claim(self.baton.running_s, self.baton.in_hand, busy=self.baton.busy)

    async def heard(self, said: Said, claim: Claim) -> None:
        await self.lane.heard(said, claim)

    def _begun(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SHOWN_AFTER_S, self._tell)

    def _tell(self) -> None:
        if self.baton.running_s is not None:
            self._telling = asyncio.ensure_future(self._told())

    async def _told(self) -> None:
        with suppress(*AWAY):
            await self._beat()

    def _won(self) -> None:
        self._warm.unsure()
        self._tasks = [asyncio.ensure_future(self._again(loop, self.lane.fence)) for loop in self._loops]
        if self._server is not None:
            self._server.serve()

    async def _again(self, loop: Loop, term: int) -> None:
        """It never ends by a mistake of ours: the lane goes on without it meanwhile."""
        while self.lane.fence == term:
            try:
                await loop(self.baton.idle)
            except Exception as error:  # noqa: BLE001 - whatever it is
                what = type(error).__name__
                _log.error("the lane %s: what is done beside its jobs failed (%s)", self.lane.name, what)
            await asyncio.sleep(AGAIN_S)

    def _lost(self) -> None:
        self._jobs_alone()
        if self._server is not None:
            self._server.stand_by()
        self._interrupt()

    def _jobs_alone(self) -> None:
        for task in self._tasks:
            task.cancel()

    def retire(self) -> None:
        """Begin nothing more, and take the lane no more: this process ends."""
        self.lane.closed = True
        self._jobs_alone()
        self.baton.dismiss()

    async def left(self) -> int:
        """Milliseconds for which the host is to be left alone, once nothing of ours is there any more. Bounded."""
        self._jobs_alone()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSES_S)
        return round(self.baton.rests_s * 1000)
