"""A start that cannot work says so in a line, with the command or the value to use instead."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.concurrency.thread import TaskPool

from staffel import Client, Unavailable
from tests.nodes import Finished, House
from worker.pool import lane_of, refuse_unfit

EXIT_S = 5.0
"""The most that is promised for the time until a missing Redis is told."""

BAD = """
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
"""

STARTS: Mapping[str, tuple[list[str], dict[str, str]]] = {
    "solo": (["-P", "solo"], {}),
    "both lanes": (["-Q", "cloud,ollama"], {}),
    "gevent": (["-P", "gevent"], {"PYTHONPATH": "green"}),
    "no Redis": ([], {"STAFFEL_REDIS_URL": "redis://:hidden@127.0.0.1:1/0"}),
    "no URL": ([], {"STAFFEL_REDIS_URL": "amqp://:hidden@127.0.0.1"}),
    "an odd query": ([], {"STAFFEL_REDIS_URL": "redis://127.0.0.1:1/0?foo=hidden"}),
    "bad file": ([], {"STAFFEL_CONFIG": "bad.toml"}),
}


@pytest.fixture(scope="module")
def starts(house: House) -> Mapping[str, Finished]:
    """How each of these starts ended; all at once, since Celery alone takes some seconds to load."""
    (house.folder / "bad.toml").write_text(BAD)
    green = house.folder / "green" / "gevent"
    green.mkdir(parents=True)
    # Celery imports gevent before it looks for any app, so it is played here by a package that patches nothing.
    (green / "__init__.py").write_text("version_info = (26, 9)\nfrom gevent import monkey, signal\n")
    (green / "monkey.py").write_text("def patch_all(**_): pass\n")
    (green / "signal.py").write_text("")
    with ThreadPoolExecutor(3) as threads:
        ends = threads.map(lambda start: house.celery("worker", *start[0], **start[1]), STARTS.values())
        return dict(zip(STARTS, ends, strict=True))


def last_line(done: Finished) -> str:
    """What was said in the end; before it Celery may warn of the user that runs it."""
    assert "Traceback" not in done.err
    assert "hidden" not in done.err
    return done.err.strip().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("start", "code", "line"),
    [
        ("solo", 1, "-P solo cannot run these tasks; use threads: celery -A worker worker -P threads -Q cloud"),
        ("gevent", 1, "-P gevent cannot run these tasks; use threads: celery -A worker worker -P threads -Q cloud"),
        ("both lanes", 1, "-Q cloud,ollama: a worker serves one lane, since their widths differ. "
         "Start one each: celery -A worker worker -Q cloud; celery -A worker worker -Q ollama"),
        ("no Redis", 6, "Redis does not answer at redis://127.0.0.1:1/0: start it, or set STAFFEL_REDIS_URL"),
        ("no URL", 1, "STAFFEL_REDIS_URL: amqp://127.0.0.1 is no Redis URL; write redis://HOST:PORT/0"),
        ("an odd query", 1, "STAFFEL_REDIS_URL: redis://127.0.0.1:1/0 is no Redis URL; write redis://HOST:PORT/0"),
    ],
)  # fmt: skip
def test_a_start_that_cannot_work_is_refused(starts: Mapping[str, Finished], start: str, code: int, line: str) -> None:
    """A URL that is none met Celery's traceback, since the backend is built from it before any worker is refused."""
    assert (starts[start].code, last_line(starts[start])) == (code, line)


def test_all_mistakes_of_a_file_at_once(house: House, starts: Mapping[str, Finished]) -> None:
    """A worker says the same as `staffel check`, and starts nothing."""
    worker, check = starts["bad file"], house.staffel("check", STAFFEL_CONFIG="bad.toml")

    assert (worker.code, check.code) == (1, 2)
    assert check.err.strip() in worker.err
    assert "Traceback" not in worker.err
    for key in ("answer_ttl", "stages.a.timout", "stages.b.provider", "stages.b", "chains.default.stages.1"):
        assert f"  {key}: " in check.err


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
        (["olama.batch"], "-Q olama: no stage runs on 'olama'; lanes are attic, cloud, ollama"),
        ([], "no queue is left to serve: celery -A worker worker -Q cloud"),
        (["attic", "ollama"], "-Q attic,ollama: a worker serves one lane, since their widths differ. Start one each: "
         "celery -A worker worker -Q attic; celery -A worker worker -Q ollama"),
    ],
)  # fmt: skip
def test_queues_that_make_no_lane_are_refused(queues: list[str], line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        lane_of(queues, ["ollama", "attic"])
    assert ended.value.code == line


@pytest.mark.parametrize("queues", [["ollama"], ["ollama.batch"], ["ollama.batch", "ollama"]])
def test_either_queue_of_a_lane_is_the_lane(queues: list[str]) -> None:
    assert lane_of(queues, ["ollama", "attic"]) == "ollama"


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
