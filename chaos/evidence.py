"""What is known of a run when it is over: plain values, so that the audit is a pure function of them.

All instants are epoch seconds of this one machine: the ledger's by Valkey's clock, the hosts' and our own by Python's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.schedule import Kind


@dataclass(frozen=True, slots=True)
class Call:
    """One call as its host saw it; `started` is when the whole request had been read."""

    stage: str
    started: float
    ended: float | None
    outcome: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a ledger; skipped stages are none."""

    n: int
    stage: str
    outcome: str
    reason: str | None
    started_at: float
    duration_s: float
    worker: str | None

    @property
    def ended_at(self) -> float:
        return self.started_at + self.duration_s


@dataclass(frozen=True, slots=True)
class Done:
    """A fault as it was really done; `whom` is a worker, `valkey`, a host's stage or the callers."""

    kind: Kind
    whom: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Exit:
    """A worker process that ended though nobody had ended it; `ready`: it had started before."""

    whom: str
    began: float
    ended: float
    code: int
    ready: bool
    last: str
    """The last lines of its log."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An end as somebody who looked saw it."""

    status: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """One job: `submitted_at` is when its submit returned, None if it never did; `raised` how often it had raised."""

    id: str
    mark: str
    caller: str
    chain: str
    submitted_at: float | None
    raised: int
    status: str
    """`unknown`: there is no record."""
    text: str | None
    ended_at: float | None
    rows: Sequence[Row]
    seen: Sequence[Seen] = ()
    """The different ends that it was seen to have, in their order."""
    celery: Mapping[str, object] | None = None
    """Celery's own result: status and result."""
    follows: str | None = None
    why: str | None = None
    """Why it ended without an answer, where the record says so."""
    waits: bool = False
    """Whether its message is still in a queue, or held by a worker."""


@dataclass(frozen=True, slots=True)
class Evidence:
    jobs: Sequence[Job]
    calls: Sequence[tuple[str, Call]]
    """Each with the words of its request, which hold a job's mark."""
    done: Sequence[Done]
    leftovers: Sequence[str] = ()
    exits: Sequence[Exit] = ()
    stuck: Sequence[str] = ()
    """Workers that were told to end and did not."""
