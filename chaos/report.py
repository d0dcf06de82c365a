"""What a person reads when a run is over, and the same for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from chaos.audit import Findings
from chaos.evidence import Evidence, Job
from chaos.promises import Promise
from chaos.schedule import Fault
from staffel_wire.errors import UNANSWERED

_MOST_JOBS = 8
"""Broken jobs of each promise whose ledgers are shown; the file of --json holds all."""

_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class Run:
    """All there is to tell of one run; `began` in epoch seconds."""

    seed: int
    began: float
    took_s: float
    evidence: Evidence
    findings: Findings
    missed: Sequence[Fault]
    logs: Mapping[str, str]
    """What each worker has logged."""


def table(run: Run) -> Iterator[str]:
    """The run in lines: what was done, what came of it, what was broken."""
    jobs, found = run.evidence.jobs, run.findings
    submitted = [job for job in jobs if job.submitted_at is not None]
    raised = sum(job.raised for job in jobs)
    yield f"seed {run.seed}, {run.took_s:.0f} s"
    yield _row("jobs", f"{len(submitted)} submitted ({_counted(Counter(job.caller for job in submitted))})")
    yield _row("", f"{raised} submits raised and were tried again, {len(jobs) - len(submitted)} were given up")
    yield _row("ends", _counted(Counter(job.status for job in submitted)))
    yield _row("faults", _counted(Counter(str(done.kind) for done in run.evidence.done)))
    yield _row("", f"not done, since its worker was just starting: {len(run.missed)}")
    yield _row("calls", _counted(Counter(call.stage for _, call in run.evidence.calls)))
    outcomes = Counter(row.outcome for job in jobs if job.follows is None for row in job.rows)
    yield _row("attempts", _counted(outcomes))
    yield _row("unknown", f"{len(found.unknown)} explained by a fault, each below")
    if waits := sorted(one.went_on_s for one in found.unknown if one.went_on_s is not None):
        yield _row("", f"their jobs went on {median(waits):.1f} s after the fault (median), {waits[-1]:.1f} s at most")
    yield _row("at once", f"{len(found.at_once)} calls beside one that a fault had left behind, each below")
    yield _row("foreign", f"{len(found.vanished)} vanished before a worker had them (the broker's own promise)")
    yield _row("starts", f"{len(found.starts)} workers found no Valkey when they started, and were started again")
    yield ""
    broken = Counter(one.promise for one in found.broken)
    for promise in Promise:
        yield f"  {'kept  ' if not broken[promise] else 'BROKEN'}  {promise}" + f" ({broken[promise]} times)" * (
            broken[promise] > 0
        )
    yield from _section("unknown", (f"{one.job}: {one.line}" for one in found.unknown))
    yield from _section("at once", (f"{one.job}: {one.line}" for one in found.at_once))
    yield from _section("unanswered", (_unanswered(job) for job in jobs if job.status in UNANSWERED))
    yield from _section("vanished", found.vanished)
    yield from _section("starts", found.starts)
    yield from _section("broken", (f"{one.promise}: {one.job or 'the house'}: {one.line}" for one in found.broken))
    yield from _evidence(run)


def as_json(run: Run) -> str:
    """Everything, as one JSON object."""
    whole: dict[str, Any] = {
        "seed": run.seed,
        "began": run.began,
        "took_s": run.took_s,
        "broken": [asdict(one) for one in run.findings.broken],
        "unknown": [asdict(one) for one in run.findings.unknown],
        "at_once": [asdict(one) for one in run.findings.at_once],
        "vanished": list(run.findings.vanished),
        "exits": [asdict(gone) for gone in run.evidence.exits],
        "faults": [asdict(done) for done in run.evidence.done],
        "missed": [asdict(fault) for fault in run.missed],
        "jobs": [asdict(job) for job in run.evidence.jobs],
        "calls": [{"words": words[-200:], **asdict(call)} for words, call in run.evidence.calls],
        "logs": dict(run.logs),
    }
    return json.dumps(whole, ensure_ascii=False)


def write_json(run: Run, path: Path) -> None:
    path.write_text(as_json(run))


def _evidence(run: Run) -> Iterator[str]:
    """Of the first broken jobs of each promise: the ledger, the calls, and what the workers said."""
    shown: Counter[Promise] = Counter()
    jobs = {job.id: job for job in run.evidence.jobs}
    told: set[str] = set()
    for one in run.findings.broken:
        shown[one.promise] += 1
        if one.job in jobs and one.job not in told and shown[one.promise] <= _MOST_JOBS:
            told.add(one.job)
            yield from _of_job(run, jobs[one.job])


def _of_job(run: Run, job: Job) -> Iterator[str]:
    at = None if job.submitted_at is None else round(job.submitted_at - run.began, 2)
    yield ""
    yield f"--- {job.id}: {job.status}, {job.caller}, {job.chain}, submitted at {at} s"
    for row in job.rows:
        yield (
            f"    {row.started_at - run.began:7.2f} s  attempt {row.n} {row.stage} {row.outcome} {row.reason or ''} "
            f"{row.duration_s:.2f} s by {row.worker}"
        )
    for words, call in run.evidence.calls:
        if job.mark in words:
            ended = "" if call.ended is None else f" {call.ended - call.started:.2f} s"
            yield f"    {call.started - run.began:7.2f} s  host of {call.stage}: {call.outcome}{ended}"
    for name, log in run.logs.items():
        lines = [line for line in log.splitlines() if job.id in _words(line)]
        for line in lines[-_MOST_LINES:]:
            yield f"    {name}: {line[:240]}"


def _unanswered(job: Job) -> str:
    asked = ", ".join(f"{row.stage} {row.outcome} {row.reason or ''}".strip() for row in job.rows)
    return f"{job.id}: {job.status}: {job.why or asked or 'nobody was asked'}"


def _words(line: str) -> list[str]:
    return line.translate(str.maketrans("[](),:'\"{}", " " * 10)).split()


def _section(name: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield f"{name}:"
        yield from (f"  {line}" for line in found)


def _row(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"
