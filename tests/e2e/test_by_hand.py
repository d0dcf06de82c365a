"""What a person types at running workers: Celery's own commands work, and show nothing that they should not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from staffel import SyncClient
from tests.eventually import eventually
from tests.nodes import House
from tests.nodes.worker import BOTH


@pytest.mark.usefixtures("workers")
def test_celerys_own_commands(house: House, client: SyncClient, prompt: str) -> None:
    """`inspect active`, `status`, `report` and `revoke` work, and none of them shows a prompt or the password."""
    job = client.submit(prompt, chain="lane-hang")
    eventually(lambda: house.calls("lane-silent", prompt), "the host is asked")
    behind = client.submit(prompt, chain="lane")
    lines = [("inspect", "active"), ("status",), ("report",), ("control", "revoke", behind)]

    with ThreadPoolExecutor(4) as threads:
        active, status, report, revoke = done = list(threads.map(lambda line: house.celery(*line), lines))

    assert [command.code for command in done] == [0, 0, 0, 0]
    assert job in active.out
    assert "tasks.ask" in active.out
    assert all(f"{name}: OK" in status.out for name in BOTH)
    assert "threads" in report.out
    assert behind in revoke.out
    assert client.show(behind)["status"] == "cancelled"
    everything = "".join(command.out + command.err for command in done)
    assert prompt not in everything
    assert house.valkey.password not in everything
