"""A seed says what is done to whom and when, and what is asked."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.schedule import CLIENT, LASTS, Kind, Shape, asks, schedule

ROOT = Path(__file__).parents[2]
SHAPE = Shape(("w1", "w2", "w3"), ("first", "second"), ("quick", "slow"), 400, 120.0, 1.0, 2)


def test_a_seed_reproduces_its_schedule_and_another_has_another() -> None:
    assert schedule(7, SHAPE) == schedule(7, SHAPE)
    assert asks(7, SHAPE) == asks(7, SHAPE)
    assert schedule(7, SHAPE) != schedule(8, SHAPE)


@pytest.mark.parametrize("seed", range(20))
def test_all_faults_are_over_when_the_run_is_quiet(seed: int) -> None:
    faults = schedule(seed, SHAPE)
    assert list(faults) == sorted(faults, key=lambda fault: (fault.at_s, fault.whom))
    assert all(0 < fault.at_s < SHAPE.seconds for fault in faults)
    assert all(fault.at_s + fault.for_s <= SHAPE.seconds + 0.02 for fault in faults if fault.kind is not Kind.VALKEY)
    assert all(fault.for_s <= LASTS[fault.kind][1] for fault in faults)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_has_two_faults_of_one_family_at_once(seed: int) -> None:
    of_workers = {Kind.KILL, Kind.PAUSE, Kind.PAUSE_KILL, Kind.DRAIN}
    faults = [fault for fault in schedule(seed, SHAPE) if fault.kind in of_workers]
    for worker in SHAPE.workers:
        mine = [fault for fault in faults if fault.whom == worker]
        assert all(later.at_s > one.at_s + one.for_s for one, later in pairwise(mine))


def test_a_worker_is_hurt_about_as_often_as_it_was_said_and_valkey_exactly() -> None:
    kinds = [fault.kind for fault in schedule(3, SHAPE)]
    assert kinds.count(Kind.VALKEY) == SHAPE.restarts
    assert kinds.count(Kind.KILL) > 30
    assert set(kinds) == set(Kind)


def test_every_prompt_has_a_mark_of_its_own() -> None:
    found = asks(7, SHAPE)
    assert len({ask.job for ask in found}) == len({ask.mark for ask in found}) == SHAPE.jobs
    assert not any(one.mark in other.mark for one in found for other in found if one is not other)


def test_some_are_asked_twice_at_once_under_one_key_where_the_door_takes_keys() -> None:
    found = asks(7, SHAPE, keyed=True)
    twins = [ask for ask in found if ask.key]
    assert len(found) == SHAPE.jobs
    assert twins
    assert {ask.caller for ask in twins} == {CLIENT}
    assert all(sum(one.key == ask.key and one.mark == ask.mark for one in twins) == 2 for ask in twins)


def test_the_plan_is_printed_without_a_run() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-m", "chaos", "--seed", "7", "--plan"], cwd=ROOT, capture_output=True, text=True,
            timeout=60, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert told[0] == told[1]
    assert "valkey Valkey killed" in told[0]
    assert "chaos-7-0 " in told[0]
