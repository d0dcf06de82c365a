"""What happens to one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from config.stages import Stage
from worker.failover import judge
from worker.failover.answer import Answer, Status, View
from worker.failover.attempt import Attempt, Outcome, Reason, Usage
from worker.failover.clocks import Reply, Sink, read
from worker.failover.deadline import allowed
from worker.failover.provider import Call, Kind, Provider
from worker.failover.request import Request
from worker.failover.state import Elsewhere, Over, Permit, State, Taken, Visit

End = View | Elsewhere | Taken
"""A job that ended, one that goes on elsewhere (handoff), or one that this delivery has nothing to do with."""

Log = Callable[[str, Attempt], None]


class Stop:
    """The caller's way into a running walk: it cancels the call under way, and no other one follows."""

    def __init__(self) -> None:
        self.asked = False
        self._call: asyncio.Task[Reply] | None = None

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
    """Everything a walk needs, chosen once per process by the runtime."""

    state: State
    stages: Mapping[str, Stage]
    providers: Mapping[str, Provider]
    parse: Callable[[Mapping[str, Any]], Request]
    log: Log
    sink: Callable[[str], Sink | None]

    async def walk(self, visit: Visit, stop: Stop) -> End:
        """Walk the job's plan from where its ledger stops, until an answer, the end of the plan or another lane.

        Always one admit and one settle around a call, and never a pause between two stages.
        """
        request: Request | None = None
        while True:
            match await self.state.admit(visit):
                case Over(view):
                    return view
                case Elsewhere() | Taken() as other:
                    return other
                case Permit() as permit:
                    visit = permit.visit
            if permit.request is not None:
                request = self.parse(permit.request)
            assert request is not None, "the first admit of a delivery brings the request"  # noqa: S101
            attempt, end, answer = await self._attempt(permit, request, stop)
            self.log(visit.job, attempt)
            settled = await self.state.settle(permit, attempt, end, answer)
            if settled is not None:
                return settled
            if end is not None:
                return Taken(known=True)  # the fence: another worker has the job

    async def _attempt(
        self, permit: Permit, request: Request, stop: Stop
    ) -> tuple[Attempt, Status | None, Answer | None]:
        stage = self.stages[permit.stage]
        tokens = min(request.max_output_tokens or stage.max_output_tokens, stage.max_output_tokens)
        call = Call(stage, request, tokens)
        budget = allowed(stage, permit.left_s, permit.kept_s)
        sink = self.sink(permit.visit.job)
        record = Attempt(
            n=permit.n, of=permit.of, stage=stage.name, model=stage.model, outcome=Outcome.CANCELLED,
            reason=Reason.CANCELLED, started_at=permit.started_at, worker=permit.visit.worker,
        )  # fmt: skip
        now = asyncio.get_running_loop().time
        began = now()
        reply = await stop.run(read(self.providers[stage.provider], call, budget, sink))
        if reply is None:
            spent = cost(stage, None, unsent=False)
            return replace(record, duration_s=now() - began, cost_usd=spent), Status.CANCELLED, None
        return _judged(record, reply, stage, shown=sink is not None, without_answer=_end(permit, stage, reply))


def _end(permit: Permit, stage: Stage, reply: Reply) -> Status | None:
    """How the job ends if this attempt brought no answer; None while the plan goes on."""
    if permit.place + 1 < len(permit.plan):
        return None
    late = reply.fault is not None and reply.fault.kind is Kind.SPENT and stage.timeout > permit.left_s
    return Status.EXPIRED if late else Status.EXHAUSTED


def _judged(
    record: Attempt, reply: Reply, stage: Stage, *, shown: bool, without_answer: Status | None
) -> tuple[Attempt, Status | None, Answer | None]:
    usage = reply.end.usage if reply.end else None
    record = replace(
        record,
        duration_s=reply.duration_s,
        first_token_s=reply.first_token_s,
        completed=reply.end is not None,
        committed=shown and bool(reply.text),
        usage=usage,
        cost_usd=cost(stage, usage, unsent=reply.fault is not None and reply.fault.kind in {"connect", "status"}),
        status=reply.fault.status if reply.fault else 200,
        retry_after_s=reply.fault.retry_after_s if reply.fault else None,
    )
    verdict = judge.of_fault(reply.fault) if reply.fault else judge.of_reply(reply.text, reply.end)
    if verdict is None and reply.end is not None:
        cut = judge.is_cut_short(reply.end)
        answer = Answer(reply.text, stage.name, "length" if cut else "stop", cut, usage)
        return replace(record, outcome=Outcome.ANSWERED, reason=None), Status.ANSWERED, answer
    assert verdict is not None  # noqa: S101 - an end without a verdict is an answer
    record = replace(record, outcome=Outcome.FAILED, reason=verdict.reason)
    if verdict.stops:
        return record, Status.REFUSED, None
    return record, without_answer, None


def cost(stage: Stage, usage: Usage | None, *, unsent: bool) -> float | None:
    """USD of one attempt: 0 in the house and for what was turned away, None where it is not known."""
    if stage.local or unsent:
        return 0.0
    if usage is None or stage.price is None:
        return None
    return (usage.input_tokens * stage.price.input + usage.output_tokens * stage.price.output) / 1_000_000
