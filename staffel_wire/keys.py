"""The names of our keys, one builder a family; every one that a job makes has a TTL."""

from __future__ import annotations

CATALOGUE = "staffel:catalogue"
"""What the workers can do, as JSON: chains with their plans, lanes and deadlines. Written at worker start."""

WORKERS = "staffel:workers"
"""A sorted set: `LANE/WORKER/PID-MACHINE-RANDOM` of each worker process, scored with its last heartbeat in server
milliseconds.
"""

WORKER_DEAD_AFTER_MS = 10_000
"""A worker whose heartbeat is older than this is taken for dead."""


GATES = "staffel:gates"
"""A hash: stage -> why it is not asked, as `REASON UNTIL ID` or several of them, in server milliseconds; `ID` is the
stage's own, or `*` for what an operator has switched off.
"""

PARKED = "staffel:parked"
"""A sorted set: parked jobs, scored with when they look again in any case, in server milliseconds."""

OPEN = "staffel:open"
"""A sorted set: jobs that have not ended, or of whose end Celery may not have heard, scored with when housekeeping
looks at them, in server milliseconds.
"""

WAITING = "staffel:waiting"
"""A sorted set: the ticket of each job that waits in a queue, `QUEUE SEQ ID`, all scores 0: the words order them.

`SEQ` are 16 digits, the microseconds of when the job was queued; one put to the front comes just before the first.
"""

PACE = "staffel:pace"
"""A hash: lane -> the lengths of its last calls and how busy it was, as JSON; of every lane but `cloud`."""

DEAD = "staffel:dead"
"""A sorted set: dead letters, scored with when they ended, in server milliseconds."""


BATCH_QUEUE = ".batch"
"""What the name of a lane's queue of batch jobs ends in, and no lane's name does."""

RULES_TTL_S = 86_400
"""A worker that finds its rules gone writes them again."""


def queue(lane: str, priority: str) -> str:
    """Where the messages of a lane's jobs wait, a list: interactive ones in one that is named like the lane."""
    return f"{lane}{BATCH_QUEUE}" if priority == "batch" else lane


def queues(name: str) -> tuple[str, ...]:
    """Both queues of a lane; of a batch queue itself, this one."""
    return (name,) if is_batch(name) else (name, f"{name}{BATCH_QUEUE}")


def is_batch(queue: str) -> bool:
    return queue.endswith(BATCH_QUEUE)


def lane_of(queue: str) -> str:
    return queue.removesuffix(BATCH_QUEUE)


def messages(queue: str) -> list[str]:
    """The lists in which kombu keeps the messages of a queue, one for each step of priority (its Redis transport)."""
    return [queue, *(f"{queue}\x06\x16{step}" for step in (3, 6, 9))]


def housekeeper(digest: str) -> str:
    """A lease of one: the process that sends parked jobs on to the stages of this configuration."""
    return f"staffel:housekeeper:{digest}"


LANES = "staffel:lanes"
"""A hash: lane -> what its worker does now, as JSON: `owner`, `since` when the call under way began, `in_hand` how many
jobs it has admitted, `at` when it said so; in server milliseconds.
"""


def lane(name: str) -> str:
    """A lease of one: the worker process that may ask the host of a lane that runs one request at a time."""
    return f"staffel:lane:{name}"


def worker(member: str) -> str:
    """What one worker process says of its own consumption, a hash."""
    return f"staffel:worker:{member}"


def rules(digest: str) -> str:
    """What a configuration says of its stages, a hash from name to a line and JSON; `*` holds what is no stage's."""
    return f"staffel:rules:{digest}"


def stage(name: str) -> str:
    """What all workers know of one stage, a hash (see docs/stages.md)."""
    return f"staffel:stage:{name}"


def probe(name: str) -> str:
    """A lease of one: who finds out whether the stage works again."""
    return f"staffel:stage:{name}:probe"


def line(name: str) -> str:
    """A sorted set: jobs that wait for the stage by when they came; one sent on, with when to send it again."""
    return f"staffel:stage:{name}:parked"


def in_flight(name: str) -> str:
    """Leases, one a call under way, of a stage with limits and no `limit_group`."""
    return f"staffel:stage:{name}:in_flight"


def group(name: str) -> str:
    """The buckets of a `limit_group`, a hash; without a group they are in the stage's own."""
    return f"staffel:group:{name}"


def group_in_flight(name: str) -> str:
    return f"staffel:group:{name}:in_flight"


def chain(name: str) -> str:
    """What a chain with a budget has spent today, a hash."""
    return f"staffel:chain:{name}"


def idempotency(digest: str) -> str:
    """Which job an idempotency key stands for, a hash: the job, and a digest of what it asks."""
    return f"staffel:idempotency:{digest}"


def job(job_id: str) -> str:
    """The record: request, plan, state and answer of one job."""
    return f"staffel:job:{{{job_id}}}"


REVOKED_TTL_S = 86_400
"""How long such a revoke is remembered: as long as Celery keeps the REVOKED that it stored for it."""


def revoked(job: str) -> str:
    """Set where Celery revoked a task of which there was no record: its message may hold the request itself."""
    return f"staffel:revoked:{{{job}}}"


def attempts(job_id: str) -> str:
    """The ledger of one job: a hash from the attempt's number to the attempt as JSON."""
    return f"staffel:job:{{{job_id}}}:attempts"
