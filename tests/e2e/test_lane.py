"""The lane runs one request at a time, whatever anybody writes on its command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

import pytest
from celery import Celery
from pytest_celery import CeleryTestSetup

from staffel import Client
from tests.nodes import House, serving
from tests.nodes.worker import BOTH


async def ask_many(house: House, number: int, chain: str) -> list[str]:
    async with Client(house.url) as client:
        answers = await asyncio.gather(*(client.ask(f"question {n}", chain=chain) for n in range(number)))
    return [answer.stage for answer in answers]


@pytest.mark.usefixtures("workers")
def test_twenty_jobs_never_meet_at_the_host(house: House) -> None:
    """The shared lane's worker was started with `-c 4`."""
    assert asyncio.run(ask_many(house, 20, "lane")) == ["lane-slow"] * 20
    assert house.host.most_at_once(house.urls["lane-slow"]) == 1


def test_flags_that_mean_something_else_here(make_house: Callable[..., House]) -> None:
    """`--autoscale=4,1` would widen the lane as jobs pile up, and does not.

    `-P prefork` cannot be told from no `-P`, so it means the configured threads. On the cloud `-c` is honoured.
    """
    house = make_house()
    with serving(house, ["-P", "prefork", "-c", "3"], ["-Q", "ollama", "--autoscale=4,1"]) as (cloud, lane):
        assert asyncio.run(ask_many(house, 8, "lane")) == ["lane-slow"] * 8
        assert ".> concurrency: 3 (thread)" in cloud.logs()
        assert ".> concurrency: 2 (thread)" in lane.logs()  # one that runs, one that is made ready
    assert house.host.most_at_once(house.urls["lane-slow"]) == 1


@pytest.mark.usefixtures("workers")
def test_the_cloud_is_wide(house: House) -> None:
    """200 jobs at once against a host that takes 2 s each, in three times the ideal at most, best of three."""
    spans: list[float] = []
    while len(spans) < 3 and min(spans, default=inf) > 3 * 2:
        began = time.monotonic()
        assert asyncio.run(ask_many(house, 200, "wide")) == ["two-seconds"] * 200
        spans.append(time.monotonic() - began)
    assert min(spans) <= 3 * 2, spans


def test_widths_and_prefetch(celery_setup: CeleryTestSetup, foreign: Celery) -> None:
    """The cloud worker has 200 slots without a flag, the lane's two, and neither hoards messages."""
    stats = foreign.control.inspect(BOTH, timeout=10).stats()
    found = {
        name.partition("@")[0]: (row["pool"]["max-concurrency"], row["prefetch_count"]) for name, row in stats.items()
    }
    assert found == {"cloud": (200, 200), "ollama": (2, 2)}


def test_without_q_a_worker_serves_the_cloud_only(celery_setup: CeleryTestSetup, foreign: Celery) -> None:
    """A worker that took both would run the lane 200 wide."""
    queues = foreign.control.inspect(BOTH, timeout=10).active_queues()
    served = {name.partition("@")[0]: sorted(queue["name"] for queue in row) for name, row in queues.items()}
    assert served == {"cloud": ["cloud", "cloud.batch"], "ollama": ["ollama", "ollama.batch"]}
