"""A model is loaded when its lane is held, and again when it is gone, while no job calls; over a real socket."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.eventually import eventually_async
from tests.worker.ollama_house import House
from tests.worker.test_warmth import at_once, keeping, quickly, stage_at, warmed, with_house
from worker.failover.turns import Needed, Work

__all__ = ["quickly"]


def test_a_model_is_loaded_when_the_lane_is_held_and_not_before(caplog: pytest.LogCaptureFixture) -> None:
    """Else two workers would load at one host; then it is there, and a call need not look. One line says so."""
    caplog.set_level(logging.INFO, logger="staffel")

    async def test(found: House) -> None:
        stage = stage_at(found, keep_alive=-1)
        async with warmed(stage) as its, keeping(its) as held:
            for _ in range(20):
                await asyncio.sleep(0)
            assert found.asked == []
            held.set()
            await eventually_async(lambda: found.looks == 2, "it was loaded, and looked at")
            assert not await its.is_cold(stage)
            assert [body["keep_alive"] for body in found.loads] == [-1]

    with_house(test)
    assert [line.split(", ")[0] for line in caplog.messages] == ["stage local: m is loaded"]


def test_a_model_that_is_gone_is_loaded_again(quickly: None) -> None:
    """Its time was over, somebody has unloaded it, or the host was restarted."""

    async def test(found: House) -> None:
        async with warmed(stage_at(found)) as its, keeping(its) as held:
            held.set()
            await eventually_async(lambda: len(found.loads) == 1 and found.resident, "it is loaded")
            looks = found.looks
            await eventually_async(lambda: found.looks > looks + 3, "it is looked after")
            assert len(found.loads) == 1
            found.resident = {}
            await eventually_async(lambda: len(found.loads) == 2, "it is loaded again")

    with_house(test)


def test_whoever_is_unsure_looks_at_once() -> None:
    """Not in a quarter of a minute."""

    async def test(found: House) -> None:
        async with warmed(stage_at(found)) as its, keeping(its) as held:
            held.set()
            await eventually_async(lambda: found.looks == 2, "it is loaded, and looked at")
            found.resident = {}
            its.unsure()
            await eventually_async(lambda: len(found.loads) == 2, "it is loaded again")

    with_house(test)


def test_nothing_is_asked_while_a_job_calls_or_another_has_the_lane(quickly: None) -> None:
    """Each look and each load waits for its turn, and a lane that was lost meanwhile is another's."""
    turn = asyncio.Lock()
    begun, done = 0, 0

    async def idle(needed: Needed, work: Work) -> None:
        nonlocal begun, done
        begun += 1
        async with turn:
            await at_once(needed, work)
        done += 1

    async def test(found: House) -> None:
        async with warmed(stage_at(found)) as its, keeping(its, idle) as held:
            async with turn:
                held.set()
                await eventually_async(lambda: begun == 1, "it waits for its turn")
                assert found.asked == []
                held.clear()
            await eventually_async(lambda: done == 1, "it had its turn")
            assert (found.asked, begun) == ([], 1)
            held.set()
            await eventually_async(lambda: found.loads, "it is loaded")

    with_house(test)


def test_the_model_that_was_used_last_is_the_one_that_is_kept(quickly: None) -> None:
    """Two that do not fit together would drive each other out for ever, a load of minutes each time."""

    async def test(found: House) -> None:
        first, second = stage_at(found, "first"), stage_at(found, "second", model="n")
        async with warmed(first, second) as its, keeping(its) as held:
            held.set()
            await eventually_async(lambda: found.resident == {"m:latest": 4096}, "the first one is loaded")
            its.answered(second)
            await eventually_async(lambda: found.resident == {"n:latest": 4096}, "the other one is loaded")
            looks = found.looks
            await eventually_async(lambda: found.looks > looks + 3, "it is looked after")
            assert [body["model"] for body in found.loads] == ["m", "n"]

    with_house(test)


def test_a_window_that_the_host_has_cut_is_no_reason_to_load(quickly: None) -> None:
    """A model trained for less has what it was trained for, however often it is loaded."""

    async def test(found: House) -> None:
        stage = stage_at(found, num_ctx=32_768)
        async with warmed(stage) as its, keeping(its) as held:
            held.set()
            await eventually_async(lambda: found.looks > 5, "it is looked after")
            assert len(found.loads) == 1
            assert not await its.is_cold(stage)

    with_house(test)


def test_a_load_that_takes_too_long_is_given_up_and_told_once(caplog: pytest.LogCaptureFixture, quickly: None) -> None:
    """The host throws it away; it is tried again, less and less often."""

    async def test(found: House) -> None:
        async with warmed(stage_at(found, cold_load_timeout=0.02)) as its, keeping(its) as held:
            held.set()
            await eventually_async(lambda: found.thrown_away > 2, "it is tried again")

    with_house(test, loads_s=3600)
    assert caplog.messages == ["stage local: m is not loaded: not there after 0.02 s (cold_load_timeout)"]


def test_a_load_that_fails_is_told_in_the_hosts_words_and_pauses_grow(
    caplog: pytest.LogCaptureFixture, quickly: None
) -> None:
    """What does not fit is not tried four times a minute for a night; an answer of it shows that it is mended."""

    async def test(found: House) -> None:
        stage = stage_at(found)
        async with warmed(stage) as its:
            assert not await its.load(stage)
            pauses = [its._pause(stage)]
            for _ in range(5):
                await its.load(stage)
                pauses.append(its._pause(stage))
            assert pauses == sorted(pauses)
            assert pauses[-1] > 8 * pauses[0]
            its.answered(stage)
            assert its._pause(stage) < pauses[0]

    said = "model requires more system memory (5.6 GiB) than is available (3.2 GiB)"
    with_house(test, failing=said)
    assert caplog.messages == [f"stage local: m is not loaded: status 500: {said}"]
