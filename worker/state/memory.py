"""The shared state of one process, for tests and for trying things out: the same steps as the Lua beside it.

A record is kept as the Redis member keeps it, names and values as text, so that both show a job in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from config.stages import Stage, identity
from staffel_wire import record as shown
from worker.failover.answer import ENDED, Status, View
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.deadline import kept_for_later
from worker.failover.state import (
    GOES_ON,
    LOUD_S,
    MOST_DROPPED,
    NO_LESSON,
    REFUSALS,
    REMEMBERED_S,
    UNFIT,
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


@dataclass(slots=True)
class Notes:
    """What is known of one stage. Instants in milliseconds; `loud` until when a fault is not told again."""

    id: str
    closed_until: int = 0
    closed_for: str = ""
    believed_until: int = 0
    dropped: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    loud: dict[str, int] = field(default_factory=dict)


class Memory:
    """`clock` gives epoch seconds; `workers` holds the owners that live."""

    def __init__(self, stages: Mapping[str, Stage], clock: Callable[[], float]) -> None:
        self.stages, self.clock = stages, clock
        self.records: dict[str, dict[str, Any]] = {}
        self.ledgers: dict[str, dict[str, str]] = {}
        self.workers: set[str] = set()
        self.notes: dict[str, Notes] = {}

    def submit(self, job: str, request: Mapping[str, Any], plan: tuple[str, ...], lane: str, deadline: float) -> None:
        """Write a new job's record; `deadline` in seconds from now."""
        now = self._ms()
        self.records[job] = {
            "status": "queued", "request": dict(request), "plan": plan, "lane": lane,
            "local_only": bool(request.get("local_only")), "images": bool(request.get("images")),
            "submitted_at": now, "enqueued_at": now, "queued_ms": 0,
            "deadline_at": now + round(deadline * 1000), "next": 0, "fence": 0, "owner": "",
            "delivery": "", "cancel": False,
        }  # fmt: skip
        self.ledgers[job] = {}

    def cancel(self, job: str) -> None:
        """Mark the job; it ends at its next admit."""
        self.records[job]["cancel"] = True

    async def admit(self, visit: Visit) -> Admission:
        record = self.records.get(visit.job)
        if record is None:
            return Taken(known=False)
        if record["status"] in ENDED:
            return Over(self.view(visit.job))
        first = visit.fence == 0
        if first and (record["owner"], record["delivery"]) == (visit.owner, visit.delivery):
            visit = replace(visit, fence=record["fence"])
        if visit.fence == 0:
            if record["owner"] in self.workers:
                return Taken(known=True)
            visit = self._claim(visit, record)
        elif visit.fence != record["fence"]:
            return Taken(known=True)
        else:
            self._take_back_lost_permit(visit.job)
        if record["cancel"]:
            return self._over(visit.job, Status.CANCELLED)
        if self._ms() >= record["deadline_at"]:
            return self._over(visit.job, Status.EXPIRED)
        return self._next(visit, record, first=first)

    def _claim(self, visit: Visit, record: dict[str, Any]) -> Visit:
        if record["owner"] == "":
            record["queued_ms"] += self._ms() - record["enqueued_at"]
        record["fence"] += 1
        record |= {"owner": visit.owner, "delivery": visit.delivery, "status": "running", "lane": visit.lane}
        self._settle_orphans(visit.job)
        return replace(visit, fence=record["fence"])

    def _next(self, visit: Visit, record: dict[str, Any], *, first: bool) -> Admission:
        plan = record["plan"]
        left = (record["deadline_at"] - self._ms()) / 1000
        for place in range(record["next"], len(plan)):
            stage = self.stages.get(plan[place])
            reason = self._unfit(record, place, left)
            if reason is None and stage is not None and stage.lane != visit.lane:
                record |= {"status": "queued", "owner": "", "lane": stage.lane, "enqueued_at": self._ms()}
                return Elsewhere(stage.lane, stage.name, self.view(visit.job))
            row = self._row(visit, plan[place], stage, reason, len(plan) - place - 1)
            if reason is None:
                return Permit(
                    visit, row.stage, place, row.n, row.of, left, self._kept(record, place), row.started_at, plan,
                    record["request"] if first else None, frozenset(self._notes(row.stage).dropped),
                )  # fmt: skip
            record["next"] = place + 1
        return self._over(visit.job, Status.EXHAUSTED)

    def _unfit(self, record: Mapping[str, Any], place: int, left: float) -> Reason | None:
        stage = self.stages.get(record["plan"][place])
        if stage is None:
            return Reason.UNSUPPORTED
        if record["local_only"] and not stage.local:
            return Reason.LOCAL_ONLY
        if record["images"] and not stage.takes.images:
            return Reason.CAPABILITY
        if left - self._kept(record, place) <= 0:
            return Reason.DEADLINE
        notes = self._notes(stage.name)
        return Reason(notes.closed_for) if notes.closed_until > self._ms() else None

    def _kept(self, record: Mapping[str, Any], place: int) -> float:
        return kept_for_later(record["plan"], self.stages, place, at_home=record["local_only"])

    def _row(self, visit: Visit, name: str, stage: Stage | None, reason: Reason | None, later: int) -> Attempt:
        n = len(self.ledgers[visit.job]) + 1
        row = Attempt(
            n=n, of=n + later, stage=name, model=stage.model if stage else "", reason=reason,
            started_at=self._ms() / 1000, outcome=Outcome.SKIPPED if reason else Outcome.STARTED, worker=visit.worker,
            cost_usd=0.0 if reason or (stage and stage.local) else None,
        )  # fmt: skip
        self.ledgers[visit.job][str(n)] = json.dumps(row.as_record())
        return row

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        job, lesson, end = permit.visit.job, settlement.lesson, settlement.end
        record = self.records[job]
        if record["fence"] != permit.visit.fence:
            return Settled(fenced=True)
        self.ledgers[job][str(attempt.n)] = json.dumps(attempt.as_record())
        if record["status"] in ENDED:
            return Settled(self.view(job))
        alarm, suspect = self._learn(permit.stage, attempt.reason, lesson)
        if not lesson.dropped:
            record["next"] = permit.place + 1
        if settlement.answer is not None:
            record["answer"] = json.dumps(asdict(settlement.answer))
        if suspect:
            end = settlement.otherwise
        return Settled(self._over(job, end).view if end is not None else None, alarm=alarm)

    def _notes(self, stage: str) -> Notes:
        whose = identity(self.stages[stage])
        found = self.notes.setdefault(stage, Notes(whose))
        if found.id != whose:
            found = self.notes[stage] = Notes(whose)
        if found.believed_until <= self._ms():
            found.dropped, found.refused, found.loud = [], [], {}
        return found

    def _learn(self, stage: str, reason: Reason | None, lesson: Lesson) -> tuple[bool, bool]:
        """Whether a person should hear of it now, and whether the stage is to blame for its refusals."""
        if lesson == NO_LESSON:
            return False, False
        notes, now = self._notes(stage), self._ms()
        if lesson.worked:
            notes.refused, notes.loud = [], {}
            return False, False
        if (until := now + round(lesson.closed_s * 1000)) > max(now, notes.closed_until):
            notes.closed_until, notes.closed_for = until, str(reason)
        if lesson.dropped and lesson.believed and lesson.dropped not in notes.dropped:
            notes.dropped = [*notes.dropped, lesson.dropped][:MOST_DROPPED]
        if lesson.refused and lesson.refused not in notes.refused and len(notes.refused) < REFUSALS:
            notes.refused.append(lesson.refused)
        suspect = bool(lesson.refused) and len(notes.refused) >= REFUSALS
        told = f"{reason} {lesson.dropped}".strip()
        alarm = (lesson.loud or suspect) and notes.loud.get(told, 0) <= now
        if alarm:
            notes.loud[told] = now + round(LOUD_S * 1000)
        if (lesson.dropped or lesson.refused or alarm) and notes.believed_until <= now:
            notes.believed_until = now + round(REMEMBERED_S * 1000)
        return alarm, suspect

    def _take_back_lost_permit(self, job: str) -> None:
        ledger = self.ledgers[job]
        last = str(len(ledger))
        if last in ledger and json.loads(ledger[last])["outcome"] == Outcome.STARTED:
            del ledger[last]

    def _settle_orphans(self, job: str) -> None:
        for n, row in self.ledgers[job].items():
            if (found := json.loads(row))["outcome"] == Outcome.STARTED:
                found |= {"outcome": Outcome.UNKNOWN, "reason": Reason.CRASHED}
                self.ledgers[job][n] = json.dumps(found)

    def _over(self, job: str, status: Status) -> Over:
        self._settle_orphans(job)
        record = self.records[job]
        if record["status"] == Status.QUEUED:
            record["queued_ms"] += self._ms() - record["enqueued_at"]
        if status is Status.EXHAUSTED and self._fits_nowhere(job):
            status = Status.REFUSED
        record |= {"status": str(status), "ended_at": self._ms(), "owner": ""}
        record.pop("request", None)
        return Over(self.view(job))

    def _fits_nowhere(self, job: str) -> bool:
        """Every stage that could have been asked cannot serve this very request."""
        if self.records[job]["next"] < len(self.records[job]["plan"]):
            return False
        rows = sorted((json.loads(row) for row in self.ledgers[job].values()), key=lambda row: int(row["n"]))
        last = {row["stage"]: row["reason"] for row in rows}
        asked = [reason for reason in last.values() if reason != Reason.LOCAL_ONLY]
        return bool(asked) and all(reason in UNFIT for reason in asked)

    def view(self, job: str) -> View:
        record = self.records[job]
        texts = {name: str(value) for name, value in record.items()}
        return View(job, Status(record["status"]), shown.as_object(job, texts, self.ledgers[job], self._ms()))

    def _ms(self) -> int:
        return round(self.clock() * 1000)
