"""Whose a lane is that runs one request at a time: one worker process holds its lease, the others stand by."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from config.stages import Stage
from worker.state.connection import AWAY
from worker.state.lane_lease import LEASE_S, Claim, Said

GONE_S = 1.5
"""How long Redis must be without a silent owner's connection before it is taken for dead: one whose connection broke
has a new one by then.
"""

_HOLDS_OFF_S = 2.0
"""Who finds that Redis has lost its data does not take the lane for so long: whoever had it is there again by then."""

_log = logging.getLogger("staffel")


class Lane:
    """This process's part in the lease of its lane, which its heartbeat renews. From its event loop only.

    A call may begin only while the lease is certain by this process's own clock. So one that was paused, and others
    have followed, begins nothing more when it wakes up; and until its last call must have ended by that call's own
    clock, nobody follows it.
    """

    def __init__(
        self, name: str, stages: Sequence[Stage], is_there: Callable[[str], Awaitable[bool]],
        beat: Callable[[], Awaitable[object]],
    ) -> None:  # fmt: skip
        """`is_there` says of a member whether Redis still has its connection; `beat` sends a heartbeat now."""
        self.name = name
        self._timeout = max((stage.timeout for stage in stages), default=0.0)
        self._longest = max((stage.longest for stage in stages), default=0.0)
        self._cool_off = max((stage.cool_off for stage in stages), default=0.0)
        self._is_there, self._beat = is_there, beat
        self._lasts = LEASE_S + self._timeout
        self._valid_until = self._holds_off_until = 0.0
        self._renewed = asyncio.Event()
        self._bereaved = ""
        self._missing: tuple[str, float] | None = None
        self._has_beaten = False
        self.fence = 0
        """The number of this process's term; 0 while the lane is not its own."""
        self.held = asyncio.Event()
        self.won: Callable[[], None] = lambda: None
        self.lost: Callable[[], None] = lambda: None

    def claim(self, since: float | None, in_hand: int) -> Claim:
        """What the next heartbeat says; `since` when the call under way began, `in_hand`: how many are admitted."""
        now = self._now()
        return Claim(
            self.name, round(self._lasts * 1000), self.fence, bool(self._has_beaten), now >= self._holds_off_until,
            self._bereaved, round(self._cool_off * 1000), None if since is None else round((now - since) * 1000),
            in_hand,
        )  # fmt: skip

    async def heard(self, said: Said, sent: float) -> None:
        """What a heartbeat that was sent then has brought."""
        if self._has_beaten and not said.known and not self.fence:
            self._holds_off_until = self._now() + _HOLDS_OFF_S
        self._has_beaten = True
        if self.fence and said.fence != self.fence:
            self._lose("was nobody's for a moment" if said.fence else "is another worker's now")
        if not said.fence:
            await self._look_at(said)
            return
        self._valid_until = max(self._valid_until, sent + LEASE_S)
        if not self.fence:
            self._win(said.fence)
        self._renewed.set()

    async def confirmed(self) -> None:
        while not (self.fence and self._now() < self._valid_until):
            self._renewed.clear()
            await self._renewed.wait()

    async def lengthen(self) -> None:
        self._lasts = LEASE_S + self._longest
        with suppress(*AWAY):  # nobody can follow then
            await self._beat()

    def shorten(self) -> None:
        self._lasts = LEASE_S + self._timeout

    def _win(self, fence: int) -> None:
        self.fence, self._bereaved, self._missing = fence, "", None
        _log.info("the lane %s is this worker's now", self.name)
        self.held.set()
        self.won()

    def _lose(self, how: str) -> None:
        _log.warning("the lane %s %s: what is under way here is handed back", self.name, how)
        self.fence, self._valid_until = 0, 0.0
        self.held.clear()
        self.lost()

    async def _look_at(self, said: Said) -> None:
        """Find out whether a silent owner is dead or only paused: a dead one's connection is closed by its machine.

        A paused one may have a call at the host: it is followed when that must have ended.
        """
        self._bereaved = ""
        if said.silent_ms < LEASE_S * 1000 or await self._is_there(said.owner):
            self._missing = None
            return
        now = self._now()
        if self._missing is None or self._missing[0] != said.owner:
            self._missing = (said.owner, now)
        elif now - self._missing[1] >= GONE_S:
            self._bereaved = said.owner

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
