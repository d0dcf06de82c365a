"""Flower started by hand: it lists what it should, in words a person can use, and its buttons work."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import psutil
import pytest

from staffel import SyncClient
from tests.eventually import eventually
from tests.hosts import Outcome
from tests.nodes import House
from tests.nodes.flower import Flower
from tests.nodes.worker import BOTH
from worker.flower import flower_defaults

pytestmark = pytest.mark.usefixtures("workers")


def test_it_lists_both_workers_and_the_readable_line(flower: Flower, client: SyncClient, prompt: str) -> None:
    """The API works without a login on loopback; a finished job's row says what became of it."""
    job = client.ask(prompt).job

    row = eventually(lambda: found(flower, job, "SUCCESS"), "Flower knows of the success")

    assert row["name"] == "tasks.ask"
    assert row["result"].startswith("1 failed → local ")
    assert row["args"] == f"('{job}',)"
    assert set(BOTH) <= set(flower.get("/api/workers"))
    assert job in flower.get(f"/task/{job}")


def found(flower: Flower, job: str, state: str) -> dict[str, Any]:
    row = flower.get("/api/tasks?limit=100").get(job, {})
    return row if row.get("state") == state else {}


def test_its_terminate_button(flower: Flower, house: House, client: SyncClient, prompt: str) -> None:
    """What the button posts ends the job: the call is closed, and Flower says REVOKED."""
    job = client.submit(prompt, chain="hang")
    eventually(lambda: house.calls("silent", prompt), "the host is asked")
    eventually(lambda: found(flower, job, "STARTED"), "Flower has seen the start")

    flower.get(f"/api/task/revoke/{job}?terminate=true&signal=SIGKILL", data=b"")

    eventually(lambda: house.calls("silent", prompt)[0].outcome is Outcome.ABORTED, "the call is closed")
    eventually(lambda: found(flower, job, "REVOKED"), "Flower says that it was revoked")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "elsewhere.example"},
    ],
)
def test_a_page_of_another_site_can_press_nothing(flower: Flower, headers: dict[str, str]) -> None:
    """A browser on this machine shows other sites too: one of them could end a worker, or read an answer."""
    for path in ("/api/worker/shutdown/cloud@nowhere", "/api/tasks"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{flower.port}{path}", headers=headers, data=b"" if "shutdown" in path else None
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        with refused.value as reply:
            assert reply.code == 403
            assert "Access-Control-Allow-Origin" not in reply.headers


def test_the_pages_open(flower: Flower) -> None:
    """The pages that people look at, rendered by the real server."""
    for path in ("/", "/workers", "/tasks", "/broker"):
        assert "<html" in flower.get(path)


def test_it_listens_on_loopback_only(flower: Flower) -> None:
    """It can run tasks and read results, so nobody else may reach it unless its starter says so."""
    connections = psutil.Process(flower.process.pid).net_connections("inet")
    assert {c.laddr.ip for c in connections if c.status == "LISTEN"} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("arguments", "environ", "opened"),
    [
        (["flower"], {}, True),
        (["flower", "--address=127.0.0.2"], {}, True),
        (["flower", "--address", "::1"], {}, True),
        (["flower", "--address=localhost"], {}, True),
        (["flower", "--address=0.0.0.0"], {}, False),
        (["flower", "--address", "10.0.0.5"], {}, False),
        (["flower", "--address=flower.example"], {}, False),
        (["flower"], {"FLOWER_ADDRESS": "0.0.0.0"}, False),
        (["flower", "--address=0.0.0.0"], {"FLOWER_ADDRESS": "127.0.0.1"}, False),
        (["worker"], {}, False),
    ],
)
def test_only_on_loopback_is_there_no_login(arguments: list[str], environ: dict[str, str], opened: bool) -> None:
    """Everywhere else Flower's API answers 401 without a login, as it does by itself."""
    flower_defaults(["celery", "-A", "worker", *arguments], environ)
    assert ("FLOWER_UNAUTHENTICATED_API" in environ) is opened
