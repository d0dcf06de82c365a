"""The caller's cancel ends the call under way, and never leads to another stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.virtual_time import run
from tests.worker.failover.walks import Bench, Walked, at, stage
from worker.failover.answer import Status
from worker.failover.chain import Stop
from worker.failover.clocks import Reply
from worker.failover.provider import Call, End, Piece

CLOUD_THEN_HOME = (stage("a", "status:500"), stage("b", "hang"), stage("c"))


def cancelled_after(seconds: float) -> tuple[Walked, Bench]:
    async def walking() -> tuple[Walked, Bench]:
        bench, stop = Bench(CLOUD_THEN_HOME), Stop()
        bench.submit()
        at(seconds, stop.ask)
        return await bench.walk(stop=stop), bench

    return run(walking())


def test_a_cancel_during_a_call_ends_the_job_then_and_there() -> None:
    """The attempt is written down as cancelled; the stage that would come next is not asked."""
    found, bench = cancelled_after(3)
    assert (found.view.status, found.asked, found.seconds) == (Status.CANCELLED, ["a", "b"], 3)
    assert found.told == [("a", "failed", "server_error"), ("b", "cancelled", "cancelled")]
    assert found.attempts[1]["duration_s"] == 3
    assert bench.logged[-1][1].outcome == "cancelled"


def test_a_cancel_before_the_first_call_lets_nobody_be_asked() -> None:
    """It came after the worker had taken the job, and before it had sent anything."""

    async def walking() -> Walked:
        bench, stop = Bench(CLOUD_THEN_HOME), Stop()
        bench.submit()
        stop.ask()
        return await bench.walk(stop=stop)

    found = run(walking())
    assert (found.view.status, found.asked) == (Status.CANCELLED, [])
    assert found.told == [("a", "cancelled", "cancelled")]


def test_a_waiting_job_that_was_cancelled_never_starts() -> None:
    """The record says so; its message is still in the queue."""

    async def walking() -> Walked:
        bench = Bench(CLOUD_THEN_HOME)
        bench.submit()
        bench.memory.cancel("j")
        return await bench.walk()

    found = run(walking())
    assert (found.view.status, found.asked, found.attempts) == (Status.CANCELLED, [], [])


def test_a_cancel_between_two_stages_is_seen_before_the_next_one() -> None:
    """It is in the record by then, and no call is under way that could be stopped."""

    async def walking() -> Walked:
        bench = Bench([stage("a", "hang", timeout=2), stage("b")])
        bench.submit()
        at(2, lambda: bench.memory.cancel("j"))
        return await bench.walk()

    found = run(walking())
    assert (found.view.status, found.asked) == (Status.CANCELLED, ["a"])
    assert found.told == [("a", "failed", "timeout")]


def test_a_cancel_that_comes_after_the_answer_changes_nothing() -> None:
    """One place decides, and it has."""

    async def walking() -> tuple[Walked, Walked]:
        bench, stop = Bench([stage("a")]), Stop()
        bench.submit()
        first = await bench.walk(stop=stop)
        stop.ask()
        bench.memory.cancel("j")
        bench.memory.workers.discard("w1")
        return first, await bench.walk(owner="w2")

    first, again = run(walking())
    assert first.view.status is Status.ANSWERED
    assert again.view.shown == first.view.shown


class Tidy:
    """A provider whose clean-up takes a second, and is told when it is whole."""

    def __init__(self) -> None:
        self.tidied = False

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        call.sending()
        try:
            yield Piece("half an ")
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            self.tidied = True


def test_a_second_cancel_does_not_break_into_the_clean_up_of_the_first() -> None:
    """A worker asks again at each heartbeat; the connection was left half closed then."""

    async def walking() -> tuple[Walked, bool]:
        provider, stop = Tidy(), Stop()
        bench = Bench([stage("a")], provider=provider)
        bench.submit()
        for seconds in (3, 3.5, 3.9):
            at(seconds, stop.ask)
        return await bench.walk(stop=stop), provider.tidied

    found, tidied = run(walking())
    assert (found.view.status, found.seconds, tidied) == (Status.CANCELLED, 4, True)


def test_a_worker_that_stops_is_no_caller_that_cancels() -> None:
    """The walk's own task was cancelled: the job stays as it is, for the next worker."""

    async def walking() -> tuple[str, list[str]]:
        bench = Bench(CLOUD_THEN_HOME)
        bench.submit()
        walk = asyncio.ensure_future(bench.walk())
        at(3, walk.cancel)
        with pytest.raises(asyncio.CancelledError):
            await walk
        return bench.memory.records["j"]["status"], [call.stage.name for call in bench.scripted.calls]

    assert run(walking()) == ("running", ["a", "b"])


def test_a_call_that_ends_in_the_moment_of_the_cancel_keeps_its_reply() -> None:
    """It was paid for; the cancel finds nothing under way."""

    async def stopping() -> Reply | None:
        stop, done = Stop(), asyncio.Event()

        async def call() -> Reply:
            await done.wait()
            return Reply("Because.")

        running = asyncio.ensure_future(stop.run(call()))
        await asyncio.sleep(0)
        done.set()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(stop.ask)
        return await running

    reply = run(stopping())
    assert reply is not None
    assert reply.text == "Because."
