"""A model is in its host's memory before it is needed, and whoever calls knows whether it is; over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from config.stages import Stage
from tests.eventually import eventually_async
from tests.worker.ollama_house import House, house
from worker import warmth
from worker.failover.turns import Idle, Needed, Work
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


async def at_once(needed: Needed, work: Work) -> None:
    """No job calls."""
    if await needed():
        await work()


@asynccontextmanager
async def keeping(found: Warmth, idle: Idle = at_once) -> AsyncIterator[asyncio.Event]:
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
            assert await its.is_cold(stage_at(found, "other", model="n"))
            its.unsure()
            assert await its.is_cold(stage)
            assert found.looks == 2

    with_house(test)


@pytest.mark.parametrize(
    "fields", [{"num_ctx": 8192}, {"params": {"shift": False}}, {"params": {"options": {"num_gpu": 0}}}]
)
def test_what_another_stage_has_loaded_in_another_way_is_cold(fields: dict[str, Any]) -> None:
    """The host shows the window at most; a look would say that the model is there."""

    async def test(found: House) -> None:
        first, second = stage_at(found, "first", **fields), stage_at(found, "second")
        async with warmed(first, second) as its:
            its.answered(first)
            assert await its.is_cold(second)
            its.answered(second)
            assert not await its.is_cold(second)

    with_house(test, resident={"m:latest": 4096})


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
