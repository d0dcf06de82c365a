"""Which stages of a job's plan may run, and from when, in the memory of one process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from config.stages import Chain, Stage
from worker.failover.attempt import Reason
from worker.failover.state import Visit
from worker.state.memory_jobs import Jobs, Record
from worker.state.memory_limits import Limited, end_of_day, on_its_way
from worker.state.memory_lines import Lines
from worker.state.memory_stages import Stages
from worker.state.rules import LATER_MS, Prices


@dataclass(frozen=True, slots=True)
class Way:
    """A stage that may run now, or (`reason`) from when (ms) it may and whether that is worth waiting for."""

    place: int
    stage: Stage
    reason: Reason | None = None
    until: int = 0
    parkable: bool = True
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Ways:
    """One visit to a job, and all that decides what it may ask now."""

    stages: Mapping[str, Stage]
    chains: Mapping[str, Chain]
    prices: Prices
    jobs: Jobs
    health: Stages
    limits: Limited
    lines: Lines
    visit: Visit
    record: Record

    def found(self) -> Iterator[Way]:
        """All that may run now or later, in the order in which they are tried, up to the first that is taken.

        The rest of the plan comes first: what cannot run of it is written down, and what may run later remembered;
        then what was remembered before.
        """
        before = tuple(self.record["again"])
        for place in range(self.record["next"], len(self.record["plan"])):
            stage, reason = self._stage(place), self._unfit(place)
            way = None if stage is None or reason else self._way(place, stage)
            if way is not None and way.reason is None:
                yield way
            self._pass_over(place, stage, way.reason if way else reason)
            if way is not None:
                self.record["again"] = [*self.record["again"], place]
                yield way
        # Of these one of this lane comes before one of another: on the way there its turn may pass, again and again.
        elsewhere = []
        for place in before:
            stage = self._stage(place)
            if stage is not None and self._unfit(place) is None:
                way = self._way(place, stage)
                if way.reason is None and stage.lane != self.visit.lane:
                    elsewhere.append(way)
                else:
                    yield way
        yield from elsewhere

    def left(self) -> int:
        """Milliseconds until the job's deadline."""
        return int(self.record["deadline_at"]) - self.jobs.now()

    def kept(self, place: int) -> int:
        """Milliseconds that later stages of the plan have reserved, as far as they serve this job."""
        later = (self.stages[name] for name in self.record["plan"][place + 1 :] if name in self.stages)
        return sum(round(stage.reserve * 1000) for stage in later if stage.local or not self.record["local_only"])

    def estimate(self, stage: Stage) -> tuple[int, int]:
        """Tokens, and nano-USD."""
        most, wanted = stage.max_output_tokens, self.record["tokens_out"]
        given, made = self.record["tokens_in"], most if wanted is None else min(wanted, most)
        price = self.prices(stage) or (0.0, 0.0)
        return given + made, math.ceil(given * (price[0] * 1000) + made * (price[1] * 1000))

    def _stage(self, place: int) -> Stage | None:
        return self.stages.get(self.record["plan"][place])

    def _pass_over(self, place: int, stage: Stage | None, reason: Reason | None) -> None:
        plan = self.record["plan"]
        self.jobs.row(self.visit, plan[place], stage, reason, len(plan) - place - 1)
        self.record["next"] = place + 1

    def _unfit(self, place: int) -> Reason | None:
        """Why the stage can never serve this job."""
        stage = self._stage(place)
        if stage is None:
            return Reason.UNSUPPORTED
        if self.record["local_only"] and not stage.local:
            return Reason.LOCAL_ONLY
        if self.record["images"] and not stage.takes.images:
            return Reason.CAPABILITY
        return Reason.DEADLINE if self.left() - self.kept(place) <= 0 else None

    def _way(self, place: int, stage: Stage) -> Way:
        now = self.jobs.now()
        gate = self.health.gate(stage, now)
        if gate.reason is not None:
            return Way(place, stage, gate.reason, gate.until)
        if gate.due:
            self.limits.probes.give_back(stage.name, on_its_way(self.visit.job))
            if self.limits.probes.held(stage.name, 1, now):
                return Way(place, stage, Reason.BREAKER_OPEN, now + LATER_MS)
        tokens, nano = self.estimate(stage)
        if (until := self.limits.from_when(stage, tokens, self.lines.just_sent(stage.name, now), now)) is not None:
            return Way(place, stage, Reason.LIMIT, until)
        if self.limits.over_budget(stage, self.chains.get(self.record["chain"]), nano, now):
            return Way(place, stage, Reason.BUDGET, end_of_day(now), parkable=False)
        return Way(place, stage, probe=gate.due)
