"""Which stages of a job's plan may run, and from when, in the memory of one process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from config.stages import CLOUD, Chain, Stage
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
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Full:
    """A stage of a full lane, and what the record and the ledger (so many rows) told when the walk came to it."""

    way: Way
    next: int
    again: tuple[int, ...]
    rows: int


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
        then what was remembered before. A stage whose lane is too full is taken where no other can be.
        """
        before, full = tuple(self.record["again"]), None
        for place in range(self.record["next"], len(self.record["plan"])):
            stage, reason = self._stage(place), self._unfit(place)
            way = None if stage is None or reason else self._way(place, stage)
            if way is not None and way.reason is None:
                yield way
            full = full or self._full(way)
            self._pass_over(place, stage, way, reason)
            if way is not None:
                self.record["again"] = [*self.record["again"], place]
                yield way
        # Of these one of this lane comes before one of another: on the way there its turn may pass, again and again.
        elsewhere = []
        for place in before:
            stage = self._stage(place)
            if stage is not None and self._unfit(place) is None:
                way = self._way(place, stage)
                full = full or self._full(way)
                if way.reason is None and stage.lane != self.visit.lane:
                    elsewhere.append(way)
                else:
                    yield way
        yield from elsewhere
        if full:
            yield self._all_the_same(full)

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

    def _full(self, way: Way | None) -> Full | None:
        """A stage that could run, but for the jobs that wait for it, and how far the walk was when it came there."""
        if way is None or way.reason is not Reason.LANE_FULL:
            return None
        return Full(way, self.record["next"], tuple(self.record["again"]), len(self.jobs.ledgers[self.visit.job]))

    def _all_the_same(self, full: Full) -> Way:
        """As if nobody had looked beyond the full lane: what was passed over after it has no row."""
        self.record.update(next=full.next, again=list(full.again))
        ledger = self.jobs.ledgers[self.visit.job]
        for n in range(full.rows, len(ledger)):
            del ledger[str(n + 1)]
        return replace(full.way, reason=None)

    def _unless_full(self, way: Way) -> Way:
        """Another lane is none for a job that would wait there for its turn for longer than it has."""
        lane, has = way.stage.lane, self.left() - self.kept(way.place)
        if lane in {self.visit.lane, CLOUD}:
            return way
        wait = self.jobs.lanes.wait_ms(lane, self.record["priority"])
        if wait is None or wait <= has:
            return way
        detail = f"about {wait / 1000:.0f} s until its turn, {has / 1000:.0f} s left"
        return replace(way, reason=Reason.LANE_FULL, parkable=False, detail=detail)

    def _pass_over(self, place: int, stage: Stage | None, way: Way | None, reason: Reason | None) -> None:
        plan = self.record["plan"]
        why, detail = (way.reason, way.detail) if way else (reason, None)
        self.jobs.row(self.visit, plan[place], stage, why, len(plan) - place - 1, detail)
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
        return self._unless_full(Way(place, stage, probe=gate.due))
