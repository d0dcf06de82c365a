"""What happens to one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from config.stages import Stage
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.clocks import Reply, Sink, read
from worker.failover.deadline import allowed
from worker.failover.outcome import Judged, Pricing, judged
from worker.failover.provider import Call, Provider
from worker.failover.request import Request
from worker.failover.state import (
    Admission,
    Displaced,
    Elsewhere,
    Follows,
    Lesson,
    Over,
    Parked,
    Permit,
    Settlement,
    State,
    Taken,
    Visit,
)
from worker.failover.turns import AtOnce, Turns

End = View | Over | Elsewhere | Parked | Follows | Taken
"""A job that ended now or before, one that goes on elsewhere (handoff) or later, or one that this delivery has nothing
to do with.
"""

Log = Callable[[str, Attempt], None]

UNASKED = Lesson(reached=False, tokens=0, usd=0.0)
"""No host has heard of it, and nothing was taken."""

TOO_LATE = Settlement(last=Status.EXPIRED, lesson=UNASKED)
"""Its turn did not come in time: another stage may have kept time for itself."""


class Stop:
    """The caller's way into a running walk: it cancels the call under way, and no other one follows."""

    def __init__(self) -> None:
        self.asked = False
        self.claimed: Future[None] = Future()
        """Done once the job is this walk's."""
        self.begun: Future[None] = Future()
        """Done once its first call is made; any thread may wait for it."""
        self._call: asyncio.Task[Reply] | None = None

    def claim(self) -> None:
        if not self.claimed.done():
            self.claimed.set_result(None)

    def begin(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def ask(self) -> None:
        """Cancel; from the walk's own event loop only. Once: a second one would break into the call's clean-up."""
        if self._call is not None and not self.asked:
            self._call.cancel()
        self.asked = True

    async def run(self, call: Coroutine[Any, Any, Reply]) -> Reply | None:
        """The call's reply, or None if the caller cancelled it before."""
        self._call = asyncio.ensure_future(call)
        try:
            if self.asked:
                self._call.cancel()
            return await self._call
        except asyncio.CancelledError:
            if self.asked and self._call.cancelled():
                return None
            self._call.cancel()
            raise
        finally:
            self._call = None


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything a walk needs, chosen once per process by the runtime. `alarm` hears once of what a person should."""

    state: State
    stages: Mapping[str, Stage]
    providers: Mapping[str, Provider]
    parse: Callable[[Mapping[str, Any]], Request]
    log: Log
    alarm: Log
    sink: Callable[[str], Sink | None]
    price: Pricing
    turns: Turns = field(default_factory=AtOnce)

    async def walk(self, visit: Visit, stop: Stop) -> End | Displaced:
        """Walk the job's plan from where its ledger stops, until an answer, its end, or another lane or time.

        Always one admit and one settle around a call, and never a pause between two stages.
        """
        request: Request | None = None
        dropped: set[tuple[str, str]] = set()
        while True:
            match await self._admitted(visit):
                case Over(view, told=False):
                    return view
                case Over() | Elsewhere() | Parked() | Follows() | Taken() | Displaced() as other:
                    return other
                case Permit() as permit:
                    visit = permit.visit
                    stop.claim()
            if permit.request is not None:
                request = self.parse(permit.request)
            assert request is not None, "the first admit of a delivery brings the request"  # noqa: S101
            # Others may have forgotten what this walk has learned: it would never end.
            known = permit.dropped | {field for stage, field in dropped if stage == permit.stage}
            made = await self._attempt(replace(permit, dropped=known), request, stop)
            if made is None:
                continue
            attempt, settlement = made
            dropped.add((permit.stage, settlement.lesson.dropped))
            self.log(visit.job, attempt)
            settled = await self.state.settle(permit, attempt, settlement)
            self.turns.settled(visit.job)
            if settled.alarm:
                self.alarm(visit.job, attempt)
            if settled.view is not None:
                return Over(settled.view, told=True) if settled.told else settled.view
            if settled.fenced or settled.gone:
                return Taken(known=not settled.gone)

    async def _admitted(self, visit: Visit) -> Admission:
        admission = await self.state.admit(visit)
        if not isinstance(admission, Permit):
            self.turns.settled(visit.job)  # a turn that was kept for it is the next one's
        return admission

    async def _attempt(self, permit: Permit, request: Request, stop: Stop) -> tuple[Attempt, Settlement] | None:
        """What came of one permit; None where it is to be asked for anew."""
        stage = self.stages[permit.stage]
        tokens = min(request.max_output_tokens or stage.max_output_tokens, stage.max_output_tokens)
        call = Call(stage, request, tokens, permit.dropped)
        now = asyncio.get_running_loop().time
        turn = _Turn(permit, now())
        reply = await stop.run(self._called(call, turn, stop))
        if reply is not None and reply.anew:
            return None
        permit = turn.permit if turn.came else replace(permit, started_at=permit.started_at + now() - turn.began)
        record = Attempt(
            n=permit.n, of=permit.of, stage=stage.name, model=stage.model, outcome=Outcome.CANCELLED,
            reason=Reason.CANCELLED, started_at=permit.started_at, worker=permit.visit.worker,
        )  # fmt: skip
        if reply is None and not turn.came:
            return replace(record, cost_usd=0.0), Settlement(Status.CANCELLED, lesson=UNASKED)
        if reply is None:
            spent = self.price(stage, None, unbilled=False)
            settlement = Settlement(Status.CANCELLED, lesson=Lesson(usd=spent))
            return replace(record, duration_s=now() - turn.began, cost_usd=spent), settlement
        if not reply.asked:
            return replace(record, outcome=Outcome.SKIPPED, reason=Reason.DEADLINE, cost_usd=0.0), TOO_LATE
        record = replace(record, committed=reply.shown)
        return judged(Judged(record, permit, call, reply), self.providers[stage.provider], self.price)

    def _called(self, call: Call, turn: _Turn, stop: Stop) -> Coroutine[Any, Any, Reply]:
        """The call, made when its turn comes; its clocks start then."""
        sink, stage = self.sink(turn.permit.visit.job), call.stage

        def ask(waited: float, cold: bool) -> Coroutine[Any, Any, Reply]:  # noqa: FBT001 - an Ask's own
            turn.come(waited)
            stop.begin()
            left, kept = turn.permit.left_s, turn.permit.kept_s
            budget = left - kept if cold else allowed(stage, left, kept)
            return read(self.providers[stage.provider], replace(call, cold=cold), budget, sink)

        return self.turns.call(turn.permit.visit.job, stage, turn.permit.left_s - turn.permit.kept_s, ask)


@dataclass(slots=True)
class _Turn:
    """A permit, as it stands once the turn of its call has come. `began` by the event loop's clock."""

    permit: Permit
    began: float
    came: bool = False

    def come(self, waited: float) -> None:
        self.came, self.began = True, self.began + waited
        permit = self.permit
        self.permit = replace(permit, left_s=permit.left_s - waited, started_at=permit.started_at + waited)
