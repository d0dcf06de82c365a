"""Stages of another lane, stages that may not run, and stages that a worker does not know."""

from __future__ import annotations

from tests.virtual_time import run
from tests.worker.failover.walks import Bench, Walked, stage, walked
from worker.failover.answer import Status
from worker.failover.state import Elsewhere

LOCAL = stage("local", "ok:Because.", lane="ollama", local=True)


def test_a_stage_of_another_lane_is_handed_over_as_a_value() -> None:
    """The walk returns where it goes on; the record says the same to whoever looks."""
    found = walked(stage("a", "status:500"), LOCAL)
    assert isinstance(found.end, Elsewhere)
    assert (found.end.lane, found.end.stage, found.asked) == ("ollama", "local", ["a"])
    assert found.end.view.status is Status.QUEUED
    assert [row["stage"] for row in found.end.view.shown["attempts"]] == ["a"]


def test_the_walk_goes_on_on_the_other_lane() -> None:
    """Where it stopped: what was asked is not asked again, and the attempts are numbered on."""

    async def both() -> tuple[Walked, Bench]:
        bench = Bench([stage("a", "status:500"), stage("b", "hang", timeout=2), LOCAL])
        bench.submit()
        await bench.walk()
        return await bench.walk(lane="ollama", owner="w2"), bench

    found, bench = run(both())
    assert (found.view.status, found.asked) == (Status.ANSWERED, ["local"])
    assert [(row["n"], row["of"], row["worker"]) for row in found.attempts] == [
        (1, 3, "w1@host"),
        (2, 3, "w1@host"),
        (3, 3, "w2@host"),
    ]
    assert len(bench.scripted.calls) == 3


def test_a_job_goes_back_to_the_first_lane_when_the_other_one_fails() -> None:
    """A chain may name a cloud after the house."""

    async def three() -> tuple[Walked, Walked]:
        bench = Bench([stage("local", "status:500", lane="ollama"), stage("cloud")])
        bench.submit()
        return await bench.walk(lane="ollama"), await bench.walk(lane="cloud", owner="w2")

    away, back = run(three())
    assert isinstance(away.end, Elsewhere)
    assert (away.end.lane, back.view.status, back.asked) == ("cloud", Status.ANSWERED, ["cloud"])


def test_a_local_only_request_never_leaves_the_house() -> None:
    """Each stage that was passed over is written down with its reason, and costs nothing."""
    found = walked(stage("a"), stage("b", local=True), stage("c"), local_only=True)
    assert (found.view.status, found.asked) == (Status.ANSWERED, ["b"])
    assert found.told == [("a", "skipped", "local_only"), ("b", "answered", None)]
    assert (found.attempts[0]["cost_usd"], found.attempts[0]["duration_s"]) == (0, 0)


def test_a_local_only_request_is_exhausted_rather_than_sent_out() -> None:
    """Also when everything in the house has failed."""
    found = walked(stage("a", "status:500", local=True), stage("b"), stage("c"), local_only=True)
    assert (found.view.status, found.asked) == (Status.EXHAUSTED, ["a"])
    assert found.told[1:] == [("b", "skipped", "local_only"), ("c", "skipped", "local_only")]


def test_a_stage_that_this_worker_does_not_know_is_skipped() -> None:
    """A deploy has dropped it, or has not reached this worker; the job walks on."""

    async def walking() -> Walked:
        bench = Bench([stage("b")])
        bench.submit("gone", "b", "also-gone")
        return await bench.walk()

    found = run(walking())
    assert (found.view.status, found.asked) == (Status.ANSWERED, ["b"])
    assert found.told == [("gone", "skipped", "unsupported"), ("b", "answered", None)]
    assert (found.attempts[0]["model"], found.attempts[0]["of"]) == ("", 3)


def test_a_plan_of_which_nothing_is_left_is_exhausted_without_a_call() -> None:
    """Every stage of it is a skip with its reason."""

    async def walking() -> Walked:
        bench = Bench([stage("a")])
        bench.submit("gone", "a", local_only=True)
        return await bench.walk()

    found = run(walking())
    assert (found.view.status, found.calls) == (Status.EXHAUSTED, [])
    assert found.told == [("gone", "skipped", "unsupported"), ("a", "skipped", "local_only")]


def test_a_skip_is_recorded_once_however_many_workers_the_job_meets() -> None:
    """The lane's worker does not skip again what the first one has skipped."""

    async def both() -> Walked:
        bench = Bench([stage("a"), LOCAL])
        bench.submit(local_only=True)
        await bench.walk()
        return await bench.walk(lane="ollama", owner="w2")

    assert run(both()).told == [("a", "skipped", "local_only"), ("local", "answered", None)]
