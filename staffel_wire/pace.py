"""How fast a lane's calls have gone of late, and when a job that waits for its turn there will have ended.

A lane makes one call at a time: what stands before a job is the rest of the call under way and whole calls after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, log1p, sqrt
from statistics import NormalDist, fmean, variance
from typing import Any

from staffel_wire.record import rounded

KEPT_CALLS = 50
"""Of the last so many calls the lengths are kept, newest last."""

BUSY_PART_MS, BUSY_PARTS = 5_000, 12
"""Of the last minute it is kept for each part how long a call was under way."""

FEW = 3
"""From fewer calls no range is told."""

_GRAIN = 0.03
"""What is told is never finer than this share of the mean: calls that all last the same have pauses between them."""

_TAIL = 0.05
"""Beyond each end of the range. Tenths would hold 8 of 10 times where the next calls are drawn as the last ones were,
which is never quite so: the range is to hold 8 times of 10 at least.
"""

Call = tuple[int, int, int]
"""Milliseconds, and tokens in and out, 0 where they are not known."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The last calls of a lane; `busy` is `PART:MS` for each part of `BUSY_PART_MS` in which a call was under way."""

    calls: tuple[Call, ...] = ()
    busy: tuple[tuple[int, int], ...] = ()

    def lengths(self) -> tuple[float, ...]:
        """Seconds."""
        return tuple(ms / 1000 for ms, _, _ in self.calls)

    def tokens_per_second(self) -> float | None:
        """Of the output, over the calls whose tokens are known."""
        known = [(ms, made) for ms, _, made in self.calls if made]
        return sum(made for _, made in known) * 1000 / sum(ms for ms, _ in known) if known else None

    def busy_share(self, now_ms: int, since_ms: int | None = None) -> float:
        """The part of the last minute in which a call was under way; one that runs since `since_ms` counts too."""
        window = BUSY_PART_MS * BUSY_PARTS
        first = now_ms - window
        spent = 0.0
        for part, ms in self.busy:
            begins = part * BUSY_PART_MS
            inside = min(now_ms, begins + BUSY_PART_MS) - max(first, begins)
            lasts = min(now_ms, begins + BUSY_PART_MS) - begins
            spent += ms * max(0, inside) / lasts if lasts > 0 else 0
        running = 0 if since_ms is None else now_ms - max(first, since_ms)
        return min(1.0, (spent + max(0, running)) / window)


@dataclass(frozen=True, slots=True)
class Now:
    """What a lane's owner says: when the call under way began (ms of the server), and how many jobs it has in hand:
    the one that is called and those that are prepared for their turn.
    """

    owner: str | None = None
    since_ms: int | None = None
    in_hand: int = 0

    @property
    def prepared(self) -> int:
        return max(0, self.in_hand - (self.since_ms is not None))

    def running_s(self, now_ms: float) -> float | None:
        """For how long the call under way has taken."""
        return None if self.since_ms is None else max(0.0, (now_ms - self.since_ms) / 1000)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds: what is to be expected, and a range that holds 8 times of 10 or more, None where too little is known."""

    mean: float
    low: float | None = None
    high: float | None = None


def eta(told: Estimate | None) -> dict[str, float | None]:
    """How an estimate is shown: None where nothing, and without a range where little, is known."""
    mean, low, high = (told.mean, told.low, told.high) if told else (None, None, None)
    return {"eta_s": rounded(mean), "eta_from_s": rounded(low), "eta_to_s": rounded(high)}


def pace_of(text: str | None) -> Pace:
    """As `settle.lua` writes it."""
    data: dict[str, Any] = json.loads(text) if text else {}
    busy = (part.partition(":") for part in data.get("busy", "").split())
    calls = tuple((int(ms), int(given), int(made)) for ms, given, made in data.get("calls", ()))
    return Pace(calls, tuple((int(part), int(ms)) for part, _, ms in busy))


def now_of(text: str | None) -> Now:
    """As the lane's owner writes it; nothing is known where there is none."""
    data: dict[str, Any] = json.loads(text) if text else {}
    since = data.get("since")
    return Now(data.get("owner"), None if since is None else int(since), int(data.get("in_hand") or 0))


def stand_before(rank: int, others: int, *, batch: bool) -> int:
    """How many come before the job of this rank (from 0) in its own queue, with so many in the other one.

    Interactive jobs come first, and every tenth job that is taken is of a batch.
    """
    return rank + (min(others, 9 * (rank + 1)) if batch else min(others, rank // 9))


def until_end(lengths: Sequence[float], calls: int, elapsed: float | None = None) -> Estimate | None:
    """Seconds until so many whole calls have ended, after one that has been under way for `elapsed`, if there is one.

    The sum is taken for log-normal, with the mean and variance that the last lengths tell: it is never negative, leans
    as lengths do, and becomes a normal one where there are many. The mean itself is not known better than from so few
    calls, hence its own variance, and Student's t. A few calls may all be short: the low end is that of a normal sum,
    if that is still as much as the shortest would take. None where no call has been seen.
    """
    if not lengths:
        return None
    count, each = len(lengths), fmean(lengths)
    rest, rest_spread = _rest(lengths, elapsed)
    mean = calls * each + rest
    if count < FEW or mean <= 0:
        return Estimate(max(0.0, mean))
    spread = variance(lengths)
    whole = calls * spread + calls * calls * spread / count + rest_spread + (_GRAIN * mean) ** 2
    sigma = sqrt(log1p(whole / (mean * mean)))
    middle, wide = log(mean) - sigma * sigma / 2, _student(1 - _TAIL, count - 1)
    shortest = max(mean - wide * sqrt(whole), calls * min(lengths))
    return Estimate(mean, min(shortest, exp(middle - wide * sigma)), exp(middle + wide * sigma))


def _rest(lengths: Sequence[float], elapsed: float | None) -> tuple[float, float]:
    """What is left of a call that has run for so long, and its variance: as of those that took longer.

    One that has run longer than any of them may run for as long again.
    """
    if elapsed is None:
        return 0.0, 0.0
    longer = [length - elapsed for length in lengths if length > elapsed]
    if not longer:
        return elapsed / 2, elapsed * elapsed / 4
    mean = fmean(longer)
    return mean, variance(longer) if len(longer) > 1 else mean * mean


def _student(share: float, freedom: int) -> float:
    """The quantile of Student's t, from the normal one (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(share)
    one, two = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    three = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + one / freedom + two / freedom**2 + three / freedom**3
