"""What becomes of the walks of a process that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from tests.eventually import eventually_async
from tests.virtual_time import run
from worker.drain import Abandoned, Walks
from worker.failover.answer import Status, View
from worker.failover.state import Settled


def on_a_clock_that_jumps(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @wraps(test)
    def running() -> None:
        run(test())

    return running


async def for_ever() -> None:
    await asyncio.Event().wait()


@on_a_clock_that_jumps
async def test_what_ends_in_time_brings_its_answer_and_the_rest_is_handed_back() -> None:
    """The record is given back before whoever waits hears of it: a message that came sooner would be forgotten."""
    order: list[str] = []
    end = asyncio.Event()

    async def hand_back(job: str) -> None:
        order.append(f"{job} is back")

    async def answers() -> str:
        await end.wait()
        return "answer"

    walks = Walks(hand_back)
    short = asyncio.create_task(walks.run("short", answers()))
    long = asyncio.create_task(walks.run("long", for_ever()))
    long.add_done_callback(lambda _: order.append("long hears of it"))
    await eventually_async(lambda: len(walks) == 2, "both are under way")
    draining = asyncio.create_task(walks.drain(0.2))
    end.set()
    await draining
    assert await short == "answer"
    with pytest.raises(Abandoned):
        await long
    await eventually_async(lambda: order == ["long is back", "long hears of it"], "the order holds")
    assert walks.abandoned == {"long"}


@on_a_clock_that_jumps
async def test_nothing_new_is_begun_and_what_belongs_to_a_walk_is_done_until_the_end() -> None:
    """A walk that ended while the process drains may still have to be parked."""

    async def nothing(_: str) -> None:
        raise AssertionError("what was never claimed is not handed back")

    async def parked() -> bool:
        return True

    walks = Walks(nothing)
    last = asyncio.create_task(walks.run("last", for_ever()))
    await eventually_async(lambda: len(walks) == 1, "one is under way")
    walks.closed = True
    with pytest.raises(Abandoned):
        await walks.run("new", for_ever())
    assert await walks.run("ended", parked(), begins=False)
    assert walks.abandoned == {"new"}
    last.cancel()
    with pytest.raises((Abandoned, AssertionError, asyncio.CancelledError)):
        await last


@on_a_clock_that_jumps
async def test_a_settle_is_carried_through_although_its_walk_is_broken_off() -> None:
    """What a host has answered is paid for; the job is handed back after it, if it has not ended by it."""
    order: list[str] = []
    go_on = asyncio.Event()

    async def hand_back(job: str) -> None:
        order.append(f"{job} is back")

    async def settle() -> Settled:
        await go_on.wait()
        order.append("settled")
        return Settled()

    walks = Walks(hand_back)
    walk = asyncio.create_task(walks.run("job", walks.settle("job", settle())))
    await eventually_async(lambda: len(walks) == 1, "it is under way")
    draining = asyncio.create_task(walks.drain(0))
    asyncio.get_running_loop().call_later(0.1, go_on.set)
    await draining
    with pytest.raises(Abandoned):
        await walk
    assert order == ["settled", "job is back"]


@on_a_clock_that_jumps
async def test_a_walk_that_is_broken_off_while_its_end_is_settled_brings_that_end() -> None:
    """Its message went back to the queue, and Celery heard by the next delivery, 15 s later."""

    async def nothing(_: str) -> None:
        raise AssertionError("what has ended is not handed back")

    go_on = asyncio.Event()
    end = View("job", Status.ANSWERED, {})

    async def settle() -> Settled:
        await go_on.wait()
        return Settled(end)

    walks = Walks(nothing)
    walk = asyncio.create_task(walks.run("job", walks.settle("job", settle())))
    await eventually_async(lambda: len(walks) == 1, "it is under way")
    draining = asyncio.create_task(walks.drain(0))
    asyncio.get_running_loop().call_later(0.1, go_on.set)
    await draining
    assert await walk == end
    assert walks.abandoned == set()


@on_a_clock_that_jumps
async def test_a_hurry_ends_the_wait() -> None:
    """Somebody has pressed Ctrl-C again."""

    async def hand_back(_: str) -> None: ...

    walks = Walks(hand_back)
    walk = asyncio.create_task(walks.run("job", for_ever()))
    await eventually_async(lambda: len(walks) == 1, "it is under way")
    draining = asyncio.create_task(walks.drain(3600))
    asyncio.get_running_loop().call_soon(walks.hurry)
    await draining
    with pytest.raises(Abandoned):
        await walk
