"""Each host once for all cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import targets
from tests.contract.targets import Target


@pytest.fixture(scope="session", params=targets.names())
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with targets.target(str(request.param)) as target:
        yield target
