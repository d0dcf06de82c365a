"""Whose a lane is that runs one request at a time: one worker process holds its lease, the others stand by."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from config.stages import Stage
from worker.machine import lives_here
from worker.state.connection import AWAY
from worker.state.lane_lease import LEASE_S, Claim, Said, host_s

GONE_S = 2.5
"""How long Redis must be without a silent owner's connection before it is taken for dead: one whose connection broke
has a new one by then, also where a heartbeat has hung for its whole time first (2 s, and half a second's pause).
"""

_HOLDS_OFF_S = 2.5
"""Who finds that Redis has lost its data does not take the lane for so long: whoever had it is there again by then."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine sleeps, which the event loop's does not."""

_log = logging.getLogger("staffel")


class Lane:
    """This process's part in the lease of its lane, which its heartbeat renews. From its event loop only.

    A call may begin only while the lease is certain by this process's own clock. So one that was paused, and others
    have followed, begins nothing more when it wakes up; and until its last call must have ended by that call's own
    clock, nobody follows it.
    """

    def __init__(
        self, name: str, stages: Sequence[Stage], is_there: Callable[[str], Awaitable[bool]],
        beat: Callable[[], Awaitable[object]], clock: Callable[[], float] = lambda: time.clock_gettime(_CLOCK),
    ) -> None:  # fmt: skip
        """`is_there` says of a member whether Redis still has its connection; `beat` sends a heartbeat now."""
        self.name = name
        self._call = max((host_s(stage) for stage in stages), default=0.0)
        self._longest = max((host_s(stage) + stage.longest - stage.timeout for stage in stages), default=0.0)
        self._cool_off = max((stage.cool_off for stage in stages), default=0.0)
        self._is_there, self._beat, self._now = is_there, beat, clock
        self._lasts = LEASE_S + self._call
        self._valid_until = self._counts_from = self._holds_off_until = -math.inf
        self._renewed = asyncio.Event()
        self._bereaved = ""
        self._missing: tuple[str, float] | None = None
        self._has_beaten = False
        self.fence = 0
        """The number of this process's term; 0 while the lane is not its own."""
        self.closed = False
        """Whether this process takes no lane any more, since it ends."""
        self.held = asyncio.Event()
        self.won: Callable[[], None] = lambda: None
        self.lost: Callable[[], None] = lambda: None

    def claim(self, running_s: float | None, in_hand: int, *, busy: bool) -> Claim:
        """What the next heartbeat says; `running_s`: for how long a call has been under way, `in_hand`: how many jobs
        are admitted, `busy`: whether something else is done at the host.
        """
        now = self._now()
        may_take = now >= self._holds_off_until and not self.closed
        return Claim(
            self.name, now, round(self._lasts * 1000), self.fence, self._has_beaten, may_take, self._bereaved,
            round(self._cool_off * 1000), None if running_s is None else round(running_s * 1000), in_hand, busy,
        )  # fmt: skip

    async def heard(self, said: Said, claim: Claim) -> None:
        """What a heartbeat with this claim has brought."""
        if self._has_beaten and not said.known and not self.fence:
            self._holds_off_until = self._now() + _HOLDS_OFF_S
        self._has_beaten = True
        if self.fence and said.fence != self.fence:
            self._lose("was nobody's for a moment" if said.fence else "is another worker's now")
        if not said.fence:
            await self._look_at(said)
            return
        if claim.at >= self._counts_from:
            self._valid_until = max(self._valid_until, claim.at + LEASE_S)
        if not self.fence:
            self._win(said.fence)
        self._renewed.set()

    async def confirmed(self) -> bool:
        waited = False
        while not (self.fence and self._now() < self._valid_until):
            waited = True
            self._renewed.clear()
            await self._renewed.wait()
        return waited

    async def lengthen(self) -> None:
        """Certain again only once Redis has heard of it: `confirmed` waits for that."""
        self._lasts = LEASE_S + self._longest
        self._counts_from, self._valid_until = self._now(), -math.inf
        with suppress(*AWAY):  # the next heartbeat says it
            await self._beat()

    def shorten(self) -> None:
        self._lasts = LEASE_S + self._call

    def _win(self, fence: int) -> None:
        self.fence, self._bereaved, self._missing = fence, "", None
        _log.info("the lane %s is this worker's now", self.name)
        self.held.set()
        self.won()

    def _lose(self, how: str) -> None:
        _log.warning("the lane %s %s: what is under way here is handed back", self.name, how)
        self.fence, self._valid_until = 0, -math.inf
        self.held.clear()
        self.lost()

    async def _look_at(self, said: Said) -> None:
        """Find out whether a silent owner is dead or only paused: a dead one's connection is closed by its machine.

        Something in between may have closed it, so a process of this machine is looked for itself. A paused one may
        have a call at the host: it is followed when that must have ended.
        """
        self._bereaved = ""
        if said.silent_ms < LEASE_S * 1000 or lives_here(said.owner) or await self._is_there(said.owner):
            self._missing = None
            return
        now = self._now()
        if self._missing is None or self._missing[0] != said.owner:
            self._missing = (said.owner, now)
        elif now - self._missing[1] >= GONE_S:
            self._bereaved = said.owner
