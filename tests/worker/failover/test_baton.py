"""One call after the other on a lane: who is next, when, and what becomes of those whose turn does not come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace

import pytest

from config.limits import Breaker
from config.stages import Stage
from tests.virtual_time import run
from tests.worker.failover.walks import Bench, Walked, at, stage
from worker.failover.baton import SETTLES_S, Baton
from worker.failover.chain import Engine, Stop
from worker.failover.clocks import Reply
from worker.failover.provider import End, Fault, Kind
from worker.failover.turns import AGAIN, NOT_ASKED

STAGE = Stage("local", "ollama", timeout=20, cool_off=2, cold_load_timeout=30)
WHOLE = Reply(text="ok", end=End("stop"))
FAILURE = Reply(fault=Fault(Kind.STATUS, status=500))


@dataclass
class Lease:
    """Certain while `ours` is set."""

    fence: int = 7
    ours: asyncio.Event = field(default_factory=asyncio.Event)
    lengthened: list[str] = field(default_factory=list)

    async def confirmed(self) -> bool:
        waits = not self.ours.is_set()
        await self.ours.wait()
        return waits

    async def lengthen(self) -> None:
        self.lengthened.append("long")

    def shorten(self) -> None:
        self.lengthened.append("short")


@dataclass
class Host:
    """What is known of its models."""

    cold: bool = False
    warmed: list[str] = field(default_factory=list)

    async def is_cold(self, _: Stage) -> bool:
        return self.cold

    def answered(self, stage: Stage) -> None:
        self.warmed.append(stage.name)

    def unsure(self) -> None:
        self.warmed.append("unsure")


class Asked:
    """A baton, and the spans of the calls that were made, by the loop's clock."""

    def __init__(self, *, ours: bool = True, cold: bool = False) -> None:
        self.lease, self.host = Lease(), Host(cold)
        if ours:
            self.lease.ours.set()
        self.baton = Baton(self.lease, self.host, cool_off=4)
        self.spans: list[tuple[str, float, float]] = []
        self.heard: list[tuple[float, bool]] = []

    async def call(self, job: str, seconds: float = 1, within: float = 90, reply: Reply = WHOLE) -> Reply:
        def ask(waited: float, cold: bool) -> Coroutine[object, object, Reply]:
            self.heard.append((waited, cold))
            return self._call(job, seconds, reply)

        return await self.baton.call(job, STAGE, within, ask)

    async def _call(self, job: str, seconds: float, reply: Reply) -> Reply:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.spans.append((job, began, now()))
        return reply


def test_one_after_the_other_in_the_order_in_which_they_came() -> None:
    async def calls() -> Asked:
        asked = Asked()
        await asyncio.gather(*(asked.call(name) for name in "abc"))
        return asked

    asked = run(calls())
    assert asked.spans == [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)]
    assert [waited for waited, _ in asked.heard] == [0, 1, 2]
    assert asked.host.warmed == ["local"] * 3


def test_the_next_call_has_begun_before_the_last_one_is_judged() -> None:
    async def calls() -> tuple[int, float | None]:
        asked = Asked()
        first, second = (asyncio.create_task(asked.call(name, 1)) for name in "ab")
        await first
        found = len(asked.heard), asked.baton.running_s
        await second
        return found

    assert run(calls()) == (2, 0)


@pytest.mark.parametrize(
    ("reply", "rests"),
    [
        (WHOLE, 0),
        (Reply(fault=Fault(Kind.STATUS, status=500)), 0),
        (Reply(fault=Fault(Kind.CONNECT)), 0),
        (Reply(fault=Fault(Kind.SPENT)), 2),
        (Reply(fault=Fault(Kind.FIRST_TOKEN)), 2),
        (Reply(fault=Fault(Kind.IDLE)), 2),
        (Reply(fault=Fault(Kind.UNREADABLE)), 2),
    ],
    ids=["answer", "error", "refused", "timeout", "first token", "idle", "unreadable"],
)
def test_a_host_that_we_left_in_the_middle_of_a_call_is_left_alone_for_a_while(reply: Reply, rests: float) -> None:
    async def calls() -> Asked:
        asked = Asked()
        await asked.call("a", reply=reply)
        asked.baton.settled("a")
        await asked.call("b")
        return asked

    assert run(calls()).spans == [("a", 0, 1), ("b", 1 + rests, 2 + rests)]


def test_after_a_failure_those_who_wait_are_to_be_admitted_anew_once_it_is_settled() -> None:
    """They were admitted before it: the breaker may be open by now."""

    async def calls() -> tuple[Asked, Reply, float]:
        asked, now = Asked(), asyncio.get_running_loop().time
        failing, waiting = (asyncio.create_task(asked.call(name, reply=FAILURE)) for name in "ab")
        await failing
        at(0.5, lambda: asked.baton.settled("a"))
        reply = await waiting
        told = now()
        await asked.call("b")
        return asked, reply, told

    asked, reply, told = run(calls())
    assert reply is AGAIN
    assert told == 1.5
    assert asked.spans == [("a", 0, 1), ("b", 1.5, 2.5)]


def test_who_is_admitted_anew_keeps_its_turn() -> None:
    """Whoever came later would overtake it, at each failure, until its time is over."""

    async def calls() -> Asked:
        asked = Asked()
        left = Reply(fault=Fault(Kind.SPENT))
        failing, waiting, later = (asyncio.create_task(asked.call(name, reply=left)) for name in "abc")
        await failing
        asked.baton.settled("a")
        assert await waiting is AGAIN
        await asyncio.sleep(0.1)
        again = asyncio.create_task(asked.call("b"))
        assert await later is AGAIN
        await asked.call("c")
        await again
        return asked

    assert [name for name, _, _ in run(calls()).spans] == ["a", "b", "c"]


@pytest.mark.parametrize("tells", [True, False])
def test_a_turn_that_is_kept_for_who_goes_elsewhere_is_passed_on(tells: bool) -> None:
    async def calls() -> float:
        asked = Asked()
        failing, waiting = (asyncio.create_task(asked.call(name, reply=FAILURE)) for name in "ab")
        await failing
        asked.baton.settled("a")
        assert await waiting is AGAIN
        if tells:
            asked.baton.settled("b")
        await asked.call("c")
        return asked.spans[-1][1]

    assert run(calls()) == (1 if tells else 1 + SETTLES_S)


def test_a_failure_that_nobody_settles_holds_nobody_up_for_long() -> None:
    async def calls() -> Asked:
        asked = Asked()
        await asked.call("a", reply=FAILURE)
        await asked.call("b")
        return asked

    assert run(calls()).spans == [("a", 0, 1), ("b", 1 + SETTLES_S, 2 + SETTLES_S)]


def test_after_a_cancel_too() -> None:
    async def calls() -> Asked:
        asked = Asked()
        first, second = (asyncio.create_task(asked.call(name, 5)) for name in "ab")
        at(1, first.cancel)
        await asyncio.wait([first, second])
        assert first.cancelled()
        return asked

    assert run(calls()).spans == [("a", 0, 1), ("b", 3, 8)]


def test_whose_time_is_over_before_its_turn_asks_nobody() -> None:
    async def calls() -> tuple[Asked, Reply]:
        asked = Asked()
        _, reply, _ = await asyncio.gather(asked.call("a", 5), asked.call("b", within=3), asked.call("c"))
        return asked, reply

    asked, reply = run(calls())
    assert reply is NOT_ASKED
    assert [name for name, _, _ in asked.spans] == ["a", "c"]
    assert not asked.baton.was_unasked("b")


def test_nothing_begins_while_the_lease_is_not_certain() -> None:
    async def calls() -> Asked:
        asked = Asked(ours=False)
        at(4, asked.lease.ours.set)
        assert await asked.call("a") is AGAIN, "the job may be another worker's by now"
        assert asyncio.get_running_loop().time() == 4
        await asked.call("a")
        return asked

    assert run(calls()).spans == [("a", 4, 5)]


def test_a_cold_call_is_told_so_and_its_lease_outlasts_the_load() -> None:
    async def calls() -> Asked:
        asked = Asked(cold=True)
        await asked.call("a")
        return asked

    asked = run(calls())
    assert asked.heard == [(0, True)]
    assert asked.lease.lengthened == ["long", "short"]


def test_who_is_dismissed_has_asked_nobody_and_the_one_under_way_goes_on() -> None:
    async def calls() -> tuple[Asked, list[bool]]:
        asked = Asked()
        first, second = (asyncio.create_task(asked.call(name, 5)) for name in "ab")
        at(1, asked.baton.dismiss)
        await asyncio.wait([first, second])
        assert second.cancelled()
        assert not first.cancelled()
        told = [asked.baton.was_unasked(job) for job in ("a", "b", "b")]
        return asked, told

    asked, told = run(calls())
    assert asked.spans == [("a", 0, 5)]
    assert told == [False, True, False], "told once"
    assert asked.baton.in_hand == 0


def test_whoever_comes_once_it_is_dismissed_or_has_lost_the_lane_asks_nobody() -> None:
    async def calls() -> Asked:
        asked = Asked()
        asked.lease.fence = 0
        with pytest.raises(asyncio.CancelledError):
            await asked.call("a")
        asked.lease.fence = 9
        asked.baton.dismiss()
        with pytest.raises(asyncio.CancelledError):
            await asked.call("b")
        assert asked.baton.was_unasked("a")
        assert asked.baton.was_unasked("b")
        return asked

    assert run(calls()).spans == []


def test_a_lease_is_short_again_after_each_way_to_end() -> None:
    async def calls() -> Asked:
        asked = Asked(cold=True)
        failing, waiting = (asyncio.create_task(asked.call(name, reply=FAILURE)) for name in "ab")
        await failing
        asked.baton.settled("a")
        assert await waiting is AGAIN
        asked.baton.settled("b")
        cancelled = asyncio.create_task(asked.call("c", 5))
        at(1, cancelled.cancel)
        await asyncio.wait([cancelled])
        return asked

    assert run(calls()).lease.lengthened == ["long", "short", "long", "short"]


def test_a_probe_or_a_load_that_was_left_in_the_middle_is_followed_by_a_rest() -> None:
    async def calls() -> Asked:
        asked = Asked()

        async def work() -> Reply:
            return Reply(fault=Fault(Kind.SPENT))

        await asked.baton.idle(_needed, work)
        await asked.call("a")
        hangs = asyncio.create_task(asked.baton.idle(_needed, lambda: asyncio.sleep(60)))
        at(1, hangs.cancel)
        await asyncio.wait([hangs])
        await asked.call("b")
        return asked

    assert run(calls()).spans == [("a", 4, 5), ("b", 10, 11)]


def test_what_else_there_is_to_do_at_the_host_waits_for_its_turn() -> None:
    async def calls() -> tuple[Asked, float]:
        asked, began = Asked(), 0.0

        async def work() -> None:
            nonlocal began
            began = asyncio.get_running_loop().time()
            assert asked.baton.busy
            assert asked.lease.lengthened[-1] == "long"
            await asyncio.sleep(1)

        await asyncio.gather(asked.call("a", 2), asked.baton.idle(_needed, work), asked.call("b"))
        return asked, began

    asked, began = run(calls())
    assert began == 2
    assert asked.spans == [("a", 0, 2), ("b", 3, 4)]


def test_what_is_not_needed_when_its_turn_has_come_is_not_done_and_keeps_no_lease() -> None:
    async def calls() -> Asked:
        asked = Asked()

        async def needed() -> bool:
            return False

        async def work() -> None:
            raise AssertionError("it is not needed")

        await asked.baton.idle(needed, work)
        await asked.call("a")
        return asked

    asked = run(calls())
    assert asked.spans == [("a", 0, 1)]
    assert "long" not in asked.lease.lengthened


async def _needed() -> bool:
    return True


# --- in a walk


def test_a_walk_whose_turn_does_not_come_goes_on_with_the_time_that_is_kept() -> None:
    """The lane's stage may wait as long as the next one leaves it; no host has heard of it, and nothing was spent."""

    async def walking() -> tuple[list[tuple[str, str, str | None]], float]:
        bench = Bench([stage("lane", "ok:late"), stage("next", "ok:next", reserve=10)])
        asked = Asked()
        bench.engine = _with_turns(bench, asked.baton)
        blocks = asyncio.create_task(asked.call("other", 12))
        await asyncio.sleep(0)
        bench.submit(deadline=20)
        found = await bench.walk()
        await blocks
        return found.told, found.seconds

    told, seconds = run(walking())
    assert told == [("lane", "skipped", "deadline"), ("next", "answered", None)]
    assert seconds == pytest.approx(12, abs=0.1)


def test_a_walk_that_waited_behind_a_failure_looks_again_and_finds_the_breaker_open() -> None:
    """Two jobs for one wedged host: it is asked once, and the second goes on to the next stage at once."""

    async def walking() -> tuple[list[tuple[str, str, str | None]], list[str]]:
        rule = Breaker(consecutive_failures=1, open_for=60)
        bench, asked = Bench([stage("lane", "hang", timeout=5, breaker=rule), stage("next", "ok")]), Asked()
        bench.engine = _with_turns(bench, asked.baton)
        for job in ("one", "two"):
            bench.submit(job=job)
        first = asyncio.create_task(bench.walk(job="one"))
        await asyncio.sleep(0)
        second = await bench.walk(job="two", owner="w2")
        await first
        return second.told, [call.stage.name for call in bench.scripted.calls]

    told, asked = run(walking())
    assert told == [("lane", "skipped", "breaker_open"), ("next", "answered", None)]
    assert asked == ["lane", "next", "next"]


def test_an_attempt_tells_of_its_call_and_its_job_of_its_waiting() -> None:
    async def walking() -> tuple[float, float]:
        bench, asked = Bench([stage("lane", "ok:text:1")]), Asked()
        bench.engine = _with_turns(bench, asked.baton)
        blocks = asyncio.create_task(asked.call("other", 3))
        await asyncio.sleep(0)
        bench.submit()
        found = await bench.walk()
        await blocks
        return float(found.attempts[0]["duration_s"]), float(found.view.shown["queued_s"])

    assert run(walking()) == (pytest.approx(1, abs=0.01), pytest.approx(3, abs=0.01))


def test_a_caller_who_cancels_while_the_job_waits_for_its_turn_has_it_at_once() -> None:
    async def walking() -> Walked:
        bench, asked, stop = Bench([stage("lane", "ok")]), Asked(), Stop()
        bench.engine = _with_turns(bench, asked.baton)
        blocks = asyncio.create_task(asked.call("other", 30))
        await asyncio.sleep(0)
        bench.submit()
        at(2, stop.ask)
        found = await bench.walk(stop=stop)
        assert not asked.baton.waits("j")
        blocks.cancel()
        return found

    found = run(walking())
    assert (found.told, found.seconds) == ([("lane", "cancelled", "cancelled")], 2)
    assert (found.attempts[0]["duration_s"], found.attempts[0]["cost_usd"]) == (0, 0), "no host has heard of it"


def _with_turns(bench: Bench, baton: Baton) -> Engine:
    return replace(bench.engine, turns=baton)
