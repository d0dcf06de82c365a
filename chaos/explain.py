"""Which fault explains what a row or a call shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.evidence import Call, Done, Exit, Row
from chaos.schedule import HOST_FAULTS, LINK_FAULTS, WORKER_FAULTS, Kind

BEFORE_S = 1.0
"""How long before a call a fault of a line, a host or Valkey may have ended and still explain it."""

AFTER_S = 5.0
"""How long after the last that was seen of a call a fault may begin: its reply may not have been recorded till then."""

_OF_HOSTS = frozenset(HOST_FAULTS)


@dataclass(frozen=True, slots=True)
class Faults:
    """What was done, to be asked who explains what."""

    done: Sequence[Done]

    def of_worker(self, row: Row, call: Call | None) -> Done | None:
        """The fault of the row's worker, of its line or of Valkey that came while the call, or its end, was open."""
        last = max(row.ended_at, (call.ended or call.started) if call else row.started_at)
        mine = [fault for fault in self.done if fault.whom == row.worker]
        if row.reason == "drained":
            return self._first((fault for fault in mine if fault.kind is Kind.DRAIN), row, last)
        return (
            self._first((fault for fault in mine if fault.kind in WORKER_FAULTS), row, last)
            or self._first((fault for fault in mine if fault.kind in LINK_FAULTS), row, last)
            or self._first((fault for fault in self.done if fault.kind is Kind.VALKEY), row, last)
        )

    def of_host(self, row: Row) -> Done | None:
        """The fault of the stage's host that came while the call was under way."""
        mine = (fault for fault in self.done if fault.whom == row.stage and fault.kind in _OF_HOSTS)
        return self._first(mine, row, row.ended_at)

    def of_start(self, gone: Exit) -> Done | None:
        """The fault of Valkey or of its line that kept a worker from starting."""
        if gone.ready:
            return None
        near = (fault for fault in self.done if fault.began <= gone.ended and fault.ended >= gone.began)
        lines = (f for f in near if f.kind is Kind.VALKEY or (f.whom == gone.whom and f.kind in LINK_FAULTS))
        return next(lines, None)

    @staticmethod
    def _first(faults: Iterable[Done], row: Row, last: float) -> Done | None:
        near = [f for f in faults if f.began <= last + AFTER_S and f.ended >= row.started_at - _before(f)]
        return min(near, key=lambda fault: fault.began, default=None)


def _before(fault: Done) -> float:
    return 0.1 if fault.kind in WORKER_FAULTS else BEFORE_S


def told(fault: Done, since: float) -> str:
    """The fault in words, its instant in seconds from the start."""
    lasted = f" for {fault.ended - fault.began:.1f} s" if fault.ended - fault.began > 0.1 else ""
    return f"{fault.whom} {fault.kind} at {fault.began - since:.1f} s{lasted}"
