"""Whether a worker makes progress, from what it says of itself: a process that only exists says nothing new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from staffel_wire import keys
from staffel_wire.record import pairs

FRESH_MS = keys.WORKER_DEAD_AFTER_MS


@dataclass(frozen=True, slots=True)
class Pulse:
    """One worker process. `idle_s`: how long ago it took its last message, None where it has taken none yet."""

    lane: str
    name: str
    why: str
    """Why it is not healthy; empty where it is."""
    slots: int = 0
    busy: int = 0
    taken: int = 0
    idle_s: float | None = None
    stands_by: bool = False
    """It takes nothing, since another worker serves the lane, and follows that one."""

    @property
    def healthy(self) -> bool:
        return not self.why


def members(reply: Sequence[Any]) -> list[str]:
    """The processes that `health.lua` names."""
    return list(reply[1][::2])


def pulses(asked: Sequence[str], reply: Sequence[Any]) -> list[Pulse]:
    """What is to be thought of the members that were asked about; one that has ended meanwhile is left out."""
    now, listed, said = reply
    beats = dict(zip(listed[::2], map(float, listed[1::2]), strict=True))
    hashes = dict(zip(asked, map(pairs, said), strict=True))
    return [_pulse(member, now - beats[member], hashes[member], now) for member in asked if member in beats]


def _pulse(member: str, silent_ms: float, said: Mapping[str, str], now: int) -> Pulse:
    lane, name, *_ = member.split("/")
    taken_at = int(said.get("taken_at", 0))
    return Pulse(
        lane, said.get("name", name), _why(silent_ms, said, now), int(said.get("slots", 0)), int(said.get("busy", 0)),
        int(said.get("taken", 0)), (now - taken_at) / 1000 if int(said.get("taken", 0)) else None,
        said.get("mode") == "stands_by",
    )  # fmt: skip


_MODES: Mapping[str, str] = MappingProxyType(
    {
        "draining": "ends, and takes nothing more",
        "cancelled": "takes nothing: its queue was cancelled (celery control add_consumer brings it back)",
    }
)


def _why(silent_ms: float, said: Mapping[str, str], now: int) -> str:
    if silent_ms >= FRESH_MS:
        return f"not heard of for {silent_ms / 1000:.0f} s"
    if not said:
        return "has not begun to take jobs"
    if (old := now - int(said["beat_at"])) >= FRESH_MS:
        return f"has said nothing of its work for {old / 1000:.0f} s"
    if said.get("stuck"):
        return f"takes nothing: {said['stuck']}"
    return _MODES.get(said.get("mode", ""), "")
