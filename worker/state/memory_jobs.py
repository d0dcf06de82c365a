"""Records and ledgers in the memory of one process.

Ledger rows are JSON, as in Redis; a record is made text for its view, so that both members show a job in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from config.file import General
from config.stages import Stage
from staffel_wire import keys
from staffel_wire import record as shown
from staffel_wire.position import position
from worker.failover.answer import ENDED, Status, View
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.state import UNFIT, Parked, Visit
from worker.state.memory_lanes import Lanes

WAITS = frozenset({Status.QUEUED, Status.PARKED})
"""No worker has such a job: its message is in a queue, or its signature in its record."""

DEAD = frozenset({Status.EXHAUSTED, Status.EXPIRED})
"""Whose requests are kept, as dead letters."""

Record = dict[str, Any]


class Jobs:
    """`now` gives the milliseconds of the server."""

    def __init__(self, now: Callable[[], int], general: General, workers: set[str]) -> None:
        self.now, self.general = now, general
        self.records: dict[str, Record] = {}
        self.ledgers: dict[str, dict[str, str]] = {}
        self.waiting: dict[str, list[str]] = {}
        """The jobs of each queue in their order, as the tickets of Redis tell it."""
        self.lanes = Lanes(self.waiting, workers)

    def submit(self, job: str, request: Mapping[str, Any], deadline: float, **said: Any) -> None:  # noqa: ANN401 - fields
        """Write a new job's record; `deadline` in seconds from now."""
        now = self.now()
        self.records[job] = {
            "status": "queued", "request": dict(request), **said,
            "local_only": bool(request.get("local_only")), "images": bool(request.get("images")),
            "submitted_at": now, "enqueued_at": now, "queued_ms": 0,
            "deadline_at": now + round(deadline * 1000), "next": 0, "again": [], "throttled": {}, "fence": 0,
            "owner": "", "delivery": "", "cancel": False, "permit": None, "deaths": 0,
        }  # fmt: skip
        self.ledgers[job] = {}
        self.waits(job, said["lane"])

    def waits(self, job: str, lane: str, *, front: bool = False) -> None:
        """The job waits in its queue of this lane from now on, last of all, or before all."""
        record = self.records[job]
        record |= {"status": "queued", "owner": "", "lane": lane, "enqueued_at": self.now()}
        self._waits_no_more(job)
        line = self.waiting.setdefault(keys.queue(lane, record["priority"]), [])
        line.insert(0 if front else len(line), job)

    def _waits_no_more(self, job: str) -> None:
        for line in self.waiting.values():
            if job in line:
                line.remove(job)

    def claim(self, record: Record, visit: Visit) -> None:
        """The visit's owner has the job from now on."""
        if record["owner"] == "":
            record["queued_ms"] += self.now() - record["enqueued_at"]
        record |= {"owner": visit.owner, "delivery": visit.delivery, "status": "running", "lane": visit.lane}
        self._waits_no_more(visit.job)
        for name in ("parked_for", "retry_at"):
            record.pop(name, None)

    def parked(self, job: str, stage: Stage, reason: Reason, until: int) -> Parked:
        record = self.records[job]
        record |= {"status": "parked", "owner": "", "lane": stage.lane, "enqueued_at": self.now()}
        record |= {"parked_for": stage.name, "retry_at": until}
        return Parked(stage.name, stage.lane, reason, until / 1000, self.view(job))

    def row(  # noqa: PLR0917 - what a row tells
        self, visit: Visit, name: str, stage: Stage | None, reason: Reason | None, later: int, detail: str | None = None
    ) -> Attempt:
        """A new row of the ledger: a skip and why, or the call that is under way from now on."""
        n = len(self.ledgers[visit.job]) + 1
        row = Attempt(
            n=n, of=n + later, stage=name, model=stage.model if stage else "", reason=reason,
            started_at=self.now() / 1000, outcome=Outcome.SKIPPED if reason else Outcome.STARTED, worker=visit.worker,
            cost_usd=0.0 if reason or (stage and stage.local) else None,
            detail=detail,
        )  # fmt: skip
        self.write(visit.job, row)
        return row

    def write(self, job: str, row: Attempt) -> None:
        self.ledgers[job][str(row.n)] = json.dumps(row.as_record())

    def waited(self, job: str, attempt: Attempt) -> None:
        """On a lane a call has waited for its turn since it was admitted: that is time in a queue."""
        waited = attempt.started_at - json.loads(self.ledgers[job][str(attempt.n)])["started_at"]
        self.records[job]["queued_ms"] += max(0, round(waited * 1000))

    def pass_unknown(self, record: Record, place: int) -> None:
        """The stage whose call nobody saw the end of is not asked again."""
        record["next"] = max(record["next"], place + 1)
        record["again"] = [one for one in record["again"] if one != place]

    def settle_orphans(self, job: str, reason: Reason = Reason.CRASHED) -> None:
        """A call that was under way when its worker died, or was told to end, is told as unknown."""
        for n, row in self.ledgers[job].items():
            if (found := json.loads(row))["outcome"] == Outcome.STARTED:
                found |= {"outcome": Outcome.UNKNOWN, "reason": reason, "duration_s": None}
                self.ledgers[job][n] = json.dumps(found)

    def finish(self, job: str, status: Status, why: str | None = None) -> View:
        record, waited = self.records[job], Status(self.records[job]["status"])
        if waited in WAITS:
            record["queued_ms"] += self.now() - record["enqueued_at"]
        self._waits_no_more(job)
        self.settle_orphans(job)
        if status is Status.EXHAUSTED and self._fits_nowhere(job):
            status = Status.REFUSED
        record |= {
            "status": str(status),
            "ended_at": self.now(),
            "telling_at": self.now(),
            "teller": record["owner"],
            "owner": "",
            "again": [],
        }
        record |= {"why": why} if why else {}
        gone = ["parked_for"] + ["request"] * (not self.general.dead_ttl or status not in DEAD)
        # The signature of a parked job is still to be sent: by it Celery hears of the end.
        gone += ["signature"] * (waited is not Status.PARKED) + ["retry_at"] * (status is not Status.EXHAUSTED)
        for name in gone:
            record.pop(name, None)
        return self.view(job)

    def ended(self, job: str) -> bool:
        return self.records[job]["status"] in ENDED

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
        stands = position(self.lanes.standing(job, record), self.now())
        return View(job, Status(record["status"]), shown.as_object(job, texts, self.ledgers[job], self.now(), stands))
