"""A plan of scripted stages, a state in memory, and a clock that jumps: one walk and all that is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.stages import Price, Stage
from tests.virtual_time import run
from worker.failover.answer import View
from worker.failover.attempt import Attempt
from worker.failover.chain import End, Engine, Stop
from worker.failover.clocks import Sink
from worker.failover.provider import Call, Provider
from worker.failover.request import Request
from worker.failover.state import Over, Visit
from worker.prices import cost
from worker.providers.scripted import Scripted
from worker.state.memory import Memory

EPOCH = 1_700_000_000.0
PRICE = Price(input=2.0, output=8.0)
NOT_THE_CALLS = {"local_only", "images"}
QUESTION = {"messages": [{"role": "user", "content": "Why?"}]}


def stage(name: str, *script: str, **fields: Any) -> Stage:
    """A stage that plays this script, one word a call."""
    return Stage(name, "scripted", model=f"model-{name}", params={"script": list(script) or ["ok"]}, **fields)


@dataclass(frozen=True, slots=True)
class Walked:
    """One walk that is over; `seconds` by the clock that jumps."""

    end: End
    calls: list[Call]
    logged: list[Attempt]
    seconds: float

    @property
    def view(self) -> View:
        if isinstance(self.end, Over):
            return self.end.view
        assert isinstance(self.end, View), self.end
        return self.end

    @property
    def asked(self) -> list[str]:
        """The stages that were called, in order."""
        return [call.stage.name for call in self.calls]

    @property
    def attempts(self) -> list[Mapping[str, Any]]:
        return list(self.view.shown["attempts"])

    @property
    def told(self) -> list[tuple[str, str, str | None]]:
        """Stage, outcome and reason of each attempt."""
        return [(row["stage"], row["outcome"], row["reason"]) for row in self.attempts]


class Bench:
    """Everything that several walks share. Made and used on the running loop."""

    def __init__(self, stages: Sequence[Stage], sink: Sink | None = None, provider: Provider | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.stages = {stage.name: stage for stage in stages}
        self.scripted = Scripted()
        self.memory = Memory(self.stages, lambda: EPOCH + loop.time())
        self.logged: list[tuple[str, Attempt]] = []
        self.alarms: list[tuple[str, Attempt]] = []
        self.engine = Engine(
            self.memory,
            self.stages,
            {"scripted": provider or self.scripted},
            lambda fields: Request(**{key: value for key, value in fields.items() if key not in NOT_THE_CALLS}),
            lambda job, attempt: self.logged.append((job, attempt)),
            lambda job, attempt: self.alarms.append((job, attempt)),
            lambda _job: sink,
            cost,
        )

    def submit(self, *plan: str, deadline: float = 90.0, job: str = "j", **fields: Any) -> None:
        """A job whose plan is all stages where none is named."""
        names = plan or tuple(self.stages)
        self.memory.submit(job, {**QUESTION, **fields}, names, "cloud", deadline)

    async def walk(self, *, lane: str = "cloud", owner: str = "w1", stop: Stop | None = None, job: str = "j") -> Walked:
        """One delivery; the owner lives from then on."""
        began, calls, logged = self.now(), len(self.scripted.calls), len(self.logged)
        walk = self.engine.walk(Visit(job, lane, owner, f"{owner}@host"), stop or Stop())
        self.memory.workers.add(owner)
        end = await walk
        attempts = [attempt for _, attempt in self.logged[logged:]]
        return Walked(end, self.scripted.calls[calls:], attempts, self.now() - began)


def walked(*stages: Stage, sink: Sink | None = None, deadline: float = 90.0, **fields: Any) -> Walked:
    """One walk along all of these stages."""

    async def walking() -> Walked:
        bench = Bench(stages, sink)
        bench.submit(deadline=deadline, **fields)
        return await bench.walk()

    return run(walking())


def at(seconds: float, do: Callable[[], object]) -> None:
    """Do it so many seconds from now."""
    asyncio.get_running_loop().call_later(seconds, do)
