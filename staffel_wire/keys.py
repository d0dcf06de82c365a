"""The names of our keys, one builder a family; every one that a job makes has a TTL."""

from __future__ import annotations

CATALOGUE = "staffel:catalogue"
"""What the workers can do, as JSON: chains with their plans, lanes and deadlines. Written at worker start."""

WORKERS = "staffel:workers"
"""A sorted set: `lane/name/start` of each worker process, scored with its last heartbeat in server milliseconds."""

WORKER_DEAD_AFTER_MS = 10_000
"""A worker whose heartbeat is older than this is taken for dead (design: 10 s)."""


GATES = "staffel:gates"
"""A hash: a stage that is closed to calls -> `UNTIL REASON ID`, in server milliseconds and as in the stage's own."""


def stage(name: str) -> str:
    """What is known of one stage, a hash: `id` tells its host and model, `dropped` are fields that it does not take,
    `refused` the marks of requests that it called wrong without a success since (both JSON), `loud:REASON` until when
    that is not told again.
    """
    return f"staffel:stage:{name}"


def job(job_id: str) -> str:
    """The record: request, plan, state and answer of one job."""
    return f"staffel:job:{{{job_id}}}"


def attempts(job_id: str) -> str:
    """The ledger of one job: a hash from the attempt's number to the attempt as JSON."""
    return f"staffel:job:{{{job_id}}}:attempts"
