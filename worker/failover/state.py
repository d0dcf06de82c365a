"""What the walk asks of the shared state: admit before an attempt, settle after it, each one step for all workers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.failover.answer import Answer, Status, View
from worker.failover.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Visit:
    """One delivery of a job to a worker. `fence` is 0 until the first admit has claimed the job for this delivery.

    `delivery` tells it from another one to the same owner: an admit whose reply was lost is asked again, and must
    find that it was granted.
    """

    job: str
    lane: str
    owner: str
    worker: str
    fence: int = 0
    delivery: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)


@dataclass(frozen=True, slots=True)
class Permit:
    """One stage of the plan may run now, as attempt `n`.

    `left_s` until the deadline, of which `kept_s` are reserved for later stages; `started_at` by the server's clock.
    """

    visit: Visit
    stage: str
    place: int
    n: int
    of: int
    left_s: float
    kept_s: float
    started_at: float
    plan: tuple[str, ...]
    request: dict[str, Any] | None
    """The request as the door took it; there on the first admit of a delivery only."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The next stage belongs to another lane; the record already says so."""

    lane: str
    stage: str
    view: View


@dataclass(frozen=True, slots=True)
class Over:
    """The job has ended, just now or before."""

    view: View


@dataclass(frozen=True, slots=True)
class Taken:
    """Nothing to do for this delivery: a living worker has the job, or its record is gone."""

    known: bool


Admission = Permit | Elsewhere | Over | Taken


class State(Protocol):
    async def admit(self, visit: Visit) -> Admission:
        """Claim the job (first time), write down every stage that cannot run here and why, and admit the next one.

        Asked again for the same visit with no settle between, it grants the same once more.
        """
        ...

    async def settle(
        self, permit: Permit, attempt: Attempt, end: Status | None = None, answer: Answer | None = None
    ) -> View | None:
        """Record the attempt; with `end` the job ends here and its view is returned.

        None without `end`, and where the fence refused an owner that another one has followed.
        """
        ...
