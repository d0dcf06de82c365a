"""What follows from a verdict: the next stage, the same one without a field, or the end; and what others learn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.virtual_time import run
from tests.worker.failover.walks import Bench, Walked, stage, walked
from worker.failover.answer import Status
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.clocks import Reply
from worker.failover.outcome import Judged, _verdict
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, Words
from worker.failover.request import Request
from worker.failover.state import GOES_ON, REFUSALS, Permit, Settled, Settlement, Visit
from worker.failover.verdict import FaultClass, Verdict
from worker.providers.scripted import Scripted
from worker.state.memory import Memory


def test_a_stage_is_asked_once_more_without_the_field_that_it_rejects() -> None:
    """Five settings of one vendor became errors within two months of 2026: no request of a night may die of that.

    Each call is an attempt of its own; the job after it asks without the field at once; a person hears of it once.
    """

    async def walking() -> tuple[Walked, Walked, list[str]]:
        bench = Bench([stage("a", "rejects:temperature"), stage("b")])
        bench.submit(job="one", temperature=0.2)
        bench.submit(job="two", temperature=0.2)
        first, second = await bench.walk(job="one"), await bench.walk(job="two")
        return first, second, [f"{job} {attempt.stage} {attempt.reason}" for job, attempt in bench.alarms]

    first, second, alarms = run(walking())
    assert first.told == [("a", "failed", "unsupported"), ("a", "answered", None)]
    assert [(row["n"], row["of"]) for row in first.attempts] == [(1, 2), (2, 3)]
    assert [call.dropped for call in first.calls] == [frozenset(), {"temperature"}]
    assert second.told == [("a", "answered", None)]
    assert [call.dropped for call in second.calls] == [{"temperature"}]
    assert alarms == ["one a unsupported"]


def test_a_field_that_nobody_can_leave_out_sends_the_request_on() -> None:
    """A stage that takes no such call at all is out of order, and is not asked twice."""
    found = walked(stage("a", "rejects:messages"), stage("b"))
    assert found.told == [("a", "failed", "unsupported"), ("b", "answered", None)]


def test_a_stage_without_a_schema_does_not_fit_a_request_with_one() -> None:
    """Where the field was needed, the stage is sound and the next one is asked."""
    schema = {"type": "object"}
    found = walked(stage("a", "rejects:response_format"), stage("b", "ok:{}"), response_schema=schema)
    assert found.told == [("a", "failed", "capability"), ("b", "answered", None)]


def test_a_field_of_the_callers_own_is_the_callers_own() -> None:
    """Whoever sends a stage strange `params` is passed on, and nobody is woken for it."""

    async def walking() -> tuple[Walked, int]:
        bench = Bench([stage("a", "rejects:frequency"), stage("b")])
        bench.submit(params={"a": {"frequency": 3}})
        return await bench.walk(), len(bench.alarms)

    found, alarms = run(walking())
    assert (found.told, alarms) == ([("a", "failed", "unsupported"), ("b", "answered", None)], 0)


def test_a_walk_drops_a_field_once_even_if_all_others_forget_it() -> None:
    """Two workers with different models under one stage's name took each other's notes away: it went on for ever."""

    class Forgetful(Memory):
        async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
            settled = await super().settle(permit, attempt, settlement)
            self.health.known.clear()
            return settled

    async def walking() -> Walked:
        bench = Bench([stage("a", "rejects:temperature"), stage("b")])
        forgetful = Forgetful(bench.stages, bench.memory.clock)
        bench.engine = replace(bench.engine, state=forgetful)
        bench.memory = forgetful
        bench.submit(temperature=0.2)
        return await bench.walk()

    assert run(walking()).told == [("a", "failed", "unsupported"), ("a", "answered", None)]


def test_what_holds_under_a_condition_teaches_nothing_about_others() -> None:
    """One caller's reasoning took the temperature from all callers for a day."""
    text = "'temperature' is not supported when reasoning effort is not none"

    class Conditional(Scripted):
        async def stream(self, call: Call) -> AsyncIterator[Chunk]:
            if "temperature" not in call.dropped:
                call.sending()
                raise Fault(Kind.STATUS, status=400, words=Words(("unsupported_parameter",), text, formed=True))
            async for chunk in super().stream(call):
                yield chunk

    async def walking() -> list[Walked]:
        bench = Bench([stage("a")], provider=Conditional())
        for job in ("one", "two"):
            bench.submit(job=job, temperature=0.2)
        return [await bench.walk(job=job) for job in ("one", "two")]

    for found in run(walking()):
        assert found.told == [("a", "failed", "unsupported"), ("a", "answered", None)]


def test_a_mistake_of_ours_in_judging_costs_an_attempt() -> None:
    """Half a file of a new adapter left its job running until the deadline, and the next stage was never asked."""

    class Broken(Scripted):
        def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
            raise AttributeError(call.stage.name)

    async def walking() -> tuple[Walked, int]:
        bench = Bench([stage("a", "rejects:seed"), stage("b")], provider=Broken())
        bench.submit(seed=7)
        return await bench.walk(), len(bench.alarms)

    found, alarms = run(walking())
    assert (found.told, alarms) == ([("a", "failed", "malformed"), ("b", "answered", None)], 1)


def test_json_in_a_fence_is_given_out_bare() -> None:
    """Models put it into one however asked; who parses the answer has no use for it."""
    found = walked(stage("a", "ok:```json\n{}\n```"), response_schema={"type": "object"})
    assert (found.told, found.view.shown["text"]) == ([("a", "answered", None)], "{}")
    plain = walked(stage("a", "ok:```json\n{}\n```"))
    assert plain.view.shown["text"].startswith("```json")


def test_pieces_that_were_shown_end_the_walk() -> None:
    """Nobody can take them back, and another stage would begin anew."""
    seen: list[str] = []

    async def sink(text: str) -> None:
        seen.append(text)

    found = walked(stage("a", "status:500"), stage("b", "cut"), stage("c"), sink=sink)
    assert found.told == [("a", "failed", "server_error"), ("b", "failed", "cut_off")]
    assert [row["committed"] for row in found.attempts] == [False, True]
    assert (found.view.status, found.view.shown["text"], seen) == (Status.EXHAUSTED, None, ["half an answer"])


def test_the_callers_fault_stops_the_walk_until_the_stage_is_to_blame() -> None:
    """Different requests, one after the other, none answered: the last of them is the stage's own fault."""

    async def walking() -> list[Walked]:
        bench = Bench([stage("a", "status:400"), stage("b")])
        found = []
        for number in range(REFUSALS + 1):
            bench.submit(job=f"j{number}", messages=[{"role": "user", "content": f"Question {number}?"}])
            found.append(await bench.walk(job=f"j{number}"))
        assert [attempt.reason for _, attempt in bench.alarms] == ["bad_request"]
        return found

    found = run(walking())
    assert [walk.view.status for walk in found[: REFUSALS - 1]] == [Status.REFUSED] * (REFUSALS - 1)
    assert all(walk.asked == ["a"] for walk in found[: REFUSALS - 1]), "no call to the next stage"
    assert [walk.asked for walk in found[REFUSALS - 1 :]] == [["a", "b"]] * 2
    assert {walk.view.status for walk in found[REFUSALS - 1 :]} == {Status.ANSWERED}


@pytest.mark.parametrize(
    ("script", "alarms"),
    [("status:401", 1), ("status:402", 1), ("status:404:model 'm' not found", 1), ("status:500", 0), ("status:429", 0),
     ("empty", 0), ("status:400", 0)],
)  # fmt: skip
def test_what_will_not_get_better_by_itself_is_loud_once(script: str, alarms: int) -> None:
    """A wrong key at midnight is one line for whoever is on duty, not one for each document."""

    async def walking() -> int:
        bench = Bench([stage("a", script), stage("b")])
        for number in range(3):
            bench.submit(job=f"j{number}")
            await bench.walk(job=f"j{number}")
        return len(bench.alarms)

    assert run(walking()) == alarms


@pytest.mark.parametrize(
    ("left", "kept", "first_token", "probe", "own"),
    [
        (90.0, 0.0, None, False, False),
        (90.0, 40.0, None, False, False),
        (90.0, 61.0, None, False, True),
        (90.0, 40.0, 1.0, False, True),
        (10.0, 0.0, None, False, True),
        (10.0, 0.0, None, True, False),
    ],
)
def test_a_clock_that_the_deadline_shortened_is_not_the_stages_fault(
    left: float, kept: float, first_token: float | None, probe: bool, own: bool
) -> None:
    """A stage with 60 s that was given 10 has not failed: it would be switched off for the haste of others.

    But a dead host was asked for ever where a `reserve` shortened every call by a second: one that has said nothing for
    half of its time has failed, and so has one that was asked whether it is there again.
    """
    slow = stage("a", timeout=60.0)
    permit = Permit(
        Visit("j", "cloud", "w", "w@host"), "a", 0, 1, 1, left, kept, 0.0, ("a",), None, probe=probe
    )  # fmt: skip
    record = Attempt(n=1, of=1, stage="a", model="m", outcome=Outcome.CANCELLED)
    case = Judged(
        record, permit, Call(slow, Request([]), 100), Reply(first_token_s=first_token, fault=Fault(Kind.SPENT))
    )
    verdict, _ = _verdict(case, Scripted())
    assert verdict == Verdict(Reason.TIMEOUT, FaultClass.LOCAL if own else FaultClass.TRANSIENT)


def test_a_request_that_is_too_long_for_every_stage_is_refused() -> None:
    """No stage failed; waiting or asking again would not help."""
    found: Any = walked(stage("a", "status:413"), stage("b", "status:413"))
    assert found.told == [("a", "failed", "too_long"), ("b", "failed", "too_long")]
    assert found.view.status is Status.REFUSED


def test_blanks_are_not_shown_before_there_is_text() -> None:
    """They would have ended the walk at a host that begins with a line break and dies."""
    seen: list[str] = []

    async def sink(text: str) -> None:
        seen.append(text)

    class Blank(Scripted):
        async def stream(self, call: Call) -> AsyncIterator[Chunk]:
            call.sending()
            yield Piece("\n \n")
            if call.stage.name == "a":
                raise Fault(Kind.CUT)
            yield Piece(" Be")
            yield Piece("cause")
            yield End("stop")

    async def walking() -> Walked:
        bench = Bench([stage("a"), stage("b")], sink, Blank())
        bench.submit()
        return await bench.walk()

    found = run(walking())
    assert found.told == [("a", "failed", "cut_off"), ("b", "answered", None)]
    assert [row["committed"] for row in found.attempts] == [False, True]
    assert (seen, found.view.shown["text"]) == (["\n \n Be", "cause"], "\n \n Because")
