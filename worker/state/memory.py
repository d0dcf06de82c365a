"""The shared state of one process, for tests and for trying things out: the same steps as the Lua beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from config.file import General
from config.stages import CLOUD, Chain, Stage, identity
from staffel_wire.request import Priority
from staffel_wire.stages import MOST_OFF_MS, Action
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.state import (
    GOES_ON,
    ON_ITS_WAY_S,
    PROBE_AFTER_S,
    Admission,
    Elsewhere,
    Lesson,
    Over,
    Permit,
    Settled,
    Settlement,
    Taken,
    Visit,
)
from worker.state.memory_claims import Claims, poisoned
from worker.state.memory_gates import ANYBODY, Class, Triple
from worker.state.memory_jobs import Jobs, Record
from worker.state.memory_limits import Holder, Limited, Taking, cost, end_of_day, on_its_way, unused
from worker.state.memory_lines import Lines
from worker.state.memory_stages import Stages
from worker.state.memory_ways import Way, Ways
from worker.state.rules import LONGEST_MS, MOST_THROTTLED, Prices

GENERAL = General()


class Memory:
    """`clock` gives epoch seconds; `workers` holds the owners that live."""

    def __init__(
        self, stages: Mapping[str, Stage], clock: Callable[[], float],
        chains: Mapping[str, Chain] = MappingProxyType({}), prices: Prices = lambda _stage: None,
        general: General = GENERAL,
    ) -> None:  # fmt: skip
        self.stages, self.clock, self.chains, self.prices = stages, clock, chains, prices
        self.workers: set[str] = set()
        self.jobs = Jobs(self._ms, general, self.workers)
        self.records, self.ledgers = self.jobs.records, self.jobs.ledgers
        self.health = Stages()
        self.limits = Limited(lambda owner: owner in self.workers)
        self.lines = Lines()
        self.claims = Claims(self.jobs, self.limits, self.lines, self.workers)

    def submit(  # noqa: PLR0917 - a record's fields
        self, job: str, request: Mapping[str, Any], plan: tuple[str, ...], lane: str, deadline: float,
        chain: str = "default", tokens_in: int = 0, tokens_out: int | None = None,
        priority: Priority = "interactive",
    ) -> None:  # fmt: skip
        """Write a new job's record; `deadline` in seconds from now, tokens as the door estimates them."""
        said = {"plan": plan, "lane": lane, "chain": chain, "tokens_in": tokens_in, "tokens_out": tokens_out}
        self.jobs.submit(job, request, deadline, **said, priority=priority)

    def cancel(self, job: str) -> None:
        """A job that nobody works on ends here; another is marked, and ends at its next admit."""
        record = self.records[job]
        if self.jobs.ended(job):
            return
        record["cancel"] = True
        self.lines.hurry(job, self._ms())
        if record["owner"] not in self.workers:
            self.jobs.finish(job, Status.CANCELLED)

    async def admit(self, visit: Visit) -> Admission:
        record = self.records.get(visit.job)
        if record is None:
            self.lines.leave(visit.job)
            return Taken(known=False)
        if self.jobs.ended(visit.job):
            self._leave(visit.job)
            return Over(self.view(visit.job)) if self.claims.told_by(visit, record) else Taken(known=True)
        first, deaths = visit.fence == 0, 0
        if first and (record["owner"], record["delivery"]) == (visit.owner, visit.delivery):
            visit = replace(visit, fence=record["fence"])
        if visit.fence == 0:
            if record["owner"] in self.workers:
                return Taken(known=True)
            deaths = self.claims.died(record)
            visit = self.claims.claim(visit, record, self.stages)
        elif visit.fence != record["fence"]:
            return Taken(known=True)
        else:
            self.claims.take_back_lost_permit(visit, record, self.stages, self.chains)
        if record["cancel"]:
            return self._over(visit.job, Status.CANCELLED)
        if self._ms() >= record["deadline_at"]:
            return self._over(visit.job, Status.EXPIRED)
        if deaths >= self.jobs.general.max_deliveries:
            return self._over(visit.job, Status.EXHAUSTED, why=poisoned(deaths))
        return self._next(visit, record, first=first)

    async def hand_back(self, job: str, owner: str, *, called: bool = True) -> bool:
        """Let a job of this owner wait again, not `called` where it waited for its turn; False where it is not its."""
        record = self.records.get(job)
        if record is None or (record["status"], record["owner"]) != (Status.RUNNING, owner):
            return False
        if not called:
            self.claims.take_back_lost_permit(Visit(job, "", owner, ""), record, self.stages, self.chains)
        self.claims.let_go(job, record, self.stages, Reason.DRAINED)
        self.jobs.waits(job, record["lane"], front=True)
        if record["cancel"]:
            self.jobs.finish(job, Status.CANCELLED)
        return True

    def _next(self, visit: Visit, record: Record, *, first: bool) -> Admission:
        ways = Ways(
            self.stages, self.chains, self.prices, self.jobs, self.health, self.limits, self.lines, visit, record,
        )  # fmt: skip
        waiting = []
        for way in ways.found():
            if way.reason is None:
                return self._granted(ways, way, first=first)
            waiting.append((way, way.reason))
        parkable = [
            (way, reason) for way, reason in waiting
            if way.parkable and way.until < record["deadline_at"] - ways.kept(way.place)
        ]  # fmt: skip
        if not parkable:
            # What is off until somebody switches it on may be asked again at an instant that nobody knows.
            known = (way.until for way, _ in waiting if way.until - self._ms() < LONGEST_MS)
            earliest = min(known, default=None)
            return self._over(visit.job, Status.EXHAUSTED, earliest)
        best, reason = min(parkable, key=lambda one: (one[0].until, one[0].place))
        return self.jobs.parked(visit.job, best.stage, reason, best.until)

    def _granted(self, ways: Ways, way: Way, *, first: bool) -> Permit | Elsewhere:
        visit, record, stage, now = ways.visit, ways.record, way.stage, self._ms()
        if stage.lane != visit.lane:
            if way.probe:
                self.limits.probes.take(stage.name, on_its_way(visit.job), now + round(ON_ITS_WAY_S * 1000))
            self.jobs.waits(visit.job, stage.lane)
            return Elsewhere(stage.lane, stage.name, self.view(visit.job))
        plan, kept, known = record["plan"], ways.kept(way.place), self.health.renewed(stage)
        row = self.jobs.row(visit, stage.name, stage, None, len(plan) - way.place - 1)
        self._take(ways, way, row.n, known.generation)
        return Permit(
            visit, stage.name, way.place, row.n, row.of, ways.left() / 1000, kept / 1000, row.started_at, plan,
            record["request"] if first else None,
            frozenset(known.dropped if known.believed_until > now else ()), way.probe,
        )  # fmt: skip

    def _take(self, ways: Ways, way: Way, n: int, generation: int) -> None:
        """All that the call needs, written down so that whoever follows can give it back."""
        visit, record, limits, now = ways.visit, ways.record, way.stage.limits, self._ms()
        tokens, nano = ways.estimate(way.stage)
        record["permit"] = Taking(
            n, way.stage.name, way.place, Holder(visit.owner, visit.job, visit.fence), generation, way.probe,
            requests=cost(1, limits.requests_per_minute) if limits.requests_per_minute else 0,
            tokens=cost(tokens, limits.tokens_per_minute) if limits.tokens_per_minute else 0,
            nano=nano, day=end_of_day(now), chain=record["chain"],
        )  # fmt: skip
        own = round(way.stage.timeout * 1000) if way.stage.lane == CLOUD else math.inf  # it waits for its turn as well
        longest = int(min(own, ways.left() - ways.kept(way.place)))
        end = now + longest + round(PROBE_AFTER_S * 1000)
        self.limits.take(way.stage, record["permit"], end, self.chains, now)
        self.jobs.lanes.note_in_hand(way.stage.lane, 1, now)

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        job, lesson = permit.visit.job, settlement.lesson
        record = self.records.get(job)
        if record is None or record["fence"] != permit.visit.fence:
            return Settled(fenced=record is not None, gone=record is None)
        taking: Taking | None = record["permit"]
        if taking is not None and taking.n == attempt.n:
            self.jobs.waited(job, attempt)
        if taking is not None or not self.jobs.ended(job):
            self.jobs.write(job, self._as_told(job, attempt))
        if taking is None or taking.n != attempt.n:
            return Settled(self.view(job) if self.jobs.ended(job) else None)
        record["permit"] = None
        alarm, suspect = self._learn(taking, attempt, lesson)
        if self.jobs.ended(job):
            others = self.claims.is_being_told(record)
            record |= {} if others else {"teller": taking.holder.owner, "telling_at": self._ms()}
            return Settled(self.view(job), alarm=alarm, told=others)
        record["owner"] = record["owner"] or taking.holder.owner
        end = None if suspect else settlement.end
        if not lesson.dropped:
            record["next"] = max(record["next"], permit.place + 1)
            kept = {permit.place} if lesson.throttled and self._may_come_back(taking, record) else set()
            record["again"] = sorted(set(record["again"]) - {permit.place} | kept)
            if end is None and record["next"] >= len(record["plan"]) and not record["again"]:
                end = settlement.last
        if end is None:
            return Settled(alarm=alarm)
        if settlement.answer is not None:
            record["answer"] = json.dumps(asdict(settlement.answer))
        return Settled(self.jobs.finish(job, end), alarm=alarm)

    def _as_told(self, job: str, attempt: Attempt) -> Attempt:
        """Of a job that others have ended meanwhile it is told what the call cost, but its answer is nobody's."""
        if not self.jobs.ended(job) or attempt.outcome is not Outcome.ANSWERED:
            return attempt
        late = self.records[job]["status"] == Status.EXPIRED
        return replace(attempt, outcome=Outcome.UNKNOWN, reason=Reason.DEADLINE if late else Reason.CRASHED)

    def _may_come_back(self, taking: Taking, record: Record) -> bool:
        """Whether a stage that has throttled a job is tried again by it: closed for now, and not again and again."""
        stage = self.stages.get(taking.stage)
        if stage is None or self.health.gate(stage, self._ms()).reason is None:
            return False
        record["throttled"] = {**record["throttled"], taking.stage: record["throttled"].get(taking.stage, 0) + 1}
        return bool(record["throttled"][taking.stage] < MOST_THROTTLED)

    def _learn(self, taking: Taking, attempt: Attempt, lesson: Lesson) -> tuple[bool, bool]:
        """Give back what the call held; whether it is heard of, and whether the stage is to blame."""
        stage, now, reason = self.stages.get(taking.stage), self._ms(), attempt.reason
        if stage is None:
            return False, False
        still = self.limits.give_back(stage, taking)
        self.limits.refund(stage, taking, unused(stage, taking, lesson), self.chains, now)
        self.jobs.lanes.ended(stage.lane, attempt, now, reached=lesson.reached)
        known = self.health.renewed(stage)
        told = known.likes(lesson, reason, now)
        if known.generation == taking.generation and (still or not taking.probe):
            mates = {
                name: mate for name, mate in self.stages.items()
                if name == stage.name or (stage.limit_group and mate.limit_group == stage.limit_group)
            }  # fmt: skip
            self.health.judge(mates, stage, lesson, reason, now, probe=taking.probe)
        return told

    def _leave(self, job: str) -> None:
        """The job is nowhere expected any more: in no line, and no stage's probe is kept for it."""
        self.lines.leave(job)
        for stage in self.records[job]["plan"]:
            self.limits.probes.give_back(stage, on_its_way(job))

    def _over(self, job: str, status: Status, retry_at: int | None = None, why: str | None = None) -> Over:
        self._leave(job)
        if retry_at is not None:
            self.records[job]["retry_at"] = retry_at
        return Over(self.jobs.finish(job, status, why))

    async def park(self, job: str, signature: str) -> bool:
        """Put a job that was told to wait into its stage's line; False where it has ended."""
        record = self.records.get(job)
        if record is None:
            return False
        if record["status"] in {Status.RUNNING, Status.QUEUED}:
            return True  # asked again, and it has gone on since
        if record["status"] != Status.PARKED or record["parked_for"] not in self.stages:
            return False
        record["signature"] = signature
        self.lines.join(job, record["parked_for"], record["submitted_at"], record["deadline_at"], self._ms())
        return True

    async def feed(self) -> list[str]:
        """The parked jobs that are to be sent on now; each is told again after a while if nobody claims it."""
        now = self._ms()
        sent = self.lines.late(now)
        for stage in self.stages.values():
            gate = self.health.gate(stage, now)
            if gate.reason is not None or not self.lines.waits(stage.name):
                continue
            if gate.due and self.limits.probes.held(stage.name, 1, now):
                continue
            room = self.limits.room(stage, self.lines.on_their_way(stage.name), now)
            room = min(room, 1) if gate.due else room
            for job in self.lines.next(stage.name, room, now):
                if gate.due:
                    self.limits.probes.take(stage.name, on_its_way(job), now + round(ON_ITS_WAY_S * 1000))
                sent.append(job)
        return sent

    async def switch(self, stage: str, action: Action, for_s: float | None = None) -> bool:
        """Do by hand what `staffel stages off | on | reset` does; False where there is no such stage."""
        found = self.stages.get(stage)
        if found is None:
            return False
        if action == "reset":
            self.health.reset(found)
            self.limits.probes.clear(stage)
            return True
        until = self._ms() + (MOST_OFF_MS if for_s is None else min(round(for_s * 1000), MOST_OFF_MS))
        triple = Triple(Reason.SWITCHED_OFF, until, ANYBODY) if action == "off" else None
        self.health.gates.put(stage, identity(found), Class.HAND, triple)
        return True

    def view(self, job: str) -> View:
        return self.jobs.view(job)

    def _ms(self) -> int:
        return round(self.clock() * 1000)
