"""A host for each test."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.hosts import Host
from tests.hosts.listener import PROTOCOLS


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=10, verify=False) as client:
        yield client


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
