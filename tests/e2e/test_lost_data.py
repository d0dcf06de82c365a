"""A Redis that comes back empty."""

from __future__ import annotations

import pytest

from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import House


@pytest.mark.usefixtures("workers")
def test_it_learns_again_what_the_workers_can_do(house: House) -> None:
    """Workers said only at their start what they can do: after a FLUSHDB nobody could submit until the next one."""
    with house.valkey.client as client:
        client.delete(keys.CATALOGUE)
        eventually(lambda: client.exists(keys.CATALOGUE), "the catalogue is back", 20)
    assert house.staffel("ask", "--chain", "quick", "hello").code == 0
