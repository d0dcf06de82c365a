"""The lane runs one request at a time, whatever anybody writes on its command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from celery import Celery
from pytest_celery import CeleryTestSetup

from staffel import Client
from tests.nodes import House, serving


async def ask_many(house: House, number: int, chain: str) -> list[str]:
    async with Client(house.url) as client:
        answers = await asyncio.gather(*(client.ask(f"question {n}", chain=chain) for n in range(number)))
    return [answer.stage for answer in answers]


@pytest.mark.usefixtures("workers")
def test_twenty_jobs_never_meet_at_the_host(house: House) -> None:
    """The shared lane's worker was started with `-c 4`."""
    assert asyncio.run(ask_many(house, 20, "lane")) == ["lane-slow"] * 20
    assert house.host.most_at_once(house.urls["lane-slow"]) == 1


def test_autoscale_does_not_widen_the_lane(make_house: Callable[[], House]) -> None:
    """`--autoscale=4,1` would grow a pool as jobs pile up."""
    house = make_house()
    with serving(house, ["-Q", "ollama", "--autoscale=4,1"]):
        assert asyncio.run(ask_many(house, 20, "lane")) == ["lane-slow"] * 20
    assert house.host.most_at_once(house.urls["lane-slow"]) == 1


def test_widths_and_prefetch(celery_setup: CeleryTestSetup, foreign: Celery) -> None:
    """The cloud worker has 200 slots without a flag, the lane's one, and neither hoards messages."""
    stats = foreign.control.inspect(timeout=10, limit=2).stats()
    found = {
        name.partition("@")[0]: (row["pool"]["max-concurrency"], row["prefetch_count"]) for name, row in stats.items()
    }
    assert found == {"cloud": (200, 200), "ollama": (1, 1)}


def test_without_q_a_worker_serves_the_cloud_only(celery_setup: CeleryTestSetup, foreign: Celery) -> None:
    """A worker that took both would run the lane 200 wide."""
    queues = foreign.control.inspect(timeout=10, limit=2).active_queues()
    served = {name.partition("@")[0]: [queue["name"] for queue in row] for name, row in queues.items()}
    assert served == {"cloud": ["cloud"], "ollama": ["ollama"]}
