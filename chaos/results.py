"""Whether one job has ended, once, for whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chaos.evidence import Job
from chaos.promises import Broken, Promise
from chaos.schedule import CLIENT, FOREIGN
from staffel_wire.record import ENDED

_STATES: Mapping[str, str] = {
    "answered": "SUCCESS", "exhausted": "FAILURE", "refused": "FAILURE", "expired": "FAILURE", "cancelled": "REVOKED",
}  # fmt: skip
"""What Celery calls each end."""


def ended(job: Job) -> Iterator[Broken]:
    """The broken promises of a job's end."""
    if job.submitted_at is None and job.status == "unknown":
        return  # it was never taken, and its caller knows
    if job.status not in ENDED:
        if job.caller != FOREIGN or job.status != "unknown" or job.rows:
            yield Broken(Promise.NOT_LOST, job.id, f"it is {job.status} when all is over ({job.caller}, {job.chain})")
        elif job.waits:
            yield Broken(Promise.NOT_LOST, job.id, "its message still waits when all is over")
        return
    if job.status == "expired":
        calls = ", ".join(f"{row.stage} {row.outcome}" for row in job.rows) or "nobody was asked"
        yield Broken(Promise.IN_TIME, job.id, f"its deadline passed: {calls} ({job.caller}, {job.chain})")
    if job.status == "answered" and job.mark not in (job.text or ""):
        yield Broken(Promise.ONCE, job.id, "its text is not the answer to its prompt")
    yield from _stays(job)
    yield from _celery(job)


def _stays(job: Job) -> Iterator[Broken]:
    ends = [*((seen.status, seen.text) for seen in job.seen), (job.status, job.text)]
    if len(set(ends)) > 1:
        shown = ", then ".join(dict.fromkeys(status for status, _ in ends))
        yield Broken(Promise.STAYS, job.id, f"its end has changed after it was seen: {shown}")


def _celery(job: Job) -> Iterator[Broken]:
    """Our client reads the record alone; for the others Celery's result is what they wait for."""
    if job.celery is None:
        if job.caller != CLIENT:
            yield Broken(Promise.CELERY, job.id, f"it is {job.status}, and Celery has no result ({job.caller})")
        return
    state, result = job.celery.get("status"), job.celery.get("result")
    over = state in {"SUCCESS", "FAILURE", "REVOKED"}
    if state != _STATES[job.status] and (over or job.caller != CLIENT):
        yield Broken(Promise.CELERY, job.id, f"it is {job.status}, and Celery says {state} ({job.caller})")
    elif job.status == "answered" and state == "SUCCESS":
        text = result.get("text") if isinstance(result, Mapping) else None
        if text != job.text:
            yield Broken(Promise.CELERY, job.id, "Celery's result holds another text than the record")
