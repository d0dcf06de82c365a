"""The walls around all tests hold: nothing of the developer's environment gets in, and nothing gets out."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from tests.conftest import OutsideWorld

ELSEWHERE = ("192.0.2.1", 80)
"""An address of RFC 5737, which belongs to nobody."""


def test_a_socket_to_another_machine_is_refused() -> None:
    """With no `Exception`, so that a client's error handling does not take it for a network that is down."""
    with socket.socket() as endpoint, pytest.raises(OutsideWorld):
        endpoint.connect(ELSEWHERE)
    assert not issubclass(OutsideWorld, Exception)


def test_an_event_loops_socket_is_refused_too() -> None:
    async def connect() -> None:
        await asyncio.open_connection(*ELSEWHERE)

    with pytest.raises(OutsideWorld):
        asyncio.run(connect())


def test_the_environment_is_clean() -> None:
    """No key, no proxy, no configuration and no state of whoever runs the tests."""
    assert not [name for name in os.environ if name.startswith("STAFFEL_") or name.endswith("_API_KEY")]
    assert not [name for name in os.environ if name.lower().endswith("_proxy")]
    assert not os.listdir(os.environ["HOME"])  # noqa: PTH208 - a name, no path, is all that matters
