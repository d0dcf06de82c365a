"""Every clock goes on to the next stage, at its very second."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from config.stages import Stage
from tests.virtual_time import run
from tests.worker.failover.walks import Bench, stage, walked
from worker.failover.answer import Status
from worker.failover.clocks import Reply, read
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

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        call.sending()
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


@pytest.mark.parametrize("blank", [" ", "\n", " \t\r\n", "\u3000", "\u200b", "\ufeff", "\x00", ""])
@pytest.mark.parametrize("thought", [False, True])
def test_blank_text_stops_no_clock(blank: str, thought: bool) -> None:
    """A host that sends line breaks for ever is silent: it kept the call until the whole attempt's time was spent."""
    if thought and not blank:
        return  # thinking whose words the provider has not kept
    steps = [step for _ in range(100) for step in (1, Piece(blank, thought=thought))]
    reply = heard(Played(*steps), first_token_timeout=3, idle_timeout=3)
    assert (reply.fault and reply.fault.kind, reply.first_token_s, reply.duration_s) == (Kind.FIRST_TOKEN, None, 3)
    reply = heard(Played(2, Piece("Be"), *steps), first_token_timeout=3, idle_timeout=3)
    assert (reply.fault and reply.fault.kind, reply.first_token_s, reply.duration_s) == (Kind.IDLE, 2, 5)


def test_blank_text_is_part_of_the_answer_all_the_same() -> None:
    """Between two words it is what parts them."""
    reply = heard(Played(Piece(" "), Piece("Be"), Piece("\n"), Piece("cause."), End("stop")))
    assert reply.text == " Be\ncause."


def test_a_slow_sink_stops_the_hosts_clocks() -> None:
    """Whoever shows the pieces is no host; a blank piece does not start the clocks anew, its showing stops them too.

    The first two blanks are shown with the text after them.
    """

    async def sink(_: str) -> None:
        await asyncio.sleep(10)

    call = Call(Stage("a", "scripted", first_token_timeout=3, idle_timeout=3), Request([]), 100)
    steps = (1, Piece(" "), 1, Piece(" "), 0.5, Piece("Be"), 2, Piece(" "), 0.5, Piece("cause."), End("stop"))
    reply = run(read(Played(*steps), call, 100, sink))
    assert (reply.text, reply.fault, reply.duration_s) == ("  Be cause.", None, 35)
    reply = run(read(Played(1, Piece("Be"), 2, Piece(" "), 2, Piece("cause.")), call, 100, sink))
    assert (reply.fault and reply.fault.kind, reply.duration_s) == (Kind.IDLE, 24)


def test_a_sink_that_hangs_spends_the_attempts_time() -> None:
    """It would have kept the job for ever."""

    async def sink(_: str) -> None:
        await asyncio.sleep(1000)

    call = Call(Stage("a", "scripted", idle_timeout=3), Request([]), 100)
    reply = run(read(Played(1, Piece("Be"), End("stop")), call, 20, sink))
    assert (reply.fault and reply.fault.kind, reply.duration_s, reply.text) == (Kind.SPENT, 20, "Be")


def test_a_sinks_own_timeout_is_its_own() -> None:
    """It is no clock of the attempt's."""

    async def sink(_: str) -> None:
        raise TimeoutError("the sink's")

    call = Call(Stage("a", "scripted"), Request([]), 100)
    with pytest.raises(TimeoutError, match="the sink's"):
        run(read(Played(Piece("Be"), End("stop")), call, 20, sink))


def test_a_providers_own_timeout_is_an_unreadable_reply() -> None:
    """No clock has struck."""

    class Raising(Played):
        async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
            call.sending()
            yield Piece("Be")
            raise TimeoutError

    reply = heard(Raising(), idle_timeout=3)
    assert (reply.fault and reply.fault.kind, reply.duration_s) == (Kind.UNREADABLE, 0)


class Flooding(Played):
    """A provider that never waits."""

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        call.sending()
        for step in itertools.cycle(self.steps):
            assert isinstance(step, Piece)
            yield step


@pytest.mark.parametrize(
    ("text", "clocks", "kind"),
    [
        ("a", {}, Kind.SPENT),
        (" ", {"first_token_timeout": 0.1}, Kind.FIRST_TOKEN),
        ("", {"first_token_timeout": 0.1}, Kind.FIRST_TOKEN),
    ],
)
def test_the_clocks_hold_where_nothing_is_ever_waited_for(text: str, clocks: dict[str, float], kind: Kind) -> None:
    """A timer strikes only while its task waits: such a stream ran on for ever, and nothing else ran beside it."""

    async def reading() -> tuple[Reply, int]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        beside = asyncio.ensure_future(beat())
        call = Call(Stage("a", "scripted", max_reply_bytes=10**9, **clocks), Request([]), 100)  # type: ignore[arg-type]
        reply = await read(Flooding(Piece(text)), call, 0.2)
        beside.cancel()
        return reply, beats

    reply, beats = asyncio.run(reading())
    assert reply.fault is not None
    assert reply.fault.kind is kind
    assert beats > 0


def test_the_first_token_is_waited_for_from_the_connection_on() -> None:
    """A host that nobody reached within its connect clock was told as one that kept silent (design: request sent)."""

    class Slow(Played):
        async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
            await asyncio.sleep(5)
            async for chunk in super().stream(call):
                yield chunk

    call = Call(Stage("a", "scripted", first_token_timeout=3), Request([]), 100)
    reply = run(read(Slow(2, Piece("Because."), End("stop")), call, 100))
    assert (reply.text, reply.first_token_s, reply.duration_s) == ("Because.", 7, 7)
    late = run(read(Slow(4, Piece("Because."), End("stop")), call, 100))
    assert late.fault is not None
    assert (late.fault.kind, late.duration_s) == (Kind.FIRST_TOKEN, 8)


def test_the_end_counts_and_what_the_host_sends_after_it_does_not() -> None:
    """Nothing is waited for once the answer is whole."""
    reply = heard(Played(Piece("Because."), End("stop"), 1000, Piece("And more.")))
    assert (reply.text, reply.duration_s) == ("Because.", 0)


def test_an_answer_that_never_stops_is_unreadable() -> None:
    """Memory is not a clock: a fast host could send gigabytes within its time."""
    reply = heard(Played(*[Piece("x" * 1_000_000)] * 9))
    assert reply.fault is not None
    assert (reply.fault.kind, len(reply.text)) == (Kind.UNREADABLE, 8_000_000)
    reply = heard(Played(*[Piece("x" * 600)] * 9), max_reply_bytes=3_000)
    assert reply.fault is not None
    assert (reply.fault.kind, len(reply.text)) == (Kind.UNREADABLE, 3_000)


def test_pieces_reach_the_sink_as_they_come() -> None:
    """In their order, each at its own time, without the thinking."""
    seen: list[tuple[float, str]] = []

    async def sink(text: str) -> None:
        seen.append((asyncio.get_running_loop().time(), text))

    call = Call(Stage("a", "scripted"), Request([]), 100)
    run(read(Played(1, Piece("Be"), Piece(thought=True), 2, Piece("cause."), End("stop")), call, 60, sink))
    assert seen == [(1, "Be"), (3, "cause.")]


def test_an_attempt_whose_pieces_were_shown_says_so() -> None:
    """Even if it failed later: the caller has seen the beginning of an answer, and no other one follows it."""
    seen: list[str] = []

    async def sink(text: str) -> None:
        seen.append(text)

    found = walked(stage("a", "status:500"), stage("b", "cut"), stage("c", "ok:Because."), sink=sink)
    assert [row["committed"] for row in found.attempts] == [False, True]
    assert seen == ["half an answer"]
    assert [row["committed"] for row in walked(stage("a")).attempts] == [False]
