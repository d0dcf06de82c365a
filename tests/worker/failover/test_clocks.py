"""Every clock goes on to the next stage, at its very second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from config.stages import Stage
from tests.virtual_time import run
from tests.worker.failover.walks import Bench, stage, walked
from worker.failover.answer import Status
from worker.failover.clocks import MAX_TEXT, Reply, read
from worker.failover.provider import Call, End, Kind, Piece
from worker.failover.request import Request


@pytest.mark.parametrize(
    ("script", "clocks", "reason", "seconds"),
    [
        ("hang", {"timeout": 7}, "timeout", 7),
        ("stall", {"timeout": 7}, "timeout", 7),
        ("hang", {"timeout": 7, "first_token_timeout": 2}, "first_token_timeout", 2),
        ("stall", {"timeout": 7, "first_token_timeout": 2}, "timeout", 7),
        ("hang", {"timeout": 7, "idle_timeout": 3}, "timeout", 7),
        ("stall", {"timeout": 7, "idle_timeout": 3}, "idle_timeout", 3),
        ("hang", {"timeout": 2, "first_token_timeout": 7}, "timeout", 2),
        ("hang", {"timeout": 2, "first_token_timeout": 2}, "timeout", 2),
    ],
)
def test_a_clock_of_the_first_stage_leads_to_the_second(
    script: str, clocks: dict[str, float], reason: str, seconds: float
) -> None:
    """The one that strikes first gives the reason; no time is lost beyond it."""
    found = walked(stage("a", script, **clocks), stage("b", "ok:Because."))
    assert (found.view.status, found.asked, found.seconds) == (Status.ANSWERED, ["a", "b"], seconds)
    assert found.told == [("a", "failed", reason), ("b", "answered", None)]


def test_two_clocks_in_a_row_take_their_sum_and_no_more() -> None:
    """The worst case of the demo: two silent stages of two seconds each."""
    found = walked(stage("a", "hang", timeout=2), stage("b", "hang", timeout=2), stage("c", "ok:Because.:0.5"))
    assert (found.view.status, found.seconds) == (Status.ANSWERED, 4.5)


def test_the_deadline_counts_from_submit() -> None:
    """Time in the queue is the caller's time too."""

    async def waiting() -> tuple[Status, float]:
        bench = Bench([stage("a", "hang", timeout=60), stage("b")])
        bench.submit(deadline=30)
        await asyncio.sleep(20)
        found = await bench.walk()
        assert found.told == [("a", "failed", "timeout")]
        assert found.view.shown["queued_s"] == 20
        return found.view.status, found.seconds

    assert run(waiting()) == (Status.EXPIRED, 10)


def test_a_job_that_waited_past_its_deadline_is_never_started() -> None:
    """Nobody waits for its answer any more."""

    async def waiting() -> None:
        bench = Bench([stage("a")])
        bench.submit(deadline=30)
        await asyncio.sleep(30)
        found = await bench.walk()
        assert (found.view.status, found.calls, found.attempts) == (Status.EXPIRED, [], [])

    run(waiting())


def test_the_deadline_ends_the_last_stages_call_as_expired() -> None:
    """It was told as exhausted, as if the stage had used up its own time."""
    found = walked(stage("a", "status:500"), stage("b", "hang", timeout=60), deadline=5)
    assert (found.view.status, found.seconds) == (Status.EXPIRED, 5)
    assert found.told[-1] == ("b", "failed", "timeout")


def test_the_last_stages_own_clock_leaves_the_plan_exhausted() -> None:
    """There was time left, and nobody to spend it on."""
    found = walked(stage("a", "hang", timeout=4), deadline=5)
    assert (found.view.status, found.seconds) == (Status.EXHAUSTED, 4)


def test_a_reserve_shortens_the_stages_before_it() -> None:
    """So that the last runner still has a chance; it may take all that is left itself."""
    last = stage("c", "ok:Because.:9", reserve=10)
    found = walked(stage("a", "hang"), stage("b", "hang", timeout=20, reserve=5), last, deadline=30)
    assert [row["duration_s"] for row in found.attempts] == [15, 5, 9]
    assert (found.view.status, found.seconds) == (Status.ANSWERED, 29)


def test_a_stage_that_the_reserves_leave_no_time_is_skipped() -> None:
    """With a deadline of the request's own that is as short as the reserve."""
    found = walked(stage("a"), stage("b", "ok:Because.:2", reserve=10), deadline=10)
    assert found.told == [("a", "skipped", "deadline"), ("b", "answered", None)]
    assert found.asked == ["b"]


def test_a_reserve_of_a_stage_that_will_be_skipped_keeps_no_time() -> None:
    """A cloud's reserve shortened the house's own stage of a `local_only` request, or had it skipped."""
    found = walked(stage("a", "ok:Because.:25", local=True), stage("b", reserve=10), deadline=30, local_only=True)
    assert (found.view.status, found.seconds) == (Status.ANSWERED, 25)
    found = walked(stage("a", local=True), stage("b", reserve=60), deadline=30, local_only=True)
    assert found.told == [("a", "answered", None)]


class Played:
    """A provider that sleeps and speaks: seconds and chunks in turn."""

    def __init__(self, *steps: float | Piece | End) -> None:
        self.steps = steps

    async def stream(self, _: Call) -> AsyncIterator[Piece | End]:
        for step in self.steps:
            if isinstance(step, int | float):
                await asyncio.sleep(step)
            else:
                yield step


def heard(provider: Played, budget: float = 60.0, **clocks: float) -> Reply:
    call = Call(Stage("a", "scripted", **clocks), Request([]), 100)  # type: ignore[arg-type]
    return run(read(provider, call, budget))


def test_the_idle_clock_starts_anew_with_each_piece() -> None:
    """A slow answer is an answer."""
    steps = [step for number in range(9) for step in (2.9, Piece(f"{number}"))]
    reply = heard(Played(*steps, End("stop")), first_token_timeout=3, idle_timeout=3)
    assert (reply.text, reply.fault) == ("012345678", None)
    assert (reply.first_token_s, reply.duration_s) == (2.9, pytest.approx(26.1))


def test_a_host_that_drips_for_ever_meets_the_whole_attempts_clock() -> None:
    """Each single wait was short enough; what was heard is kept, and is no answer."""
    reply = heard(Played(*[step for _ in range(100) for step in (1, Piece("."))]), budget=10.5, idle_timeout=3)
    assert (reply.text, reply.end, reply.duration_s) == ("..........", None, 10.5)
    assert reply.fault is not None
    assert reply.fault.kind is Kind.SPENT


def test_thinking_stops_the_clocks_and_is_no_part_of_the_answer() -> None:
    """A model that thinks aloud for a minute is at work."""
    steps = [step for _ in range(30) for step in (2, Piece(thought=True))]
    reply = heard(Played(*steps, 2, Piece("Because."), End("stop")), first_token_timeout=3, idle_timeout=3, budget=100)
    assert (reply.text, reply.fault, reply.first_token_s, reply.duration_s) == ("Because.", None, 2, 62)


def test_the_end_counts_and_what_the_host_sends_after_it_does_not() -> None:
    """Nothing is waited for once the answer is whole."""
    reply = heard(Played(Piece("Because."), End("stop"), 1000, Piece("And more.")))
    assert (reply.text, reply.duration_s) == ("Because.", 0)


def test_an_answer_that_never_stops_is_unreadable() -> None:
    """Memory is not a clock: a fast host could send gigabytes within its time."""
    reply = heard(Played(*[Piece("x" * 1_000_000)] * 9))
    assert reply.fault is not None
    assert (reply.fault.kind, len(reply.text)) == (Kind.UNREADABLE, 9_000_000)
    assert MAX_TEXT == 8_000_000


def test_pieces_reach_the_sink_as_they_come() -> None:
    """In their order, each at its own time, without the thinking."""
    seen: list[tuple[float, str]] = []

    async def sink(text: str) -> None:
        seen.append((asyncio.get_running_loop().time(), text))

    call = Call(Stage("a", "scripted"), Request([]), 100)
    run(read(Played(1, Piece("Be"), Piece(thought=True), 2, Piece("cause."), End("stop")), call, 60, sink))
    assert seen == [(1, "Be"), (3, "cause.")]


def test_an_attempt_whose_pieces_were_shown_says_so() -> None:
    """Even if it failed later: the caller has seen the beginning of an answer that is not the answer."""
    seen: list[str] = []

    async def sink(text: str) -> None:
        seen.append(text)

    found = walked(stage("a", "status:500"), stage("b", "cut"), stage("c", "ok:Because."), sink=sink)
    assert [row["committed"] for row in found.attempts] == [False, True, True]
    assert seen == ["half an answer", "Because. "]
    assert [row["committed"] for row in walked(stage("a")).attempts] == [False]
