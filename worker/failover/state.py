"""What the walk asks of the shared state: admit before an attempt, settle after it, each one step for all workers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.failover.answer import Answer, Status, View
from worker.failover.attempt import Attempt, Reason

REFUSALS = 5
"""So many different requests in a row, called wrong by one stage without a success, are that stage's fault."""

PROBE_AFTER_S = 10.0
"""What a lease outlives the longest that its call may take; its holder's death ends it sooner."""

ON_ITS_WAY_S = 30.0
"""A probe is kept so long for a job that was sent to another worker to make it."""

BACK_OFF_S, MOST_BACK_OFF_S = 2.0, 60.0
"""A stage that throttles and names no time is closed for the first, doubled each time in a row up to the second."""

LOUD_S = 900.0
"""One fault of one stage is told to a person once in so many seconds, or again after a success."""

REMEMBERED_S = 86_400.0
"""What a stage has taught is believed for a day from its first lesson: models change, and hosts may be mistaken."""

MOST_DROPPED = 32
"""Fields of one stage that are remembered; what comes after them is dropped for its own walk alone."""

UNFIT = frozenset({Reason.TOO_LONG, Reason.FILTERED, Reason.CAPABILITY})
"""Where every stage that could be asked ends in one of these, it is the request that fits nowhere: refused."""


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
    dropped: frozenset[str] = frozenset()
    """Fields that this stage is known not to take."""
    probe: bool = False
    """The one call that finds out whether a stage works again."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The next stage belongs to another lane; the record already says so."""

    lane: str
    stage: str
    view: View


@dataclass(frozen=True, slots=True)
class Over:
    """The job has ended, just now or before; `told`: its caller has heard of it, this is a second delivery."""

    view: View
    told: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """Nothing to do for this delivery: a living worker has the job, or its record is gone."""

    known: bool


@dataclass(frozen=True, slots=True)
class Displaced:
    """Another worker holds this lane: the job waits in its queue again, once it is handed back."""


@dataclass(frozen=True, slots=True)
class Parked:
    """No stage that is left may run now, but `stage` may before the deadline: the job waits without a worker.

    `until` in epoch seconds of the server's clock: the first instant that is known, no promise. The one who is told so
    has `park` still to ask for, with whatever will be sent when the job goes on.
    """

    stage: str
    lane: str
    reason: Reason
    until: float
    view: View


@dataclass(frozen=True, slots=True)
class Follows:
    """The job waits, without a worker, for the end of another one that has the same idempotency key."""

    leader: str
    view: View


Admission = Permit | Elsewhere | Over | Taken | Parked | Follows | Displaced


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an attempt taught about its stage, for all workers.

    Of the stage's health: `worked`, it is there, whatever its output is worth; `failed`, an outage (a success that was
    too slow is both); `throttled`, its limits; `permanent`, out of order until a person mends it. `closed_s`: the host
    named the seconds until it may be asked again. `reached`: the request was at the host, so that its limits count it;
    `tokens` and `usd`: what it took, None where that is not known.

    Of its likings: `dropped`, a field that it does not take, and this job asks it once more without, `believed` by
    other jobs too; `refused`, the mark of a request that it called wrong; `loud`: a person should hear of it.
    """

    worked: bool = False
    failed: bool = False
    throttled: bool = False
    permanent: bool = False
    closed_s: float = 0.0
    reached: bool = True
    tokens: int | None = None
    usd: float | None = None
    dropped: str = ""
    believed: bool = True
    refused: str = ""
    loud: bool = False


NO_LESSON = Lesson()


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of an attempt. With `end` the job ends here, unless the guard of `REFUSALS` takes the blame from a
    request that was refused; None: the plan goes on, and where nothing is left of it, the job ends as `last`.
    """

    end: Status | None = None
    answer: Answer | None = None
    last: Status = Status.EXHAUSTED
    lesson: Lesson = NO_LESSON


GOES_ON = Settlement()


@dataclass(frozen=True, slots=True)
class Settled:
    """`view` where the job has ended (`told`: others have ended it, and its caller hears of it from them); `fenced`
    where another owner has followed and nothing was changed, `gone` where there is no record any more; `alarm` where
    a loud fault is heard of for the first time.
    """

    view: View | None = None
    fenced: bool = False
    alarm: bool = False
    told: bool = False
    gone: bool = False


class State(Protocol):
    async def admit(self, visit: Visit) -> Admission:
        """Claim the job (first time), write down every stage that cannot run here and why, and admit the next one.

        A stage that was passed over, or has throttled this job, and that may run later is tried once the plan has
        been walked; if none of these may run now, the job is parked or ends as exhausted.

        Asked again for the same visit with no settle between, it grants the same once more.
        """
        ...

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        """Record the attempt and what it taught, and end the job where the settlement says so."""
        ...
