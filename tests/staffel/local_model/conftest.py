"""One real model for all tests here: it takes a second to load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.staffel.local_model.served import Served, serving


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    with serving() as served:
        yield served
