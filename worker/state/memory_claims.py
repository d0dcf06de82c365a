"""Whose a job is, in the memory of one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from config.stages import Chain, Stage
from worker.failover.attempt import Reason
from worker.failover.state import Visit
from worker.state.memory_jobs import Jobs, Record
from worker.state.memory_limits import Limited, on_its_way
from worker.state.memory_lines import Lines

TELLS_MS = 60_000
"""A living worker that has ended a job has so long to tell Celery."""


def poisoned(deaths: int) -> str:
    return f"poison: its worker died or its walk broke off {deaths} times (max_deliveries)"


class Claims:
    """The fence counts the claims of a job; what the one before held is given back. `workers` are those that live."""

    def __init__(self, jobs: Jobs, limits: Limited, lines: Lines, workers: set[str]) -> None:
        self._jobs, self._limits, self._lines, self._workers = jobs, limits, lines, workers

    def is_being_told(self, record: Record) -> bool:
        """Whether a worker, by having ended the job or by a delivery after that, is about to tell its caller."""
        return record["teller"] in self._workers and self._jobs.now() - record["telling_at"] < TELLS_MS

    def told_by(self, visit: Visit, record: Record) -> bool:
        """Whether it is this delivery that tells the caller of a job that has ended."""
        mine = (record["teller"], record["delivery"]) == (visit.owner, visit.delivery)  # the reply was lost
        if not mine and self.is_being_told(record):
            return False
        record |= {"teller": visit.owner, "telling_at": self._jobs.now(), "delivery": visit.delivery}
        record.pop("signature", None)
        return True

    @staticmethod
    def died(record: Record) -> int:
        """How often workers have died under a call of the job; 0 where none has just now."""
        has_died = record["owner"] != "" and record["permit"] is not None
        record["deaths"] += has_died
        return record["deaths"] if has_died else 0

    def claim(self, visit: Visit, record: Record, stages: Mapping[str, Stage]) -> Visit:
        record["fence"] += 1
        self._own(visit, record)
        self.let_go(visit.job, record, stages, Reason.CRASHED)
        return replace(visit, fence=record["fence"])

    def let_go(self, job: str, record: Record, stages: Mapping[str, Stage], reason: Reason) -> None:
        """Nobody saw what came of the call that was under way."""
        self._jobs.settle_orphans(job, reason)
        taking, record["permit"] = record["permit"], None
        if taking is not None and taking.stage in stages:
            if stages[taking.stage].on_unknown == "skip":
                self._jobs.pass_unknown(record, taking.place)
            self._limits.give_back(stages[taking.stage], taking)

    def take_back_lost_permit(
        self, visit: Visit, record: Record, stages: Mapping[str, Stage], chains: Mapping[str, Chain]
    ) -> None:
        """The reply to this owner's last admit was lost: nothing was called, and no message was sent."""
        taking, record["permit"] = record["permit"], None
        if taking is not None:
            stage = stages[taking.stage]
            self._limits.give_back(stage, taking)
            back = (taking.requests, taking.tokens, taking.nano)
            self._limits.refund(stage, taking, back, chains, self._jobs.now())
            del self._jobs.ledgers[visit.job][str(taking.n)]
        if record["owner"] == "":
            self._own(visit, record)

    def _own(self, visit: Visit, record: Record) -> None:
        if stage := record.get("parked_for"):
            self._limits.probes.give_back(stage, on_its_way(visit.job))
        self._jobs.claim(record, visit)
        self._lines.leave(visit.job)
