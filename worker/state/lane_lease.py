"""What a heartbeat says and hears of the lease of a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from config.stages import Stage

LEASE_S = 3.0
"""How long the lane is its owner's after a heartbeat; calls under way keep it for as long as they may take."""


def host_s(stage: Stage) -> float:
    """Seconds for which a call may keep the stage's host, the rest included that it is given when we leave it."""
    return stage.connect_timeout + stage.timeout + stage.cool_off


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process says of its lane.

    `at`: when it says so, by its own clock. `lasts_ms`: how long the lease is to outlive this beat while jobs are in
    hand; `fence`: the owner's term, 0 for who stands by. `met`: this process has been heard before; `may_take`: it may
    take a lane that is nobody's. `bereaved`: the owner that is known to be dead; `cool_ms`: for so long the host is
    left alone after it. `running_ms`: how long the call under way has taken; `in_hand`: how many jobs are admitted;
    `busy`: something else is done at the host.
    """

    lane: str
    at: float
    lasts_ms: int
    fence: int = 0
    met: bool = False
    may_take: bool = True
    bereaved: str = ""
    cool_ms: int = 0
    running_ms: int | None = None
    in_hand: int = 0
    busy: bool = False

    def given(self) -> list[str | int]:
        """ARGV of beat.lua, after its own."""
        running = "" if self.running_ms is None else self.running_ms
        return [
            self.lane, round(LEASE_S * 1000), self.lasts_ms, self.fence, int(self.met), int(self.may_take),
            self.bereaved, self.cool_ms, running, self.in_hand,
            int(self.busy),
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """`fence` is 0 where the lane is not this process's; then `owner` has it (empty: nobody), not heard for
    `silent_ms`. `known`: this process was known before this beat.
    """

    fence: int
    owner: str = ""
    silent_ms: int = 0
    known: bool = True


def said(reply: Sequence[Any]) -> Said:
    fence, owner, silent_ms, known = reply
    return Said(int(fence), owner, int(silent_ms), bool(known))
