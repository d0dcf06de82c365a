"""One request at a time; who leaves makes room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from itertools import pairwise

import ollama
import psutil

from staffel.local_model import running_ollama
from tests.eventually import eventually_async
from tests.staffel.local_model.served import ENDLESS, MODEL, Resting, Served, busy_seconds

COUNT = [{"role": "user", "content": "Count."}]
LONG_TO_READ = [{"role": "user", "content": "The quick brown fox jumps over it. " * 350}]
SOON = 15.0  # seconds: less than the endless answer takes, more than a stretch of the prompt on a busy machine


async def ask(served: Served, messages: list[dict[str, str]], num_predict: int) -> ollama.ChatResponse:
    async with ollama.AsyncClient(host=served.url) as client:
        return await client.chat(MODEL, messages, format=ENDLESS, options={"num_predict": num_predict})


@asynccontextmanager
async def streaming(served: Served) -> AsyncIterator[None]:
    """An endless answer that has begun; leaving the block closes its socket."""
    async with ollama.AsyncClient(host=served.url) as client:
        stream = await client.chat(MODEL, COUNT, stream=True, format=ENDLESS, options={"num_predict": -1})
        async with aclosing(stream):
            await anext(stream)
            yield


async def leave(task: asyncio.Task[ollama.ChatResponse]) -> None:
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def connected(served: Served, many: int) -> None:
    def open_ones() -> bool:
        connections = psutil.Process(served.process.pid).net_connections("tcp")
        ours = [one for one in connections if one.laddr.port == served.port and one.status == psutil.CONN_ESTABLISHED]
        return len(ours) == many

    await eventually_async(open_ones, f"{many} clients are connected")


async def computing(served: Served) -> None:
    """At work since this call, by half a second of its own CPU time."""
    process = psutil.Process(served.process.pid)
    begin = busy_seconds(process)
    await eventually_async(lambda: busy_seconds(process) > begin + 0.5, "the server computes")


async def resting(served: Served) -> None:
    await eventually_async(Resting(served.process.pid), "the server computes nothing", timeout=SOON)


def test_five_requests_at_once_run_one_after_the_other(served: Served) -> None:
    """By the server's own time stamps no two answers overlap."""

    async def run() -> list[tuple[datetime, datetime]]:
        async def one(client: ollama.AsyncClient) -> tuple[datetime, datetime]:
            stream = await client.chat(MODEL, COUNT, stream=True, options={"num_predict": 6})
            times = [datetime.fromisoformat(chunk.created_at) async for chunk in stream]
            return times[0], times[-1]

        async with ollama.AsyncClient(host=served.url) as client:
            return await asyncio.gather(*(one(client) for _ in range(5)))

    spans = sorted(asyncio.run(run()))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_leaving_a_stream_stops_the_generation(served: Served) -> None:
    """The host is free for the next one at once, and does not talk to nobody."""

    async def run() -> ollama.ChatResponse:
        async with streaming(served):
            pass
        await resting(served)
        return await ask(served, COUNT, 2)

    assert asyncio.run(run()).done


def test_leaving_before_a_whole_answer_stops_the_generation(served: Served) -> None:
    """Nothing is written to this client before the end, so only the socket can tell that it has left."""

    async def run() -> None:
        task = asyncio.create_task(ask(served, COUNT, -1))
        await computing(served)
        await leave(task)
        await resting(served)

    asyncio.run(run())


def test_leaving_while_the_prompt_is_read_stops_the_reading(served: Served) -> None:
    """A prompt of some 3000 tokens takes ten seconds and more; a client with a first-token clock does not wait."""

    async def run() -> None:
        task = asyncio.create_task(ask(served, LONG_TO_READ, 1))
        await computing(served)
        await leave(task)
        await resting(served)

    asyncio.run(run())


def test_who_leaves_the_queue_is_never_served(served: Served) -> None:
    """Three come: one is served, one waits and leaves, and when the first leaves too the third is next."""

    async def run() -> ollama.ChatResponse:
        async with streaming(served):
            second = asyncio.create_task(ask(served, COUNT, -1))
            await connected(served, 2)
            third = asyncio.create_task(ask(served, COUNT, 2))
            await connected(served, 3)
            await leave(second)
        async with asyncio.timeout(SOON):
            return await third

    assert asyncio.run(run()).eval_count == 2


def test_the_server_listens_while_it_generates(served: Served) -> None:
    """A health check in the middle of an answer does not wait for its end."""

    async def run() -> list[str | None]:
        async with streaming(served):
            return [await asyncio.to_thread(running_ollama, served.url, 5.0) for _ in range(5)]

    assert None not in asyncio.run(run())
