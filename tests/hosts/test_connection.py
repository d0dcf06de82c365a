"""The eye on the client's side of a connection."""

from __future__ import annotations

import asyncio

import pytest

from tests.hosts.connection import WatchedReader


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_close_is_told_in_the_very_cycle_in_which_it_arrives(how: str) -> None:
    """Not when some task wakes up: by then the loop may have read the client's next request from another socket."""

    async def watch() -> list[str]:
        told: list[str] = []
        reader = WatchedReader()
        reader.on_gone = lambda: told.append("gone")
        reader.feed_data(b"some that nobody reads")
        assert told == []
        reader.set_exception(ConnectionResetError()) if how == "reset" else reader.feed_eof()
        reader.feed_eof()
        return told

    assert asyncio.run(watch()) == ["gone"]
