"""Dead letters: jobs that ended without an answer, kept whole; how they are looked at, replayed and dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue
from staffel_wire.errors import Invalid
from staffel_wire.message import envelope
from staffel_wire.record import ENDED, as_object, attempts, iso, pairs
from staffel_wire.request import MAX_DEADLINE_S, cleaned
from staffel_wire.submit import LOOKS_MS

PIECE = 100
"""Dead letters that one script looks at or drops: more would keep Redis from its workers for some milliseconds."""

_RESULT = "celery-task-meta-"
"""Where Celery keeps a task's result (celery.backends.base, 5.7)."""

What = Literal["brief", "whole", "request"]
"""Of each letter its last call alone, all attempts, or the request too."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it is listed. Instants in ISO 8601, UTC; on `kept_until` it is thrown away.

    `stage` and `reason` are those of its last call, or where there was none of the last stage that was skipped.
    """

    job: str
    ended_at: str
    status: str
    why: str | None
    chain: str
    label: str | None
    attempts: int
    stage: str | None
    reason: str | None
    kept_until: str


def newest(before: str = "+inf", passed: int = 0) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of dead.lua for a piece of the ids, of those that are scored no higher than `before`."""
    return [keys.DEAD], ["[]", "brief", before, passed, PIECE]


def looking(jobs: Sequence[str], what: What) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of dead.lua for what is known of these jobs."""
    names = [name for job in jobs for name in (keys.job(job), keys.attempts(job))]
    return [keys.DEAD, *names], [json.dumps(jobs), what]


def replaying(
    job: str, from_stage: str | None, deadline: float | None, catalogue: Catalogue, now_ms: int | None = None
) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of replay.lua; `deadline` in seconds from now, else the job has as long as it was given before."""
    if deadline is not None and not 0 < deadline <= MAX_DEADLINE_S:
        raise Invalid(f"deadline: must be more than 0 and at most {MAX_DEADLINE_S:g} seconds")
    offers = catalogue.offers()
    lanes = sorted({offer.lane for offer in offers.values()})
    places = {name: [lanes.index(offer.lane) + 1, offer.local] for name, offer in offers.items()}
    queues = [queue for lane in lanes for queue in keys.queues(lane)]
    names = [keys.job(job), keys.attempts(job), keys.OPEN, keys.DEAD, f"{_RESULT}{job}", keys.WAITING, *queues]
    return names, [
        job,
        cleaned(from_stage or ""),
        json.dumps(places),
        json.dumps([envelope(job, queue) for queue in queues]),
        "" if deadline is None else max(1, round(deadline * 1000)),
        catalogue.answer_ttl * 1000,
        catalogue.ledger_ttl * 1000,
        LOOKS_MS,
        "" if now_ms is None else now_ms,
    ]


def dropping(jobs: Sequence[str], answer_ttl: int) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of drop.lua."""
    return [keys.DEAD, *(keys.job(job) for job in jobs)], [answer_ttl, json.dumps(jobs)]


def listed(job: str, reply: Sequence[Any]) -> DeadLetter:
    """One letter of the list, of what dead.lua has replied for it."""
    flat, ledger, number, left_ms, now = reply
    record, rows = pairs(flat), attempts(pairs(ledger))
    last = rows[-1] if rows else {}
    return DeadLetter(
        job, **_dated(record, left_ms, now), status=record["status"], why=record.get("why"),
        chain=record.get("chain", ""), label=record.get("label"), attempts=number, stage=last.get("stage"),
        reason=last.get("reason"),
    )  # fmt: skip


def shown(job: str, reply: Sequence[Any]) -> dict[str, Any]:
    """One letter whole: the job's object, and what else is kept of it; its request if that was asked for."""
    flat, ledger, _, left_ms, now = reply
    record = pairs(flat)
    whole = {
        **as_object(job, record, pairs(ledger), now),
        "chain": record.get("chain", ""),
        "label": record.get("label"),
        "plan": json.loads(record["plan"]),
        **_dated(record, left_ms, now),
    }
    return {**whole, "request": json.loads(record["request"])} if "request" in record else whole


def _dated(record: dict[str, str], left_ms: int, now: int) -> dict[str, str]:
    """When it ended, and when it will be thrown away."""
    return {"ended_at": iso(float(record["ended_at"]) / 1000), "kept_until": iso((now + left_ms) / 1000)}


def none_such(job: str, status: str) -> Invalid:
    """What a person is told who names a job that is no dead letter."""
    if status == "unknown":
        why = "no such job is known here, or its time is over"
    elif status not in ENDED:
        why = f"it is {status} already"
    elif status == "answered":
        why = "it is answered"
    else:
        why = f"it is {status}, and its request is not kept"
    return Invalid(f"there is no dead letter {job}; {why}")


def not_replayed(job: str, from_stage: str | None, state: str, said: str) -> Invalid:
    """Why replay.lua has left it as it is."""
    if state == "none":
        return none_such(job, said)
    plan = " → ".join(json.loads(said))
    if state == "plan":
        return Invalid(f"stage {cleaned(from_stage or '')!r} is not in the plan of {job}, which is {plan}")
    first = f" from {from_stage} on" if from_stage else ""
    return Invalid(f"no stage that {job} could be asked of{first} is configured any more; its plan is {plan}")
