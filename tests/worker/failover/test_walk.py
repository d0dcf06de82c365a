"""A walk goes from stage to stage until one answers, and writes down each step."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtual_time import run
from tests.worker.failover.walks import EPOCH, Bench, Walked, stage, walked
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Parked

FAILURES = [
    "status:500",
    "status:503",
    "status:429",
    "status:401",
    "status:404",
    "status:402",
    "refused",
    "garbage",
    "cut",
]


def test_the_first_stage_that_answers_is_the_last_one_asked() -> None:
    """The others are for bad days."""
    found = walked(stage("a", "ok:Because it scatters."), stage("b"))
    assert (found.view.status, found.asked) == (Status.ANSWERED, ["a"])
    shown = found.view.shown
    assert (shown["text"], shown["stage"], shown["finish_reason"]) == ("Because it scatters. ", "a", "stop")
    assert shown["usage"] == {"input_tokens": 7, "output_tokens": 3, "reasoning_tokens": 0}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_a_stage_goes_on_to_the_next_one_at_once(failure: str) -> None:
    """Whatever is the host's own, its account's or its model's fault; and never a pause before the next stage."""
    found = walked(stage("a", failure), stage("b", failure), stage("c"))
    assert (found.view.status, found.asked, found.seconds) == (Status.ANSWERED, ["a", "b", "c"], 0)
    assert [outcome for _, outcome, _ in found.told] == ["failed", "failed", "answered"]


@pytest.mark.parametrize("failure", ["status:400", "status:422"])
def test_a_request_that_a_stage_calls_wrong_stops_the_walk(failure: str) -> None:
    """Every other stage would be asked in vain, and paid."""
    found = walked(stage("a", "status:500"), stage("b", failure), stage("c"))
    assert (found.view.status, found.asked) == (Status.REFUSED, ["a", "b"])
    assert found.told[-1] == ("b", "failed", "bad_request")
    assert found.view.shown["text"] is None


def test_a_plan_without_an_answer_is_exhausted() -> None:
    """Each stage was asked once, not a second time."""
    found = walked(stage("a", "status:500"), stage("b", "status:404"), stage("c", "refused"))
    assert (found.view.status, found.asked, found.seconds) == (Status.EXHAUSTED, ["a", "b", "c"], 0)
    assert [row[:2] for row in found.told] == [("a", "failed"), ("b", "failed"), ("c", "failed")]


def test_a_plan_with_a_stage_that_throttles_waits_for_it() -> None:
    """All others were asked first; no worker waits with the job, which ended here although its deadline was far."""
    found = walked(stage("a", "status:429"), stage("b", "status:500"))
    assert isinstance(found.end, Parked)
    assert (found.end.stage, found.end.reason, found.end.until) == ("a", Reason.THROTTLED, EPOCH + 2)
    assert (found.asked, found.seconds) == (["a", "b"], 0)


def test_a_job_that_was_parked_asks_the_stage_that_throttled_once_more() -> None:
    """In another delivery, when the stage's time is over; what it was not asked for again is not asked."""

    async def walking() -> tuple[Walked, Walked]:
        bench = Bench([stage("a", "status:429", "ok:Because."), stage("b", "status:500")])
        bench.submit()
        first = await bench.walk()
        assert await bench.memory.park("j", "the message")
        await asyncio.sleep(2)
        assert await bench.memory.feed() == ["j"]
        return first, await bench.walk(owner="w2")

    first, second = run(walking())
    assert isinstance(first.end, Parked)
    assert (second.view.status, second.asked) == (Status.ANSWERED, ["a"])
    assert [row[:2] for row in second.told] == [("a", "failed"), ("b", "failed"), ("a", "answered")]


def test_a_job_that_cannot_wait_for_a_stage_that_throttles_is_exhausted() -> None:
    """And says when it may come again."""
    found = walked(stage("a", "status:429"), stage("b", "status:500"), deadline=2)
    assert (found.view.status, found.view.shown["retry_at"]) == (Status.EXHAUSTED, "2023-11-14T22:13:22.000Z")


def test_a_walk_of_a_hundred_stages_takes_no_time_of_its_own() -> None:
    """No back-off anywhere: the clock that jumps would show the shortest sleep."""
    stages = [stage(f"s{number}", "status:503") for number in range(99)]
    found = walked(*stages, stage("last", "ok:Because.:2.5"))
    assert (found.view.status, len(found.calls), found.seconds) == (Status.ANSWERED, 100, 2.5)


def test_each_attempt_is_one_record_numbered_in_the_plan() -> None:
    """With what a person on duty asks: who, when, how long, what came of it."""
    found = walked(stage("a", "status:429"), stage("b", "hang", timeout=2), stage("c", "ok:Because.:1.5"))
    assert [(row["n"], row["of"]) for row in found.attempts] == [(1, 3), (2, 3), (3, 3)]
    assert [row["model"] for row in found.attempts] == ["model-a", "model-b", "model-c"]
    assert [row["status"] for row in found.attempts] == [429, None, 200]
    assert [row["duration_s"] for row in found.attempts] == [0, 2, 1.5]
    assert [row["first_token_s"] for row in found.attempts] == [None, None, 1.5]
    assert [row["completed"] for row in found.attempts] == [False, False, True]
    assert [row["started_at"] for row in found.attempts] == [
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:13:22.000Z",
    ]
    assert {row["worker"] for row in found.attempts} == {"w1@host"}
    assert EPOCH == 1_700_000_000


def test_every_call_is_logged_once_as_it_stands_in_the_ledger() -> None:
    """The log's lines and the ledger's rows are the same values."""
    found = walked(stage("a", "status:500"), stage("b", "empty"), stage("c"))
    logged = [(attempt.n, attempt.stage, str(attempt.outcome), attempt.status) for attempt in found.logged]
    assert logged == [(row["n"], row["stage"], row["outcome"], row["status"]) for row in found.attempts]
    assert len(found.calls) == len(found.logged) == 3


def test_an_attempt_holds_nothing_of_what_was_asked_or_answered() -> None:
    """Ledger and log are read by people who must not see it; a host's words are there without what they quote."""
    found = walked(
        stage("a", "status:500:You said THE-CANARY-42, sorry"), stage("b", "ok:THE-CANARY-42"), stop=["THE-CANARY-42"],
        params={"a": {"x": "THE-CANARY-42"}},
    )  # fmt: skip
    assert found.view.shown["text"] == "THE-CANARY-42 "
    assert found.attempts[0]["detail"] == "You said…, sorry"
    assert "CANARY" not in repr(found.attempts) + repr(found.logged)


@pytest.mark.parametrize(("asked", "stages", "sent"), [(None, 500, 500), (100, 500, 100), (900, 500, 500)])
def test_the_output_limit_is_the_lower_one_of_request_and_stage(asked: int | None, stages: int, sent: int) -> None:
    """A host without one may answer for ever."""
    found = walked(stage("a", max_output_tokens=stages), max_output_tokens=asked)
    assert found.calls[0].max_output_tokens == sent


def test_each_stage_is_asked_the_same_request() -> None:
    """The walk changes nothing of it."""
    found = walked(stage("a", "status:500"), stage("b"), temperature=0.5, stop=["end"], seed=7)
    first, second = (call.request for call in found.calls)
    assert first == second
    assert (first.temperature, first.stop, first.seed, first.messages[0]["content"]) == (0.5, ["end"], 7, "Why?")
