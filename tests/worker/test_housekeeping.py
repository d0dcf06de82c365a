"""What a worker process does beside its jobs, against a Redis of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
from redis import Redis

from config.file import General
from staffel import embedded
from staffel_wire import keys
from tests.eventually import eventually_async
from tests.nodes import Valkey
from worker.failover.chain import Stop
from worker.housekeeping import Housekeeping
from worker.state.connection import connect
from worker.state.redis import RedisState

MEMBER = "cloud/me/1"


@pytest.fixture
def mine(valkey: Valkey) -> Valkey:
    """A database of one's own."""
    return valkey.another()


@asynccontextmanager
async def keeping(url: str, send: Callable[[str], None], running: dict[str, Stop] | None = None) -> AsyncIterator[None]:
    """A process that keeps house there."""
    redis = connect(url)
    state = RedisState(redis, {}, General())
    house = Housekeeping(state, MEMBER, running or {}, lambda: redis.set(keys.CATALOGUE, "{}", nx=True), send)
    task = asyncio.create_task(house.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await redis.aclose()


def parked(redis: Redis, **signatures: str) -> None:
    """Jobs whose time has come."""
    for job, signature in signatures.items():
        redis.hset(keys.job(job), mapping={"status": "parked", "signature": signature} if signature else {"a": "b"})
        redis.zadd(keys.PARKED, {job: 0})


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "staffel"]


def test_what_is_due_is_sent_on_whatever_the_others_are(mine: Valkey, caplog: pytest.LogCaptureFixture) -> None:
    """One has no message and is forgotten, one cannot be sent: a line that holds nothing of it; the third is sent."""
    sent = []

    def send(text: str, _: str | None) -> None:
        if text == "secret":
            raise ValueError(text)
        sent.append(text)

    async def test() -> None:
        with mine.client as redis:
            parked(redis, a="", b="secret", c="fine")
            async with keeping(mine.url, send):
                await eventually_async(lambda: sent, "it is sent")
                await eventually_async(lambda: told(caplog), "the other is told")
                assert redis.zscore(keys.PARKED, "a") is None
                assert redis.zscore(keys.PARKED, "b") is not None

    with caplog.at_level(logging.INFO, "staffel"):
        asyncio.run(test())
    assert sent == ["fine"]
    assert told(caplog) == ["parked job b could not be sent on (ValueError); it is tried again"]


def test_a_message_that_takes_long_delays_no_beat(mine: Valkey) -> None:
    """The process would be taken for dead, and its jobs be given to others."""
    began, go_on = threading.Event(), threading.Event()

    def send(_: str, __: str | None) -> None:
        began.set()
        go_on.wait(10)

    async def test() -> None:
        with mine.client as redis:
            parked(redis, a="slow")
            async with keeping(mine.url, send):
                await eventually_async(began.is_set, "it is being sent")
                last = redis.zscore(keys.WORKERS, MEMBER)
                for _ in range(2):
                    await eventually_async(lambda: redis.zscore(keys.WORKERS, MEMBER) != last, "it beats on")  # noqa: B023
                    last = redis.zscore(keys.WORKERS, MEMBER)
                go_on.set()

    asyncio.run(test())


def test_a_cancelled_job_is_told_to_stop(mine: Valkey) -> None:
    """Its record says so; whoever cancels knows no worker."""
    stops = {"a": Stop(), "b": Stop()}

    async def test() -> None:
        with mine.client as redis:
            redis.hset(keys.job("a"), "cancel", 1)
            async with keeping(mine.url, lambda *_: None, stops):
                await eventually_async(lambda: stops["a"].asked, "it is heard of")

    asyncio.run(test())
    assert not stops["b"].asked


def test_an_outage_is_one_line_at_its_beginning_and_one_at_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first says what goes on and what does not, the last how long it was."""
    server = Valkey.started(tmp_path)

    async def test() -> None:
        async with keeping(server.url, lambda *_: None):
            with server.client as redis:
                await eventually_async(lambda: redis.get(keys.CATALOGUE), "it says what it can do")
            os.kill(server.running.pid, signal.SIGKILL)
            await eventually_async(lambda: told(caplog), "it is noticed")
            await eventually_async(lambda: not psutil.pid_exists(server.running.pid), "Redis is gone")
            server.running = await asyncio.to_thread(embedded.start, server.folder)
            await eventually_async(lambda: len(told(caplog)) > 1, "its end is noticed")
            with server.client as redis:
                await eventually_async(lambda: redis.zscore(keys.WORKERS, MEMBER), "it lives")

    try:
        with caplog.at_level(logging.INFO, "staffel"):
            asyncio.run(test())
    finally:
        server.stop()
    first, last = told(caplog)
    assert first.startswith("Redis is away (")
    assert first.endswith("): calls under way go on and their results wait here; nothing new starts")
    assert last.startswith("Redis is back after ")
    assert last.endswith(" s: results are written; new jobs start once Celery is there too")
