"""A scripted host, all protocols, and one call of them at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts import Host
from tests.worker.providers.asking import ADAPTERS


@pytest.fixture(scope="package")
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


@pytest.fixture(params=sorted(ADAPTERS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)
