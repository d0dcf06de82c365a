"""A call that may have to load its model first has a clock for that, and its own time afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from config.limits import Breaker
from config.stages import Stage
from tests.virtual_time import run
from tests.worker.failover.test_clocks import Played
from worker.failover.answer import Status
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.clocks import Reply, read
from worker.failover.outcome import Judged, judged
from worker.failover.provider import Call, End, Fault, Kind, Piece
from worker.failover.request import Request
from worker.failover.state import Permit, Visit
from worker.providers.scripted import Scripted

STAGE = Stage("a", "ollama", timeout=20, first_token_timeout=5, idle_timeout=4, cold_load_timeout=60)


def heard(
    *steps: float | Piece | End, budget: float = 1000, cold: bool = True, provider: Played | None = None
) -> Reply:
    """What came of a call for which the job has so much time."""
    call = Call(STAGE, Request([]), 100, cold=cold)
    return run(read(provider or Played(*steps), call, budget))


def struck(reply: Reply) -> tuple[Kind | None, float]:
    return reply.fault and reply.fault.kind, reply.duration_s


SLOWLY = [step for _ in range(100) for step in (3.0, Piece("."))]


def test_a_load_has_a_clock_of_its_own() -> None:
    """A call that is abandoned while the model loads throws the load away, and so the next one waits as long."""
    found = heard(55, Piece("Because."), 3, End("stop"))
    assert (found.text, found.fault, found.first_token_s, found.duration_s) == ("Because.", None, 55, 58)
    assert struck(heard(55, Piece("Because."), End("stop"), cold=False)) == (Kind.FIRST_TOKEN, 5)


def test_a_load_that_takes_too_long_is_a_first_token_that_does() -> None:
    """And counts as that: the host does not come to it."""
    assert struck(heard(61, Piece("Because."), End("stop"))) == (Kind.FIRST_TOKEN, 60)


def test_the_attempts_time_starts_with_the_first_token() -> None:
    """Thinking is a first token too; blanks are none."""
    assert struck(heard(55, *SLOWLY)) == (Kind.SPENT, 55 + 3 + 20)
    assert struck(heard(50, Piece("Hm.", thought=True), *SLOWLY)) == (Kind.SPENT, 50 + 20)
    assert struck(heard(50, Piece(" \n"), 11, Piece("Because."))) == (Kind.FIRST_TOKEN, 60)
    assert struck(heard(*SLOWLY, cold=False, budget=20)) == (Kind.SPENT, 20)


def test_it_starts_once() -> None:
    """Else a host that speaks slowly would never meet it; the idle clock runs as ever."""
    assert struck(heard(1, *SLOWLY)) == (Kind.SPENT, 4 + 20)
    assert struck(heard(55, Piece("Be"), 4.5, Piece("cause."))) == (Kind.IDLE, 59)


@pytest.mark.parametrize("steps", [(1000, Piece("Late.")), (55, *SLOWLY)])
def test_nothing_goes_beyond_the_jobs_own_time(steps: tuple[float | Piece, ...]) -> None:
    """Whoever waits for the answer waits no longer, however cold the host is."""
    assert struck(heard(*steps, budget=58)) == (Kind.SPENT, 58)


def test_the_clock_of_a_load_starts_with_the_connection_too() -> None:
    """As that of the first token does."""

    class Slow(Played):
        async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
            await asyncio.sleep(7)
            async for chunk in super().stream(call):
                yield chunk

    found = heard(provider=Slow(59, Piece("Because."), End("stop")))
    assert (found.text, found.duration_s) == ("Because.", 66)


@pytest.mark.parametrize(
    ("left", "first_token", "probe", "own", "late"),
    [
        (100.0, None, False, False, False),
        (59.0, None, False, False, True),
        (40.0, None, False, False, True),
        (29.0, None, False, True, True),
        (29.0, None, True, False, True),
        (76.0, 57.0, False, True, True),
        (78.0, 57.0, False, False, False),
    ],
)
def test_a_load_that_the_deadline_cut_short_is_not_the_stages_fault(
    left: float, first_token: float | None, probe: bool, own: bool, late: bool
) -> None:
    """A model that comes in 50 s is no outage where a job had 29: that would switch off a host that is just loading.

    What counts is the clock that the call would have had: the load's, and after it the attempt's. And a job whose last
    stage had to end for its deadline has expired.
    """
    permit = Permit(Visit("j", "ollama", "w", "w@host"), "a", 0, 1, 1, left, 0.0, 0.0, ("a",), None, probe=probe)
    reply = Reply(first_token_s=first_token, duration_s=left, fault=Fault(Kind.SPENT))
    record = Attempt(n=1, of=1, stage="a", model="m", outcome=Outcome.CANCELLED)
    case = Judged(record, permit, Call(STAGE, Request([]), 100, cold=True), reply)
    attempt, settlement = judged(case, Scripted(), lambda *_, **__: 0.0)
    assert (attempt.reason, settlement.lesson.failed) == (Reason.TIMEOUT, not own)
    assert settlement.last is (Status.EXPIRED if late else Status.EXHAUSTED)


@pytest.mark.parametrize(("cold", "slow"), [(True, False), (False, True)])
def test_a_load_is_no_slow_call(cold: bool, slow: bool) -> None:
    """Five loads in a row would open the breaker of a host that answers."""
    of = replace(STAGE, breaker=Breaker(slow_call=15))
    permit = Permit(Visit("j", "ollama", "w", "w@host"), "a", 0, 1, 1, 900, 0.0, 0.0, ("a",), None)
    reply = Reply("Because.", End("stop"), first_token_s=55, duration_s=60)
    record = Attempt(n=1, of=1, stage="a", model="m", outcome=Outcome.CANCELLED)
    call = Call(of, Request([]), 100, cold=cold)
    _, settlement = judged(Judged(record, permit, call, reply), Scripted(), lambda *_, **__: 0.0)
    assert (settlement.lesson.worked, settlement.lesson.failed) == (True, slow)
