"""What the end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from staffel import SyncClient
from tests.e2e.events import Recorded, recording
from tests.nodes import House


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
