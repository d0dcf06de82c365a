"""What happens to one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from config.stages import Stage
from worker.failover.answer import Status, View
from worker.failover.attempt import Attempt, Outcome, Reason
from worker.failover.clocks import Reply, Sink, read
from worker.failover.deadline import allowed
from worker.failover.outcome import Judged, Pricing, judged
from worker.failover.provider import Call, Provider
from worker.failover.request import Request
from worker.failover.state import Elsewhere, Follows, Lesson, Over, Parked, Permit, Settlement, State, Taken, Visit

End = View | Over | Elsewhere | Parked | Follows | Taken
"""A job that ended now or before, one that goes on elsewhere (handoff) or later, or one that this delivery has nothing
to do with.
"""

Log = Callable[[str, Attempt], None]


class Stop:
    """The caller's way into a running walk: it cancels the call under way, and no other one follows."""

    def __init__(self) -> None:
        self.asked = False
        self.begun: Future[None] = Future()
        """Done once the job is this walk's; any thread may wait for it."""
        self._call: asyncio.Task[Reply] | None = None

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

    async def walk(self, visit: Visit, stop: Stop) -> End:
        """Walk the job's plan from where its ledger stops, until an answer, its end, or another lane or time.

        Always one admit and one settle around a call, and never a pause between two stages.
        """
        request: Request | None = None
        dropped: set[tuple[str, str]] = set()
        while True:
            match await self.state.admit(visit):
                case Over(view, told=False):
                    return view
                case Over() | Elsewhere() | Parked() | Follows() | Taken() as other:
                    return other
                case Permit() as permit:
                    visit = permit.visit
                    stop.begin()
            if permit.request is not None:
                request = self.parse(permit.request)
            assert request is not None, "the first admit of a delivery brings the request"  # noqa: S101
            # Others may have forgotten what this walk has learned: it would never end.
            known = permit.dropped | {field for stage, field in dropped if stage == permit.stage}
            attempt, settlement = await self._attempt(replace(permit, dropped=known), request, stop)
            dropped.add((permit.stage, settlement.lesson.dropped))
            self.log(visit.job, attempt)
            settled = await self.state.settle(permit, attempt, settlement)
            if settled.alarm:
                self.alarm(visit.job, attempt)
            if settled.view is not None:
                return Over(settled.view, told=True) if settled.told else settled.view
            if settled.fenced or settled.gone:
                return Taken(known=not settled.gone)

    async def _attempt(self, permit: Permit, request: Request, stop: Stop) -> tuple[Attempt, Settlement]:
        stage = self.stages[permit.stage]
        provider = self.providers[stage.provider]
        tokens = min(request.max_output_tokens or stage.max_output_tokens, stage.max_output_tokens)
        call = Call(stage, request, tokens, permit.dropped)
        budget = allowed(stage, permit.left_s, permit.kept_s)
        sink = self.sink(permit.visit.job)
        record = Attempt(
            n=permit.n, of=permit.of, stage=stage.name, model=stage.model, outcome=Outcome.CANCELLED,
            reason=Reason.CANCELLED, started_at=permit.started_at, worker=permit.visit.worker,
        )  # fmt: skip
        now = asyncio.get_running_loop().time
        began = now()
        reply = await stop.run(read(provider, call, budget, sink))
        if reply is None:
            spent = self.price(stage, None, unbilled=False)
            settlement = Settlement(Status.CANCELLED, lesson=Lesson(usd=spent))
            return replace(record, duration_s=now() - began, cost_usd=spent), settlement
        record = replace(record, committed=reply.shown)
        return judged(Judged(record, permit, call, reply), provider, self.price)
