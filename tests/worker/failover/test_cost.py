"""What a job cost: 0 where that is known, None where it is not, and never the one for the other."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtual_time import run
from tests.worker.failover.walks import PRICE, Bench, Walked, at, stage, walked
from worker.failover.attempt import Usage
from worker.failover.chain import Stop
from worker.prices import cost


def test_a_priced_answer_costs_its_tokens() -> None:
    """7 tokens in at 2 USD, 3 out at 8 USD a million."""
    found = walked(stage("a", price=PRICE))
    assert found.view.shown["cost_usd"] == found.attempts[0]["cost_usd"] == pytest.approx(38e-6)


def test_an_answer_without_a_price_costs_nobody_knows_what() -> None:
    """Neither does the job: one unknown makes the sum unknown."""
    found = walked(stage("a"))
    assert (found.attempts[0]["cost_usd"], found.view.shown["cost_usd"]) == (None, None)
    found = walked(stage("a", "empty"), stage("b", price=PRICE))
    assert [row["cost_usd"] for row in found.attempts] == [None, pytest.approx(38e-6)]
    assert found.view.shown["cost_usd"] is None


def test_the_house_costs_nothing() -> None:
    """Whatever came of the call."""
    for script in ("ok", "empty", "cut", "hang", "status:500"):
        assert walked(stage("a", script, local=True)).attempts[0]["cost_usd"] == 0


def test_a_call_that_was_turned_away_costs_nothing() -> None:
    """No provider takes money for an error or for a connection that it refused."""
    found = walked(stage("a", "status:500"), stage("b", "refused"), stage("c", "status:429"), stage("d", price=PRICE))
    assert [row["cost_usd"] for row in found.attempts[:3]] == [0, 0, 0]
    assert found.view.shown["cost_usd"] == pytest.approx(38e-6)


@pytest.mark.parametrize("script", ["hang", "stall", "cut", "no-end", "garbage"])
def test_a_call_that_was_taken_and_not_finished_costs_nobody_knows_what(script: str) -> None:
    """The provider may have counted what nobody received."""
    assert walked(stage("a", script, price=PRICE, timeout=2)).attempts[0]["cost_usd"] is None


def test_an_answer_that_was_no_use_is_paid_all_the_same() -> None:
    """The host counted its tokens: 7 in, none out."""
    assert walked(stage("a", "empty", price=PRICE)).attempts[0]["cost_usd"] == pytest.approx(14e-6)


@pytest.mark.parametrize(("local", "expected"), [(True, 0), (False, None)])
def test_a_cancelled_call_costs_nothing_in_the_house_alone(local: bool, expected: float | None) -> None:
    """It was unknown there too, which made the whole job's cost unknown."""

    async def walking() -> Walked:
        bench, stop = Bench([stage("a", "stall", local=local)]), Stop()
        bench.submit()
        at(3, stop.ask)
        return await bench.walk(stop=stop)

    found = run(walking())
    assert (found.attempts[0]["cost_usd"], found.view.shown["cost_usd"]) == (expected, expected)


@pytest.mark.parametrize(("local", "expected"), [(True, 0), (False, None)])
def test_a_call_whose_worker_died_costs_nobody_knows_what(local: bool, expected: float | None) -> None:
    """It counted as free: the row of a call under way said 0, and nobody was left to correct it."""

    async def dying() -> Walked:
        bench = Bench([stage("a", "hang", "ok", local=local, price=PRICE)])
        bench.submit()
        first = asyncio.ensure_future(bench.walk())
        await asyncio.sleep(3)
        first.cancel()
        bench.memory.workers.discard("w1")
        return await bench.walk(owner="w2")

    found = run(dying())
    assert [row["outcome"] for row in found.attempts] == ["unknown", "answered"]
    assert found.attempts[0]["cost_usd"] == expected
    assert (found.view.shown["cost_usd"] is None) is (expected is None)


def test_cost_is_in_dollars_for_a_million_tokens() -> None:
    """As price lists write it."""
    assert cost(stage("a", price=PRICE), Usage(1_000_000, 500_000, 400_000), unbilled=False) == 6.0
