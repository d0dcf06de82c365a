"""A state that is away for a while costs time, and nothing else."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest
from redis.exceptions import BusyLoadingError as Loading
from redis.exceptions import ConnectionError as Away
from redis.exceptions import OutOfMemoryError as Full
from redis.exceptions import ReadOnlyError as ReadOnly
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as Timeout

from config.stages import Stage
from tests.virtual_time import run
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt
from worker.failover.chain import Engine, Stop
from worker.failover.request import Request
from worker.failover.state import GOES_ON, Admission, Permit, Settled, Settlement, Visit
from worker.prices import cost
from worker.providers.scripted import Scripted
from worker.state.memory import Memory
from worker.state.patient import Patient, patiently

T = TypeVar("T")
STAGES = {
    "a": Stage("a", "scripted", params={"script": ["status:500"]}, local=True),
    "b": Stage("b", "scripted", params={"script": ["ok:Because.:5"]}, local=True),
}


REFUSED = Away("refused")


class Flaky:
    """A state in front of another: away between two moments, or losing every other reply."""

    def __init__(
        self, inner: Memory, away: tuple[float, float], fault: Exception = REFUSED, *, loses: bool = False
    ) -> None:
        self.inner, self.away, self.fault, self.loses = inner, away, fault, loses
        self.asked = 0

    async def admit(self, visit: Visit) -> Admission:
        self._reach()
        return self._reply(await self.inner.admit(visit))

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        self._reach()
        return self._reply(await self.inner.settle(permit, attempt, settlement))

    def _reach(self) -> None:
        self.asked += 1
        if self.away[0] <= asyncio.get_running_loop().time() < self.away[1]:
            raise self.fault

    def _reply(self, found: T) -> T:
        if self.loses and self.asked % 2:
            raise Away("cut")
        return found


def walked(
    wait_s: float, away: tuple[float, float] = (0, 0), fault: Exception = REFUSED, *, loses: bool = False
) -> tuple[View, float, int]:
    """A walk whose first stage fails and whose second takes 5 s: its end, its seconds, its calls."""

    async def walking() -> tuple[View, float, int]:
        now = asyncio.get_running_loop().time
        memory, scripted = Memory(STAGES, now), Scripted()
        memory.submit("j", {"messages": []}, ("a", "b"), "cloud", 90)
        memory.workers.add("w")
        state = Patient(Flaky(memory, away, fault, loses=loses), wait_s=wait_s)
        engine = Engine(
            state, STAGES, {"scripted": scripted}, lambda fields: Request(**fields), lambda *_: None, lambda *_: None,
            lambda _: None, cost,
        )  # fmt: skip
        end = await engine.walk(Visit("j", "cloud", "w", "w@host"), Stop())
        assert isinstance(end, View)
        return end, now(), len(scripted.calls)

    return run(walking())


@pytest.mark.parametrize("away", [(0, 3), (4, 7)])
def test_an_answer_waits_for_the_state_to_come_back(away: tuple[float, float]) -> None:
    """Before the first call, and after one that was paid for."""
    view, seconds, calls = walked(60, away)
    assert (view.status, view.shown["text"], calls) == (Status.ANSWERED, "Because. ", 2)
    assert seconds == pytest.approx(8 if away == (0, 3) else 7, abs=0.3)


def test_every_reply_may_be_lost_once() -> None:
    """Each step is asked for twice then, and is one step: no call is made twice, no row is too many."""
    view, seconds, calls = walked(60, loses=True)
    assert (view.status, calls) == (Status.ANSWERED, 2)
    assert [(row["n"], row["stage"], row["outcome"]) for row in view.shown["attempts"]] == [
        (1, "a", "failed"),
        (2, "b", "answered"),
    ]
    assert seconds == pytest.approx(5, abs=1.5)


@pytest.mark.parametrize(
    "fault",
    [Away("refused"), Timeout("slow"), Loading("loading"), ReadOnly("a replica"), Full("maxmemory"), OSError("reset"),
     ResponseError("MISCONF Redis is configured to save RDB snapshots, but")],
)  # fmt: skip
def test_an_answer_waits_for_as_long_as_the_state_is_away(fault: Exception) -> None:
    """It is paid for: an hour is nothing that a worker gives it up for. The deadline has passed meanwhile."""
    view, seconds, calls = walked(2, (4, 3600), fault=fault)
    assert (view.status, view.shown["text"], calls) == (Status.ANSWERED, "Because. ", 2)
    assert seconds == pytest.approx(3600, abs=0.3)


def test_a_state_that_refuses_a_step_is_told_as_what_it_is() -> None:
    """Whoever runs the worker sees the fault itself, after the time that was set."""
    with pytest.raises(ResponseError, match="unknown command"):
        walked(2, (0, 1000), fault=ResponseError("unknown command"))


def test_a_state_that_is_away_between_two_refusals_is_given_its_time_anew() -> None:
    """A step that was refused before an outage is asked again for the whole of the time after it."""
    faults = iter([ResponseError("ERR 1"), Away("refused"), ResponseError("ERR 2")])

    async def asked() -> float:
        now = asyncio.get_running_loop().time

        async def ask() -> float:
            for fault in faults:
                raise fault
            return now()

        return await patiently(ask, wait_s=0)

    assert run(asked()) == pytest.approx(0.75, abs=0.1)
