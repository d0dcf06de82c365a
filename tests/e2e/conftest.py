"""What the end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from staffel import SyncClient
from tests.e2e.events import Recorded, recording
from tests.e2e.shop import shop_of
from tests.eventually import eventually
from tests.nodes import House, Worker, running
from tests.nodes.flower import Flower
from tests.nodes.worker import BOTH


@pytest.fixture(scope="session")
def recorded(house: House) -> Iterator[Recorded]:
    """All Celery events of the shared house."""
    with recording(house.url) as recorded:
        yield recorded


@pytest.fixture(scope="session")
def client(house: House) -> Iterator[SyncClient]:
    """A client of the shared house, for all that is not the test's own subject: it needs no process of its own."""
    with SyncClient(house.url) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails in the middle leaves no job on the shared workers: they would not end before it does."""
    if "workers" not in request.fixturenames:
        yield
        return
    house: House = request.getfixturevalue("house")
    client: SyncClient = request.getfixturevalue("client")
    yield
    with house.valkey.client as redis:
        for key in house.jobs():
            if redis.hget(key, "status") in {"queued", "running", "parked"}:
                client.cancel(key.partition("{")[2].removesuffix("}"))


@pytest.fixture(scope="session")
def shop(house: House) -> Iterator[Worker]:
    """A worker of somebody else's app, on the same Redis, with tasks and a queue of its own."""
    with running(shop_of(house)) as (worker,):
        yield worker


@pytest.fixture(scope="session")
def flower(house: House, workers: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    """`celery -A worker flower` for the shared house."""
    flower = Flower(environ=house.environ, folder=tmp_path_factory.mktemp("flower"))
    flower.start()
    try:
        flower.ready()
        eventually(lambda: set(BOTH) <= set(flower.get("/api/workers")), "Flower has met both workers", 30)
        yield flower
    finally:
        flower.teardown()
