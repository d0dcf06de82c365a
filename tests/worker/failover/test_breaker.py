"""The judgement alone: when a stage is taken for dead, and for how long."""

from __future__ import annotations

import pytest

from config.limits import Breaker
from worker.failover.breaker import Count, open_for, trips

RULE = Breaker(failure_ratio=0.5, min_calls=4, consecutive_failures=3, open_for=30, open_growth=2, open_max=300)


@pytest.mark.parametrize(
    ("count", "opens"),
    [
        (Count(), False),
        (Count(calls=3, failures=3, row=1), False),
        (Count(calls=4, failures=2, row=1), True),
        (Count(calls=5, failures=2, row=1), False),
        (Count(calls=0, failures=0, row=3), True),
        (Count(calls=100, failures=3, row=2), False),
        (Count(calls=100, failures=3, row=3), True),
        (Count(calls=100, failures=50, row=1), True),
    ],
)
def test_a_stage_is_dead_by_its_ratio_or_by_its_failures_in_a_row(count: Count, *, opens: bool) -> None:
    """The ratio counts from so many calls on; the row needs no window at all."""
    assert trips(RULE, count) is opens


def test_a_single_call_may_be_enough() -> None:
    """Where the rule says so."""
    rule = Breaker(failure_ratio=1, min_calls=1, consecutive_failures=1)
    assert trips(rule, Count(calls=1, failures=1, row=1))


@pytest.mark.parametrize(
    ("before", "seconds"), [(0, 30), (1, 60), (2, 120), (3, 240), (4, 300), (5, 300), (10_000_000, 300)]
)
def test_it_stays_open_longer_each_time_up_to_the_most(before: int, seconds: float) -> None:
    """After a night away as after an hour, and no longer to compute."""
    assert open_for(RULE, before) == seconds


def test_it_may_stay_open_equally_long_each_time() -> None:
    """A growth of 1 is none, whatever the most is."""
    assert [open_for(Breaker(open_growth=1), before) for before in (0, 1, 10_000_000)] == [30, 30, 30]


def test_growth_need_not_be_whole() -> None:
    """Three times and a half: 2 s, 7 s, 24.5 s."""
    rule = Breaker(open_for=2, open_growth=3.5)
    assert [open_for(rule, before) for before in range(3)] == [2, 7, 24.5]
