"""Bad input is refused where it enters: one line, the design's exit code, and no job left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from staffel import Client, Invalid, SyncClient, embedded
from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import Finished, House, Valkey

pytestmark = pytest.mark.usefixtures("workers")

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an empty prompt": ({"prompt": " \n"}, "the prompt is empty"),
    "no prompt": ({}, "give a prompt or messages"),
    "both": ({"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "not both"),
    "an unknown chain": ({"prompt": "x", "chain": "nowhere"}, "chain: there is no 'nowhere'; there are "),
    "a message without role": ({"messages": [{"content": "x"}]}, "messages.0.role: missing"),
    "an unknown role": ({"messages": [{"role": "bard", "content": "x"}]}, "messages.0.role: "),
    "a negative deadline": ({"prompt": "x", "deadline": -1}, "deadline: "),
    "no time at all": ({"prompt": "x", "deadline": 0}, "deadline: "),
    "a deadline that is none": ({"prompt": "x", "deadline": float("nan")}, "deadline: "),
    "a field with a typo": ({"prompt": "x", "temprature": 1}, "temprature: not a field of a request; there are "),
    "a field that is not supported yet": ({"prompt": "x", "stream": True}, "stream: not supported yet; leave it out"),
    "a lone surrogate": ({"prompt": "half \ud83d"}, "prompt: holds a lone surrogate"),
    "parameters of no stage": ({"prompt": "x", "params": {"stage": {}}}, "params.stage: there is no such stage"),
    "a chain with nothing in the house": ({"prompt": "x", "chain": "quick", "local_only": True}, "local_only: "),
    "too long": ({"prompt": "x" * 4_000_001}, "the request is 4,000,"),
}


@pytest.mark.parametrize(("request_", "line"), BAD.values(), ids=BAD)
def test_the_client_refuses(house: House, client: SyncClient, request_: dict[str, Any], line: str) -> None:
    """With a `ValueError` of one line that quotes nothing of the caller's text."""
    before = house.jobs()
    with pytest.raises(Invalid) as refused:
        client.submit(request_)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert house.jobs() == before


BY_COMMAND: dict[str, tuple[Sequence[str], bytes, str]] = {
    "an empty prompt": (["ask", ""], b"", "the prompt is empty"),
    "a negative deadline": (["ask", "x", "--deadline", "-1"], b"", "deadline: "),
    "no time at all": (["ask", "x", "--deadline", "0"], b"", "deadline: "),
    "an unknown chain": (["submit", "x", "--chain", "nowhere"], b"", "there is no 'nowhere'"),
    "too long, from stdin": (["submit", "-"], b"x" * 4_000_001, "at most 4,000,000 are taken (max_request_bytes)"),
    "no UTF-8, from stdin": (["ask", "-"], b"caf\xe9", "prompt: holds a lone surrogate"),
    "no JSON": (["ask", "--request", "{"], b"", "--request: not JSON"),
    "JSON without a bottom": (["ask", "--request", "-"], b"[" * 100_000, "--request: not JSON that can be read"),
    "no id": (["show", "two\nlines"], b"", "job: an id is printable text"),
    "not supported yet": (["ask", "--request", '{"prompt": "x", "stream": true}'], b"", "stream: not supported yet"),
    "an unknown job": (["wait", "nobody"], b"", "there is no job nobody"),
}


@pytest.mark.parametrize(("arguments", "stdin", "line"), BY_COMMAND.values(), ids=BY_COMMAND)
def test_the_command_line_refuses(house: House, arguments: Sequence[str], stdin: bytes, line: str) -> None:
    """Exit code 2 and the same line; with --json it stands in an object on stdout too."""
    before = house.jobs()
    done = house.staffel(*arguments, "--json", stdin=stdin)

    assert done.code == 2
    assert line in only_line(done)
    assert done.json == {"error": only_line(done), "exit_code": 2}
    assert house.jobs() == before


def only_line(done: Finished) -> str:
    (line,) = done.err.splitlines()
    return line


def test_bytes_that_are_no_text(house: House) -> None:
    """What a shell passes on may be no UTF-8."""
    done = house.staffel(os.fsdecode(b"ask"), os.fsdecode(b"caf\xe9"), "--json")
    assert (done.code, "prompt: holds a lone surrogate" in only_line(done)) == (2, True)


def test_zero_is_a_value(house: House, prompt: str) -> None:
    """`--temperature 0` and `--seed 0` reach the host; they were taken for options that nobody gave."""
    done = house.staffel("ask", prompt, "--chain", "quick", "--temperature", "0", "--seed", "0", "--json")
    assert done.code == 0
    (call,) = house.calls("echo", prompt)
    assert (call.body["temperature"], call.body["seed"]) == (0, 0)


def test_a_houses_own_limit_holds_for_the_first_request_too(make_house: Callable[..., House], house: House) -> None:
    """A client that had not yet read what the workers publish measured with the default, 4 MB."""
    narrow = make_house()
    with house.valkey.client as busy, narrow.valkey.client as redis:
        catalogue = json.loads(busy.get("staffel:catalogue"))
        redis.set("staffel:catalogue", json.dumps({**catalogue, "max_request_bytes": 1_000}))

    async def submit(prompt: str) -> None:
        async with Client(narrow.url) as client:
            await client.submit(prompt)

    with pytest.raises(Invalid, match=r"at most 1,000 are taken"):
        asyncio.run(submit("x" * 1_000))
    with narrow.valkey.client as redis:
        redis.set("staffel:catalogue", json.dumps({**catalogue, "max_request_bytes": 5_000_000}))
    asyncio.run(submit("x" * 4_000_001))
    assert len(narrow.jobs()) == 1


def test_no_redis(house: House) -> None:
    """Exit code 6, the URL without its password, and what to do; with --json too."""
    away = "Redis does not answer at redis://127.0.0.1:1/0: start it, or set STAFFEL_REDIS_URL"
    for url, line in [
        ("redis://:hidden@127.0.0.1:1/0", away),
        ("", "no Redis: set STAFFEL_REDIS_URL, or start everything here with `staffel up`"),
    ]:  # fmt: skip
        done = house.staffel("ask", "Anybody there?", "--json", STAFFEL_REDIS_URL=url)
        assert (done.code, only_line(done)) == (6, line)
        assert done.json == {"error": line, "exit_code": 6}
        assert done.seconds < 5


def test_a_password_that_is_wrong(house: House) -> None:
    """Not "start it": it is there."""
    url = house.url.replace("redis://:", "redis://:not-")
    done = house.staffel("show", "job", STAFFEL_REDIS_URL=url)
    assert done.code == 6
    assert done.err.splitlines()[-1].endswith("refuses the password; mend STAFFEL_REDIS_URL")
    assert "not-" not in done.err


def test_a_redis_that_refuses(house: House) -> None:
    """Its own reason is told, as for a full or a read-only one; here a database that it does not have."""
    done = house.staffel("show", "job", "--json", STAFFEL_REDIS_URL=f"{house.url.rpartition('/')[0]}/1000")
    assert done.code == 6
    assert only_line(done).endswith("/1000 refuses: DB index is out of range")


def test_nobody_on_the_lane(house: House, client: SyncClient) -> None:
    """One line says so and what to run, before there is a job."""
    before = house.jobs()
    done = house.staffel("ask", "Anybody there?", "--chain", "nobody", "--json")

    line = (
        "no worker serves the lane 'attic': start one with `celery -A worker worker -Q attic`, or `staffel up`; "
        "nothing was submitted"
    )
    assert (done.code, only_line(done)) == (6, line)
    assert house.jobs() == before


def test_nobody_on_the_next_lane(house: House, prompt: str) -> None:
    """A job that goes on to a lane without a worker waits there; who asked is told within 2 s of its coming there."""
    asking = house.spawn("ask", prompt, "--chain", "then-nobody")
    assert asking.stderr is not None
    lines = [asking.stderr.readline() for _ in range(2)]
    asking.send_signal(2)
    asking.communicate(timeout=20)
    assert "waits: no worker serves the lane 'attic': start one with `celery -A worker worker -Q attic`" in lines[1]
    assert asking.returncode == 130


@pytest.fixture
def lonely(house: House, tmp_path: Path) -> Iterator[House]:
    """A house whose Valkey may be killed; it knows what the shared house's workers can do, and has none."""
    server = Valkey.started(tmp_path)
    try:
        with house.valkey.client as busy, server.client as redis:
            redis.set(keys.CATALOGUE, busy.get(keys.CATALOGUE))
        yield House(server, house.host, tmp_path)
    finally:
        server.stop()


def waiting(lonely: House, job: str) -> subprocess.Popen[str]:
    """`staffel wait`, which has met Redis: it says that nobody serves the job's lane."""
    command = lonely.spawn("wait", job)
    assert command.stderr is not None
    while "no worker serves" not in (line := command.stderr.readline()):
        assert line, "it has ended"
    return command


def kill(valkey: Valkey) -> None:
    pid = valkey.running.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(pid), "Redis is gone")


def test_a_wait_outlives_a_redis_that_starts_again(lonely: House) -> None:
    """Half a second without Redis ended it with exit code 6 and no job's id, while the job went on."""
    with SyncClient(lonely.url) as client:
        job = client.submit("Anybody there?", chain="quick")
        command = waiting(lonely, job)
        kill(lonely.valkey)
        lonely.valkey.running = embedded.start(lonely.valkey.folder)
        eventually(partial(client.cancel, job), "it is cancelled")
        _, told = command.communicate(timeout=20)
    assert (command.returncode, told) == (130, f"cancelled: no stage was asked (job {job})\n")


def test_a_wait_without_redis_says_how_to_go_on(lonely: House) -> None:
    """After some seconds, in one line that names the job."""
    with SyncClient(lonely.url) as client:
        job = client.submit("Anybody there?", chain="quick")
    command = waiting(lonely, job)
    kill(lonely.valkey)
    _, told = command.communicate(timeout=30)
    (line,) = told.splitlines()
    assert command.returncode == 6
    assert line.startswith("Redis does not answer at ")
    assert line.endswith(f"; job {job} goes on without you: `staffel wait {job}` brings its answer")
