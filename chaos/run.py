"""One run: the house is built, hurt and asked, left in peace, audited, and taken down."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.audit import audit
from chaos.callers import Callers
from chaos.crew import Crew
from chaos.evidence import Evidence
from chaos.faults import Faults
from chaos.report import Run
from chaos.schedule import CALLERS, Ask, Fault
from chaos.watch import Watch, leftovers, settled
from chaos.yard import Yard, yard

_QUIET_S = 90.0
"""What may be left over for so long after the last end: what the dead held, which kombu restores by tens."""

_SLACK_S = 20.0
"""What an end may come after its deadline."""

_LOOKS_S, _TELLS_S = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made of: its schedule, its jobs, the names of its workers, and the jobs' deadline in seconds."""

    seed: int
    faults: Sequence[Fault]
    asks: Sequence[Ask]
    names: Sequence[str]
    seconds: float
    deadline_s: float


def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> Run:
    """Do it; everything started here has ended when it returns or raises."""
    with ExitStack() as stack:
        house = stack.enter_context(yard(folder, plan.names))
        crew = Crew(house, list(plan.names))
        watch = Watch(house)
        with _ended(crew, watch):
            crew.start()
            began = time.time()
            faults = _hurt(plan, house, crew, watch, say)
            say(f"{time.time() - began:6.1f} s  quiet: waiting for the ends")
            _await_ends(plan, watch, lambda count: say(f"{time.time() - began:6.1f} s  {count} jobs are open"))
            left = settled(house, _QUIET_S) if not watch.open() else leftovers(house)
            watch.look()
            jobs = watch.found()
        say(f"{time.time() - began:6.1f} s  over")
        evidence = Evidence(jobs, house.calls(), tuple(faults.done), tuple(left), tuple(crew.exits), tuple(crew.stuck))
        logs = {name: member.worker.logs() for name, member in crew.members.items()}
        return Run(plan.seed, began, time.time() - began, evidence, audit(evidence, began), tuple(faults.missed), logs)


@contextmanager
def _ended(crew: Crew, watch: Watch) -> Iterator[None]:
    """Whatever happens, no worker is left."""
    try:
        yield
    finally:
        watch.stop()
        crew.stop()


def _hurt(plan: Plan, house: Yard, crew: Crew, watch: Watch, say: Callable[[str], None]) -> Faults:
    """Do the faults and submit the jobs, side by side, until both are over."""
    over = threading.Event()
    faults = Faults(house, crew, over, say)
    callers = Callers(house.url(CALLERS), house.house.environ, house.house.folder, plan.deadline_s)
    began = time.monotonic()
    with ThreadPoolExecutor(1, "faults") as side:
        hurting = side.submit(faults.run, plan.faults, began)
        try:
            asyncio.run(_asked(callers, plan.asks, began, watch))
        except BaseException:
            over.set()  # interrupted: the faults end too, and are undone
            raise
    hurting.result()
    return faults


async def _asked(callers: Callers, asks: Sequence[Ask], began: float, watch: Watch) -> None:
    asking = asyncio.create_task(callers.run(asks, began))
    await asyncio.sleep(0)
    watch.jobs = callers.submitted
    watch.start()
    await asking


def _await_ends(plan: Plan, watch: Watch, tell: Callable[[int], None]) -> None:
    now = time.monotonic()
    end, told = now + plan.deadline_s + _SLACK_S, now
    while (left := watch.open()) and (now := time.monotonic()) < end:
        if now - told > _TELLS_S:
            tell(len(left))
            told = now
        time.sleep(_LOOKS_S)
