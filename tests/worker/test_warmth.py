"""A model is in its host's memory before it is needed, and whoever calls knows whether it is; over a real socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from config.stages import Stage
from tests.eventually import eventually_async
from tests.worker.ollama_house import House, house
from worker import warmth
from worker.providers import ollama_host
from worker.providers.ollama_host import Hosts
from worker.warmth import Warmth


def stage_at(found: House, name: str = "local", **fields: Any) -> Stage:
    return Stage(name, "ollama", **{"base_url": found.url, "model": "m", "lane": "ollama", **fields})


@asynccontextmanager
async def warmed(*stages: Stage) -> AsyncIterator[Warmth]:
    hosts = Hosts()
    try:
        yield Warmth(stages, hosts)
    finally:
        await hosts.close()


def with_house(test: Callable[[House], Coroutine[Any, Any, None]], **fields: Any) -> None:
    async def testing() -> None:
        async with house(**fields) as found:
            await test(found)

    asyncio.run(testing())


async def at_once(work: Callable[[], Awaitable[None]]) -> None:
    """No job calls."""
    await work()


@asynccontextmanager
async def keeping(found: Warmth, idle: warmth.Idle = at_once) -> AsyncIterator[asyncio.Event]:
    """The lane is held while the event is set."""
    held = asyncio.Event()
    task = asyncio.ensure_future(found.keep(idle, held))
    try:
        yield held
    finally:
        assert not task.done(), "it goes on for ever"
        task.cancel()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks every few milliseconds."""
    monkeypatch.setattr(warmth, "LOOKS_S", 0.02)
    monkeypatch.setattr(warmth, "FRESH_S", 0.0)


@pytest.mark.parametrize(
    ("resident", "fields", "cold"),
    [
        ({}, {}, True),
        ({"n:latest": 4096}, {}, True),
        ({"m:latest": 4096}, {}, False),
        ({"m:latest": 4096}, {"model": "m:8b"}, True),
        ({"m:latest": 4096}, {"num_ctx": 8192}, True),
    ],
)
def test_a_model_that_is_not_there_as_it_is_needed_is_cold(
    resident: dict[str, int], fields: dict[str, Any], cold: bool
) -> None:
    """With another window the host would load it anew."""

    async def test(found: House) -> None:
        stage = stage_at(found, **fields)
        async with warmed(stage) as its:
            assert await its.is_cold(stage) is cold

    with_house(test, resident=resident)


def test_a_host_that_does_not_say_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its answer back while it loads; and one that is away, or is no Ollama, has nothing in its memory."""
    monkeypatch.setattr(ollama_host, "LOOK_S", 0.05)

    async def test(found: House) -> None:
        stage = stage_at(found)
        async with warmed(stage) as its:
            assert await its.is_cold(stage)
        async with warmed(away := stage_at(found, base_url="http://127.0.0.1:9")) as its:
            assert await its.is_cold(away)

    with_house(test, resident={"m:latest": 4096}, hangs=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"provider": "openai"},
        {"provider": "scripted"},
        {"provider": "ollama", "model": "m:20b-cloud"},
        {"provider": "ollama", "base_url": "https://ollama.com", "model": "m"},
    ],
)
def test_only_a_model_in_the_house_is_ever_cold(fields: dict[str, Any]) -> None:
    """Nobody is asked."""

    async def test(found: House) -> None:
        stage = Stage("cloud", **{"base_url": found.url, "model": "m", **fields})
        async with warmed(stage) as its, keeping(its) as held:
            held.set()
            assert not await its.is_cold(stage)
        assert found.asked == []

    with_house(test)


def test_what_has_answered_just_now_is_not_asked_for() -> None:
    """A round trip for each answer of a batch would be one too many. Of another model or window it says nothing, and
    where others may have had the host, it is not believed."""

    async def test(found: House) -> None:
        stage = stage_at(found)
        async with warmed(stage) as its:
            its.answered(stage)
            assert not await its.is_cold(stage)
            assert not await its.is_cold(stage_at(found, "twin", model="M:latest", keep_alive="1h"))
            assert found.looks == 0
            assert await its.is_cold(stage_at(found, "wide", num_ctx=8192))
            its.unsure()
            assert await its.is_cold(stage)
            assert found.looks == 2

    with_house(test)


def test_an_answer_of_some_time_ago_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host may have been restarted."""
    monkeypatch.setattr(warmth, "FRESH_S", 0.0)

    async def test(found: House) -> None:
        stage = stage_at(found)
        async with warmed(stage) as its:
            its.answered(stage)
            assert await its.is_cold(stage)

    with_house(test)


@pytest.mark.parametrize("keep_alive", [0, "0", "0s", "0m0s", "0.0s"])
def test_a_model_that_is_to_leave_is_never_loaded_beforehand(keep_alive: str | int, quickly: None) -> None:
    """An empty chat with no time to stay unloads it; and it is gone right after its answer."""

    async def test(found: House) -> None:
        stage, other = stage_at(found, keep_alive=keep_alive), stage_at(found, "other", keep_alive="30s")
        async with warmed(stage) as its, keeping(its) as held:
            held.set()
            assert not await its.load(stage)
            its.answered(stage)
            assert await its.is_cold(stage)
            assert found.loads == []
            its.answered(other)
            await eventually_async(lambda: found.loads, "the one that may stay is loaded")

    with_house(test)


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

    async def idle(work: Callable[[], Awaitable[None]]) -> None:
        nonlocal begun, done
        begun += 1
        async with turn:
            await work()
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
