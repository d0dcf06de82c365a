"""A message may come twice, and a worker may die: the record is the job, and a job has one owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.virtual_time import run
from tests.worker.failover.walks import Bench, Walked, at, stage
from worker.failover.answer import Status
from worker.failover.state import Taken


def test_a_redelivery_of_an_ended_job_returns_what_it_came_to() -> None:
    """And calls nobody: the first delivery was answered and then its worker died. A living one tells it itself."""

    async def twice() -> tuple[Walked, Walked]:
        bench = Bench([stage("a", "status:500"), stage("b")])
        bench.submit()
        first = await bench.walk()
        assert (await bench.walk(owner="w2")).end == Taken(known=True)
        bench.memory.workers.discard("w1")
        return first, await bench.walk(owner="w2")

    first, again = run(twice())
    assert again.calls == again.logged == []
    assert again.view.shown == first.view.shown
    assert again.view.status is Status.ANSWERED


def test_a_second_owner_is_told_that_the_first_one_lives() -> None:
    """The slow call goes on, and is the only one."""

    async def twice() -> tuple[Walked, Walked]:
        bench = Bench([stage("a", "ok:Because.:10")])
        bench.submit()
        first = asyncio.ensure_future(bench.walk())
        await asyncio.sleep(5)
        return await bench.walk(owner="w2"), await first

    second, first = run(twice())
    assert (second.end, second.calls) == (Taken(known=True), [])
    assert (first.view.status, len(first.calls)) == (Status.ANSWERED, 1)


def test_the_same_owner_does_not_take_its_own_job_twice() -> None:
    """Redis may deliver a long job again to the very worker that runs it."""

    async def twice() -> Walked:
        bench = Bench([stage("a", "ok:Because.:10")])
        bench.submit()
        first = asyncio.ensure_future(bench.walk())
        await asyncio.sleep(5)
        second = await bench.walk()
        await first
        return second

    assert run(twice()).end == Taken(known=True)


def test_a_message_without_a_record_is_nobodys_job() -> None:
    """Its time to live is over."""

    async def walking() -> Walked:
        return await Bench([stage("a")]).walk()

    found = run(walking())
    assert (found.end, found.calls) == (Taken(known=False), [])


def crash(then: Callable[[Bench], None] = lambda _: None) -> tuple[Walked, Bench]:
    """The first owner dies three seconds into the second stage; another one gets the job."""

    async def dying() -> tuple[Walked, Bench]:
        bench = Bench([stage("a", "status:500"), stage("b", "hang", "ok:Because."), stage("c")])
        bench.submit()
        first = asyncio.ensure_future(bench.walk())
        await asyncio.sleep(3)
        first.cancel()
        bench.memory.workers.discard("w1")
        then(bench)
        return await bench.walk(owner="w2"), bench

    return run(dying())


def test_a_call_whose_worker_died_is_unknown_and_its_stage_is_asked_again() -> None:
    """What came of it nobody saw; what was settled before it is not done again."""
    found, bench = crash()
    assert (found.view.status, found.asked) == (Status.ANSWERED, ["b"])
    assert found.told == [
        ("a", "failed", "server_error"),
        ("b", "unknown", "crashed"),
        ("b", "answered", None),
    ]
    assert [row["n"] for row in found.attempts] == [1, 2, 3]
    assert [call.stage.name for call in bench.scripted.calls] == ["a", "b", "b"]
    assert [row["worker"] for row in found.attempts] == ["w1@host", "w1@host", "w2@host"]


def test_a_job_whose_worker_died_can_still_be_cancelled() -> None:
    """The next owner finds the mark, and closes the ledger."""
    found, _ = crash(lambda bench: bench.memory.cancel("j"))
    assert (found.view.status, found.calls) == (Status.CANCELLED, [])
    assert found.told[-1] == ("b", "unknown", "crashed")


def test_an_owner_that_was_only_slow_changes_nothing_any_more() -> None:
    """It was taken for dead, another one answered; the late answer is dropped by the fence."""

    async def late() -> tuple[Walked, Walked, Bench]:
        bench = Bench([stage("a", "ok:Late.:20", "ok:Because.")])
        bench.submit()
        slow = asyncio.ensure_future(bench.walk())
        at(5, lambda: bench.memory.workers.discard("w1"))
        await asyncio.sleep(10)
        return await bench.walk(owner="w2"), await slow, bench

    quick, slow, bench = run(late())
    assert slow.end == Taken(known=True)
    assert quick.view.shown["text"] == bench.memory.view("j").shown["text"] == "Because. "
    assert [row["outcome"] for row in bench.memory.view("j").shown["attempts"]] == ["unknown", "answered"]


def test_an_owner_that_was_only_slow_asks_no_further_stage() -> None:
    """Its call failed meanwhile: the rest of the plan is the new owner's."""

    async def late() -> tuple[Walked, Walked]:
        bench = Bench([stage("a", "ok:Late.:20", "ok:Because.:30", timeout=15), stage("b")])
        bench.submit()
        slow = asyncio.ensure_future(bench.walk())
        await asyncio.sleep(5)
        bench.memory.workers.discard("w1")
        return await bench.walk(owner="w2"), await slow

    quick, slow = run(late())
    assert (slow.end, slow.asked[0]) == (Taken(known=True), "a")
    assert quick.view.status is Status.ANSWERED
    assert quick.told == [("a", "unknown", "crashed"), ("a", "failed", "timeout"), ("b", "answered", None)]
