"""The model comes and goes: loaded when it is asked for, given up when its keep_alive is over."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import ollama
import psutil
import pytest

from staffel.local_model.errors import RequestRefused
from staffel.local_model.keep_alive import seconds_to_stay
from tests.eventually import eventually, eventually_async
from tests.staffel.local_model.served import ENDLESS, MODEL, Served, serving

COUNT = [{"role": "user", "content": "Count."}]
SOON = 15.0


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One of its own: these tests ask what is in memory."""
    with serving() as served:
        yield served


def runners(served: Served) -> list[int]:
    return [child.pid for child in psutil.Process(served.process.pid).children()]


def resident(served: Served) -> list[dict[str, object]]:
    models: list[dict[str, object]] = json.loads(served.ask("GET", "/api/ps").text)["models"]
    return models


def answered(served: Served, **fields: object) -> dict[str, object]:
    reply = served.chat(**{"options": {"num_predict": 2}, **fields})
    assert reply.status == 200, reply
    answer: dict[str, object] = json.loads(reply.text)
    return answer


def load_ns(served: Served, **fields: object) -> int:
    return int(str(answered(served, **fields)["load_duration"]))


def test_an_unloaded_model_gives_its_memory_back_and_comes_back_by_itself(served: Served) -> None:
    """llama.cpp's process is gone with all its memory; the next request has a real time to load."""
    answered(served)
    served.post("/api/chat", messages=[], keep_alive=0)
    assert resident(served) == []
    eventually(lambda: not runners(served), "the process of llama.cpp has ended")
    cold, warm = load_ns(served), load_ns(served)
    assert cold > 100_000_000 > warm
    assert len(resident(served)) == 1


def test_the_model_leaves_when_its_time_is_over(served: Served) -> None:
    """`/api/ps` says when that will be."""
    answer = answered(served, keep_alive=0.5)
    (loaded,) = resident(served)
    stays = datetime.fromisoformat(str(loaded["expires_at"])) - datetime.fromisoformat(str(answer["created_at"]))
    assert 0 < stays.total_seconds() < 5
    eventually(lambda: not resident(served), "the model has left")


def test_a_request_that_says_nothing_leaves_the_time_as_it_is(served: Served) -> None:
    """Only a load that nobody gave a time gets the five minutes."""
    answered(served, keep_alive=-1)
    answered(served)
    assert str(resident(served)[0]["expires_at"]) > "2300"
    answered(served, keep_alive=0)
    assert resident(served) == []
    answered(served)
    stays = datetime.fromisoformat(str(resident(served)[0]["expires_at"])) - datetime.now().astimezone()
    assert 290 < stays.total_seconds() <= 300


def test_other_options_of_the_load_load_it_anew(served: Served) -> None:
    """And the same ones do not, nor one that leaves the choice to us."""
    answered(served, options={"num_ctx": 512, "num_predict": 2})
    (first,) = runners(served)
    answered(served, options={"num_ctx": 512, "num_predict": 1, "temperature": 0})
    assert runners(served) == [first]
    for changed in ({"num_batch": 64}, {"num_thread": 1}, {"use_mmap": False}, {"num_gpu": 0}):
        before = runners(served)
        answered(served, options={"num_ctx": 512, "num_predict": 2, **changed})
        assert runners(served) != before, changed
    assert resident(served)[0]["context_length"] == 512


def test_who_leaves_during_the_load_ends_it(served: Served) -> None:
    """As at Ollama nothing of it is kept: a clock shorter than the load never warms the model."""
    served.post("/api/chat", messages=[], keep_alive=0)
    eventually(lambda: not runners(served), "nothing is loaded")

    async def run() -> None:
        async with ollama.AsyncClient(host=served.url) as client:
            task = asyncio.create_task(client.chat(MODEL, COUNT))
            await eventually_async(lambda: runners(served), "the load has begun")
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())
    eventually(lambda: not runners(served), "the load has ended")
    assert resident(served) == []


def test_the_server_answers_while_the_model_loads(served: Served) -> None:
    """`/api/version` at once, `/api/ps` when the load is over: as Ollama, which holds a lock there."""
    served.post("/api/chat", messages=[], keep_alive=0)
    eventually(lambda: not runners(served), "nothing is loaded")

    async def run() -> tuple[bool, int]:
        async with ollama.AsyncClient(host=served.url) as client:
            load = asyncio.create_task(client.chat(MODEL, []))
            await eventually_async(lambda: runners(served), "the load has begun")
            await asyncio.to_thread(served.ask, "GET", "/api/version")
            early = not load.done()
            models = len((await client.ps()).models)
            await load
            return early, models

    assert asyncio.run(run()) == (True, 1)


def test_who_comes_during_a_load_has_a_say_in_how_long_it_stays(served: Served) -> None:
    """One load is enough for both; the second's keep_alive is the later word, and its wait for the first is no load."""
    served.post("/api/chat", messages=[], keep_alive=0)
    eventually(lambda: not runners(served), "nothing is loaded")

    async def run() -> tuple[ollama.ChatResponse, ollama.ChatResponse]:
        async with ollama.AsyncClient(host=served.url) as client:
            long = {"num_predict": 100}
            first = asyncio.create_task(client.chat(MODEL, COUNT, format=ENDLESS, keep_alive=0, options=long))
            await eventually_async(lambda: runners(served), "the load has begun")
            second = await client.chat(MODEL, COUNT, keep_alive="10m", options={"num_predict": 1})
            return await first, second

    first, second = asyncio.run(run())
    assert (second.load_duration or 0) <= (first.load_duration or 0)
    assert (second.total_duration or 0) > (second.load_duration or 0) + (first.eval_duration or 0)
    stays = datetime.fromisoformat(str(resident(served)[0]["expires_at"])) - datetime.now().astimezone()
    assert stays.total_seconds() > 500


def test_a_model_that_is_in_use_is_unloaded_afterwards(served: Served) -> None:
    """An unload in the middle of an answer neither waits for it nor breaks it."""

    async def run() -> list[ollama.ChatResponse]:
        async with ollama.AsyncClient(host=served.url) as client:
            stream = await client.chat(MODEL, COUNT, stream=True, format=ENDLESS, options={"num_predict": 60})
            first = await anext(stream)
            assert (await client.chat(MODEL, [], keep_alive=0)).done_reason == "unload"
            return [first, *[chunk async for chunk in stream]]

    assert asyncio.run(run())[-1].eval_count == 60
    assert resident(served) == []


def test_a_dead_llama_cpp_is_one_error_and_then_loaded_anew(served: Served) -> None:
    """Out of memory, for example: the stream ends in Ollama's words, and the next request does not notice."""

    async def run() -> None:
        async with ollama.AsyncClient(host=served.url) as client:
            stream = await client.chat(MODEL, COUNT, stream=True, format=ENDLESS, options={"num_predict": -1})
            await anext(stream)
            psutil.Process(runners(served)[0]).kill()
            async for _ in stream:
                pass

    with pytest.raises(ollama.ResponseError, match="model runner has unexpectedly stopped"):
        asyncio.run(run())
    assert answered(served)["eval_count"] == 2


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(None, None), (0, 0.0), (1.5, 1.5), ("0", 0.0), ("0s", 0.0), ("5m", 300.0), ("1h30m", 5400.0), ("300ms", 0.3),
     (-1, float("inf")), ("-1m", float("inf")), (1e12, float("inf"))],
)  # fmt: skip
def test_keep_alive_is_read_as_go_reads_it(said: float | str | None, seconds: float | None) -> None:
    """Numbers are seconds, strings need a unit, and whatever is negative is for ever."""
    assert seconds_to_stay(said) == seconds


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("m", 'time: invalid duration "m"'),
        ("-1", 'time: missing unit in duration "-1"'),
        ("5m3", 'time: missing unit in duration "5m3"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("5 m", 'time: unknown unit " m" in duration "5 m"'),
        (True, "Unsupported type: 'bool'"),
        ([], "Unsupported type"),
        ({}, "Unsupported type"),
    ],
)
def test_what_go_cannot_read_is_refused(said: Any, error: str) -> None:
    """In Go's words."""
    with pytest.raises(RequestRefused, match=re.escape(error)):
        seconds_to_stay(said)
