"""How fast the lanes are and who waits on them, in the memory of one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.stages import CLOUD
from staffel_wire import keys
from staffel_wire.pace import KEPT_CALLS, Call, Now, Pace, stand_before
from staffel_wire.position import Standing
from worker.failover.attempt import Attempt
from worker.state.rules import ENOUGH_CALLS


class Lanes:
    """`waiting`: the jobs of each queue in their order; `workers` are those that live."""

    def __init__(self, waiting: Mapping[str, list[str]], workers: set[str]) -> None:
        self._waiting, self._workers = waiting, workers
        self._calls: dict[str, tuple[Call, ...]] = {}
        self.said: dict[str, Now] = {}
        """What the owner of each lane says of what it has under way."""

    def ended(self, lane: str, attempt: Attempt, now_ms: int, *, reached: bool) -> None:
        """A call has ended; its length counts if it was really made, and not in the cloud, where many are at once."""
        self.note_in_hand(lane, -1, now_ms)
        ms, usage = int(attempt.duration_s * 1000 + 0.5), attempt.usage
        if lane == CLOUD or ms <= 0 or not reached:
            return
        call = (ms, usage.input_tokens if usage else 0, usage.output_tokens if usage else 0)
        self._calls[lane] = (*self._calls.get(lane, ()), call)[-KEPT_CALLS:]

    def note_in_hand(self, lane: str, change: int, now_ms: int) -> None:
        """A call was admitted (1) or has ended (-1): of those in hand one is called, since the one before has ended."""
        if (said := self.said.get(lane)) is None:
            return
        in_hand, since = max(0, said.in_hand + change), said.since_ms
        if change < 0 or in_hand == 1:
            since = now_ms if in_hand else None
        self.said[lane] = Now(said.owner, since, in_hand)

    def wait_ms(self, lane: str, priority: str) -> float | None:
        """Until the turn of a job that comes now; None where too few calls have been seen."""
        calls = self._calls.get(lane, ())
        if len(calls) < ENOUGH_CALLS:
            return None
        own, others = self._queues(lane, priority)
        before = stand_before(len(own), len(others), batch=priority == "batch") + self._now(lane).in_hand
        return before * sum(ms for ms, _, _ in calls) / len(calls)

    def standing(self, job: str, record: Mapping[str, Any]) -> Standing | None:
        """What is told of a job that waits, None where no place matters."""
        lane, priority = record["lane"], record["priority"]
        own, others = self._queues(lane, priority)
        if lane == CLOUD or job not in own:
            return None
        place, pace = own.index(job), Pace(self._calls.get(lane, ()))
        return Standing(lane, priority == "batch", place, len(own), len(others), pace, self._now(lane))

    def _queues(self, lane: str, priority: str) -> tuple[list[str], list[str]]:
        """Its own, and the lane's other one."""
        other = "interactive" if priority == "batch" else "batch"
        return self._waiting.get(keys.queue(lane, priority), []), self._waiting.get(keys.queue(lane, other), [])

    def _now(self, lane: str) -> Now:
        said = self.said.get(lane, Now())
        return said if said.owner in self._workers else Now()
