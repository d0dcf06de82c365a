"""The promises, held against the evidence; a pure function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos import results
from chaos.evidence import Call, Done, Evidence, Job
from chaos.explain import Faults, told
from chaos.matching import SLACK_S, Matched, Owned, match
from chaos.promises import Broken, Explained, Promise
from chaos.schedule import FOREIGN
from chaos.yard import LANE
from staffel_wire.record import ENDED

_SOUR = "sour"
"""The stage whose host fails every call."""

_LONGEST_S = 60.0
"""What is told of two calls at once that both are still under way."""

_RECORDED_S = 0.1
"""Calls that began so shortly after the instant of an answer's record were sent before it."""

_MAY_BE_ASKED_AGAIN = frozenset({"throttled", "overloaded", "unsupported"})
"""Failures after which the same stage is asked once more, later or with a field less."""

_NEVER_SENT = frozenset({"connect", "cut_off", "timeout", "first_token_timeout"})
"""Failures of a call that a host which refuses, or a paused worker, never got to see."""


@dataclass(frozen=True, slots=True)
class Findings:
    broken: Sequence[Broken]
    unknown: Sequence[Explained]
    """Calls under `unknown`, one by one, with the fault that explains each."""
    at_once: Sequence[Explained]
    """Calls that ran beside another of the same job, and why."""
    vanished: Sequence[str]
    """Foreign jobs that no worker ever had, and no queue has any more: the broker's own promise."""
    starts: Sequence[str] = ()
    """Workers that could not start, and the fault that kept them from it."""


def audit(evidence: Evidence, since: float = 0.0) -> Findings:
    """Hold all promises against what is known; `since` is the run's start, from which instants are told."""
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in evidence.jobs:
        groups[job.mark].append(job)
    calls = _by_mark(evidence, groups)
    books = [_Book(jobs, calls.get(mark, ()), Faults(evidence.done), since) for mark, jobs in groups.items()]
    for book in books:
        book.hold()
    vanished = [job.id for job in evidence.jobs if is_vanished(job)]
    house = [Broken(Promise.LEFT_OVER, "", line) for line in evidence.leftovers]
    house += [Broken(Promise.WORKER, "", line) for line in evidence.stuck]
    house += [Broken(Promise.LANE, "", line) for line in _met(evidence, since)]
    starts = [(gone, Faults(evidence.done).of_start(gone)) for gone in evidence.exits]
    house += [
        Broken(
            Promise.WORKER,
            "",
            f"{gone.whom} ended by itself with {gone.code} at {gone.ended - since:.1f} s: {gone.last}",
        )
        for gone, fault in starts
        if fault is None
    ]
    return Findings(
        [*(one for book in books for one in book.broken), *house],
        [one for book in books for one in book.unknown],
        [one for book in books for one in book.at_once],
        vanished,
        [f"{gone.whom} at {gone.began - since:.1f} s: {told(fault, since)}" for gone, fault in starts if fault],
    )


def is_vanished(job: Job) -> bool:
    """Whether a foreign job's message is gone before any worker made it a job."""
    return job.caller == FOREIGN and job.status == "unknown" and not job.rows and not job.waits


def _met(evidence: Evidence, since: float) -> Iterator[str]:
    """The calls of the lane that came while another one was still at its host; those of no job count as well."""
    calls = sorted((call for _, call in evidence.calls if call.stage == LANE), key=lambda call: call.started)
    last: Call | None = None
    for call in calls:
        if last is not None and (last.ended is None or call.started < last.ended):
            lasted = "" if last.ended is None else f", which lasted until {last.ended - since:.2f} s"
            yield f"a call at {call.started - since:.2f} s beside one of {last.started - since:.2f} s{lasted}"
        if last is None or last.ended is None or (call.ended or call.started) > last.ended:
            last = call


def _by_mark(evidence: Evidence, marks: Mapping[str, object]) -> Mapping[str, Sequence[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for words, call in evidence.calls:
        _, begin, rest = words.partition("mark-")
        numbers = rest.split("-", 2)[:2]
        mark = f"{begin}{'-'.join(numbers)}-"
        if mark in marks:
            found[mark].append(call)
    return found


class _Book:
    """The jobs of one mark, mostly one, and the calls that hosts saw of them."""

    def __init__(self, jobs: Sequence[Job], calls: Sequence[Call], faults: Faults, since: float) -> None:
        self.broken: list[Broken] = []
        self.unknown: list[Explained] = []
        self.at_once: list[Explained] = []
        self._jobs, self._calls, self._faults, self._since = jobs, calls, faults, since
        # A follower shows the ledger of the job it follows, if any.
        own = [job for job in jobs if job.follows is None]
        self._rows = sorted((Owned(job.id, row) for job in own for row in job.rows), key=lambda o: o.row.started_at)
        self._matched: Matched = match(self._rows, calls)

    def hold(self) -> None:
        for job in self._jobs:
            self.broken += results.ended(job)
        self._accounted()
        self._answers()
        self._asked_again()
        self._together()

    def _breaks(self, promise: Promise, line: str, job: str = "") -> None:
        self.broken.append(Broken(promise, job or self._jobs[0].id, line))

    def _at(self, instant: float) -> str:
        return f"at {instant - self._since:.1f} s"

    def _accounted(self) -> None:
        """Each call has a row, and each row a call or a reason why it has none."""
        for stray in self._matched.strays:
            self._breaks(Promise.UNACCOUNTED, f"a call at {stray.stage} {self._at(stray.started)} is in no ledger")
        for place, owned in enumerate(self._rows):
            row, call = owned.row, self._matched.calls.get(place)
            what = f"attempt {row.n} at {row.stage} by {row.worker} {self._at(row.started_at)}"
            if row.outcome == "unknown":
                self._explain(owned, what, call)
            elif row.outcome == "started":
                if self._jobs[0].status in ENDED:
                    self._breaks(Promise.UNACCOUNTED, f"{what} still runs by the ledger of an ended job", owned.job)
            elif row.outcome == "failed" and row.stage != _SOUR and self._fault(owned, call) is None:
                self._breaks(Promise.FAILED, f"{what} failed ({row.reason}) by no fault", owned.job)
            elif call is None and not self._never_sent(owned):
                self._breaks(
                    Promise.UNACCOUNTED, f"{what} is {row.outcome} ({row.reason}), but no host saw it", owned.job
                )

    def _never_sent(self, owned: Owned) -> bool:
        row = owned.row
        if row.outcome == "cancelled":
            return True
        return row.outcome == "failed" and row.reason in _NEVER_SENT and self._fault(owned, None) is not None

    def _fault(self, owned: Owned, call: Call | None) -> Done | None:
        return self._faults.of_host(owned.row) or self._faults.of_worker(owned.row, call)

    def _explain(self, owned: Owned, what: str, call: Call | None) -> None:
        fault = self._faults.of_worker(owned.row, call)
        seen = f"the host {call.outcome} it" if call else "no host saw it"
        if fault is None:
            self._breaks(Promise.UNEXPLAINED, f"{what} is unknown ({owned.row.reason}; {seen}) by no fault", owned.job)
        else:
            later = [other.row.started_at for other in self._rows if other.row.started_at > owned.row.started_at]
            went_on_s = later[0] - fault.began if later else None
            ends = "" if went_on_s is None else f"; it went on {went_on_s:.1f} s later"
            self.unknown.append(Explained(owned.job, f"{what}: {seen}; {told(fault, self._since)}{ends}", went_on_s))

    def _answers(self) -> None:
        """One answer at most, and it is the one that the host gave."""
        answered = [owned for owned in self._rows if owned.row.outcome == "answered"]
        if len(answered) > 1:
            stages = ", ".join(f"{owned.row.stage} {self._at(owned.row.ended_at)}" for owned in answered)
            self._breaks(Promise.ONCE, f"{len(answered)} attempts are answered: {stages}", answered[0].job)
        ends = {job.id: job.status for job in self._jobs}
        for owned in answered:
            if ends[owned.job] != "answered":
                line = f"{owned.row.stage} answered {self._at(owned.row.ended_at)} by the ledger, and it is"
                self._breaks(Promise.KEPT, f"{line} {ends[owned.job]}", owned.job)
        if not answered and "answered" in ends.values():
            self._breaks(Promise.KEPT, "it is answered, by no attempt of its ledger")

    def _asked_again(self) -> None:
        """No call begins after the answer was recorded, and none at a stage whose failure was."""
        ends = [job.ended_at for job in self._jobs if job.ended_at and job.status == "answered"]
        ends += [] if ends else [owned.row.ended_at for owned in self._rows if owned.row.outcome == "answered"]
        for call in self._calls:
            if ends and call.started > max(ends) + _RECORDED_S:
                late = call.started - max(ends)
                self._breaks(
                    Promise.NOT_AGAIN,
                    f"{call.stage} was asked {self._at(call.started)}, {late:.2f} s after the answer was recorded",
                )
        failed: set[str] = set()
        for owned in self._rows:
            row = owned.row
            if row.stage in failed:
                self._breaks(
                    Promise.NOT_AGAIN, f"{row.stage} was asked again {self._at(row.started_at)} after it had failed",
                    owned.job,
                )  # fmt: skip
            if row.outcome == "failed" and row.reason not in _MAY_BE_ASKED_AGAIN:
                failed.add(row.stage)

    def _together(self) -> None:
        """No two calls at once, unless the first was left behind by a fault."""
        for place, other, overlap in self._overlaps():
            first, second = self._rows[place], self._rows[other]
            line = (
                f"{first.row.stage} by {first.row.worker} and {second.row.stage} by {second.row.worker} for "
                f"{overlap:.1f} s from {second.row.started_at - self._since:.1f} s on"
            )
            left = next((one for one in (first, second) if one.row.outcome == "unknown"), None)
            of_left = self._matched.calls[place if left is first else other]
            fault = self._faults.of_worker(left.row, of_left) if left else None
            if left is None or fault is None:
                self._breaks(Promise.ONE_AT_ONCE, f"two calls at once: {line}", first.job)
            else:
                self.at_once.append(Explained(left.job, f"{line}: {told(fault, self._since)}"))

    def _overlaps(self) -> Iterator[tuple[int, int, float]]:
        known = sorted(self._matched.calls.items(), key=lambda pair: pair[1].started)
        for number, (place, call) in enumerate(known):
            for other, later in known[number + 1 :]:
                ends = min(end for end in (call.ended, later.ended, later.started + _LONGEST_S) if end is not None)
                if ends - later.started > SLACK_S:
                    yield place, other, ends - later.started
