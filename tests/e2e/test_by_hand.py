"""What a person types at a worker: Celery's own commands work, and a start that cannot work says so in a line."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from celery.concurrency.thread import TaskPool

from staffel import Client, SyncClient, Unavailable
from tests.eventually import eventually
from tests.nodes import Finished, House
from tests.nodes.worker import BOTH
from worker.pool import lane_of, refuse_unfit

EXIT_S = 5.0
"""The most that is promised for the time until a missing Redis is told."""


@pytest.mark.usefixtures("workers")
def test_celerys_own_commands(house: House, client: SyncClient, prompt: str) -> None:
    """`inspect active`, `status`, `report` and `revoke` work, and none of them shows a prompt or the password."""
    job = client.submit(prompt, chain="lane-hang")
    eventually(lambda: house.calls("lane-silent", prompt), "the host is asked")
    behind = client.submit(prompt, chain="lane")
    lines = [("inspect", "active"), ("status",), ("report",), ("control", "revoke", behind)]

    with ThreadPoolExecutor(2) as threads:
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


def last_line(done: Finished) -> str:
    """What was said in the end; before it Celery may warn of the user that runs it."""
    assert "Traceback" not in done.err
    return done.err.strip().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["-P", "solo"], "-P solo cannot run these tasks; use threads: celery -A worker worker -P threads -Q cloud"),
        (["-Q", "cloud,ollama"], "-Q cloud,ollama: a worker serves one lane, since their widths differ. "
         "Start one each: celery -A worker worker -Q cloud; celery -A worker worker -Q ollama"),
    ],
)  # fmt: skip
def test_a_start_that_cannot_work_is_refused(house: House, options: list[str], line: str) -> None:
    """With the right command to use."""
    done = house.celery("worker", *options)
    assert (done.code, last_line(done)) == (1, line)


def test_gevent_is_refused(house: House, tmp_path: Path) -> None:
    """Celery imports it before it looks for any app, so it is played here by a package that patches nothing."""
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("version_info = (26, 9)\nfrom gevent import monkey, signal\n")
    (tmp_path / "gevent" / "monkey.py").write_text("def patch_all(**_): pass\n")
    (tmp_path / "gevent" / "signal.py").write_text("")

    done = house.celery("worker", "-P", "gevent", PYTHONPATH=str(tmp_path))

    line = "-P gevent cannot run these tasks; use threads: celery -A worker worker -P threads -Q cloud"
    assert (done.code, last_line(done)) == (1, line)


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_green_pool_that_is_not_installed(house: House, pool: str) -> None:
    """Celery ends by itself, before anything of ours is imported; the last line of its traceback names the pool."""
    done = house.celery("worker", "-P", pool)
    assert done.code == 1
    assert done.err.strip().splitlines()[-1] == f"ModuleNotFoundError: No module named '{pool}'"


@pytest.mark.parametrize("pool", ["prefork", "solo", "gevent", "eventlet"])
def test_only_threads_are_fit(pool: str) -> None:
    """`-P processes`, Celery's old name for prefork, passed the guard and ran every job in a child without a loop."""
    unfit = type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"})
    with pytest.raises(SystemExit, match=f"-P {pool} cannot run these tasks; use threads: .* -P threads -Q attic$"):
        refuse_unfit(unfit, "attic")
    refuse_unfit(TaskPool, "attic")


@pytest.mark.parametrize(
    ("queues", "line"),
    [
        (["olama"], "-Q olama: no stage runs on 'olama'; lanes are attic, cloud, ollama"),
        ([], "no queue is left to serve: celery -A worker worker -Q cloud"),
        (["attic", "ollama"], "-Q attic,ollama: a worker serves one lane, since their widths differ. Start one each: "
         "celery -A worker worker -Q attic; celery -A worker worker -Q ollama"),
    ],
)  # fmt: skip
def test_queues_that_make_no_lane_are_refused(queues: list[str], line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        lane_of(queues, ["ollama", "attic"])
    assert ended.value.code == line


def test_a_worker_without_redis_says_so(house: House) -> None:
    """One line, within some seconds, and not the password."""
    done = house.celery("worker", STAFFEL_REDIS_URL="redis://:hidden@127.0.0.1:1/0")

    line = "Redis does not answer at redis://127.0.0.1:1/0: start it, or set STAFFEL_REDIS_URL"
    assert (done.code, last_line(done)) == (6, line)
    assert "hidden" not in done.err
    assert done.seconds < 2 * EXIT_S  # of which Celery's own start may take some


def test_a_url_that_is_none(house: House) -> None:
    """Celery met it with a traceback, since it builds its backend from it before any worker is refused."""
    done = house.celery("worker", STAFFEL_REDIS_URL="amqp://:hidden@127.0.0.1")

    line = "STAFFEL_REDIS_URL: amqp://127.0.0.1 is no Redis URL; write redis://HOST:PORT/0"
    assert (done.code, last_line(done)) == (1, line)


def test_importing_the_tasks_ends_nobody(house: House) -> None:
    """A web backend with a mistake in its environment gets an exception, no exit."""
    told = house.python("""
import json, os
os.environ["STAFFEL_REDIS_URL"] = "user:hidden@host"
try:
    import tasks
except Exception as error:
    print(json.dumps(str(error)))
""")
    assert told.endswith("STAFFEL_REDIS_URL: host is no Redis URL; write redis://HOST:PORT/0")


def test_all_mistakes_of_a_file_at_once(house: House, tmp_path: Path) -> None:
    """A worker says the same as `staffel check`, and starts nothing."""
    bad = tmp_path / "bad.toml"
    bad.write_text("""
answer_ttl = 0
[stages.a]
provider = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "m"
timout = 3
[stages.b]
provider = "clay"
[chains.default]
stages = ["a", "c"]
""")
    worker, check = (house.celery("worker", STAFFEL_CONFIG=str(bad)), house.staffel("check", STAFFEL_CONFIG=str(bad)))

    assert (worker.code, check.code) == (1, 2)
    assert check.err.strip() in worker.err
    assert "Traceback" not in worker.err
    for key in ("answer_ttl", "stages.a.timout", "stages.b.provider", "stages.b", "chains.default.stages.1"):
        assert f"  {key}: " in check.err


def test_a_redis_that_says_nothing() -> None:
    """A port that accepts and never answers, as behind a broken proxy, is given up after 3 s.

    Each of two attempts, and each coroutine's turn after the other, had 3 s of its own.
    """

    async def work(url: str) -> None:
        async with Client(url) as client:
            asked = [client.show("job") for _ in range(5)]
            for error in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(error, Unavailable)
                assert str(error) == f"Redis does not answer at {url}: start it, or set STAFFEL_REDIS_URL"

    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        asyncio.run(work(f"redis://127.0.0.1:{silent.getsockname()[1]}/0"))
    assert time.monotonic() - began < EXIT_S
