"""The embedded server is one, is found again, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import redis

from staffel import embedded
from tests.eventually import eventually
from tests.staffel.embedded.servers import client, crash, mode, servers_of

STARTER = """
import sys
from pathlib import Path
from staffel import embedded
print("ready", flush=True)
sys.stdin.readline()
print(embedded.start(Path(sys.argv[1])).pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A state directory that is not there yet, and no server in it when the test is over."""
    place = tmp_path / "state"
    yield place
    embedded.stop(place, timeout=2)


@contextmanager
def starter(home: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process group of its own that starts the server when it is sent a line, prints the pid, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin
    process.stdin.write(line + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_three_processes_that_start_at_once_get_one_server(home: Path) -> None:
    """Whoever comes second waits for the first one's server instead of starting another on the same data."""
    with ExitStack() as stack:
        starters = [stack.enter_context(starter(home)) for _ in range(3)]
        assert [hear(one) for one in starters] == ["ready"] * 3
        for one in starters:
            say(one)
        pids = {int(hear(one)) for one in starters}
    assert len(pids) == 1
    assert servers_of(home) == list(pids)


def test_threads_that_start_at_once_get_one_server(home: Path) -> None:
    """The lock tells threads of one process apart as well."""
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(embedded.start(home).pid)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert servers_of(home) == sorted(set(found))


def test_it_is_found_by_others_and_started_only_once(home: Path) -> None:
    """`find` answers None before, and afterwards what `start` answered; a second `start` changes nothing."""
    assert embedded.find(home) is None
    running = embedded.start(home)
    assert embedded.find(home) == running
    assert embedded.start(home) == running
    assert running.url.endswith(f"@127.0.0.1:{running.port}/0")
    assert running.url.split("@")[0] not in repr(running)


def test_data_survives_an_orderly_stop_and_start(home: Path) -> None:
    """A stop ends the process, forgets where it was and keeps the data; the next start has another password."""
    first = embedded.start(home)
    with client(first) as connected:
        connected.set("kept", "yes")
    assert embedded.stop(first) is True
    eventually(lambda: not psutil.pid_exists(first.pid), "the stopped server is gone, and no zombie either")
    assert servers_of(home) == []
    assert sorted(path.name for path in home.iterdir()) == ["data", "redis.lock", "redis.log"]
    assert embedded.find(home) is None
    assert embedded.stop(home) is False

    second = embedded.start(home)
    assert second.url != first.url
    with client(second) as connected:
        assert connected.get("kept") == "yes"


def test_a_kill_loses_no_acknowledged_write_and_the_url_stays(home: Path) -> None:
    """What the server said yes to is there again after SIGKILL, and old clients find it where it was."""
    first = embedded.start(home)
    acknowledged: list[str] = []

    def write() -> None:
        with client(first) as connected:
            try:
                while True:
                    connected.set(key := f"key:{len(acknowledged)}", "x")
                    acknowledged.append(key)
            except redis.ConnectionError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    eventually(lambda: len(acknowledged) > 200, "200 writes were acknowledged")
    crash(first)
    writer.join(10)

    second = embedded.start(home)
    assert second.url == first.url
    assert second.pid != first.pid
    with client(second) as connected:
        assert connected.exists(*acknowledged) == len(acknowledged)
        assert connected.config_get("appendfsync") == {"appendfsync": "always"}
        assert connected.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_a_torn_tail_of_the_data_is_cut_off(home: Path) -> None:
    """A write that was never finished, and so never acknowledged, keeps nobody from starting."""
    first = embedded.start(home)
    with client(first) as connected:
        connected.set("kept", "yes")
        connected.set("torn", "x" * 100)
    crash(first)
    tail = next(first.data.rglob("*.incr.aof"))
    os.truncate(tail, tail.stat().st_size - 20)
    with client(embedded.start(home)) as connected:
        assert connected.keys() == ["kept"]


def test_it_outlives_the_sudden_death_of_the_whole_group_that_started_it(home: Path) -> None:
    """A terminal's signals and the starter's crash do not reach it, and the starter's keys are not in it."""
    with starter(home, OPENAI_API_KEY="canary-key") as process:
        assert hear(process) == "ready"
        say(process)
        pid = int(hear(process))
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    running = embedded.find(home)
    assert running is not None
    assert running.pid == pid
    assert os.getsid(pid) == pid
    assert "canary-key" not in str(psutil.Process(pid).environ())


def test_only_the_owner_can_read_it_and_no_command_line_shows_the_password(home: Path) -> None:
    """Directories are 0700, files 0600, and `ps` shows the configuration's path, not its content."""
    running = embedded.start(home)
    password = running.url.split(":")[2].split("@")[0]
    assert len(password) >= 43
    assert password not in " ".join(psutil.Process(running.pid).cmdline())
    assert {path.name: mode(path) for path in home.iterdir()} == {
        "data": 0o700,
        "redis.conf": 0o600,
        "redis.json": 0o600,
        "redis.lock": 0o600,
        "redis.log": 0o600,
    }
    assert mode(home) == 0o700
    assert {mode(path) for path in running.data.rglob("*") if path.is_file()} == {0o600}
    with client(running, password="guess") as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_a_server_whose_starter_died_before_noting_its_pid_is_still_known(home: Path) -> None:
    """The note is written before the start, so that a starter killed in between leaves no unknown server."""
    running = embedded.start(home)
    note = json.loads((home / "redis.json").read_text())
    (home / "redis.json").write_text(json.dumps(note | {"pid": 0}))
    assert embedded.start(home) == running
    assert embedded.stop(home) is True
    assert servers_of(home) == []


def test_stop_with_an_old_handle_leaves_a_later_server_alone(home: Path) -> None:
    """Somebody stopped ours and started another: that one is not ours to stop."""
    old = embedded.start(home)
    embedded.stop(home)
    new = embedded.start(home)
    assert embedded.stop(old) is False
    assert embedded.find(home) == new


def test_any_path_will_do(tmp_path: Path) -> None:
    """Spaces, quotes, umlauts and line ends in a path reach the server as they are."""
    home = tmp_path / "Büro \"Süd\" 'x' \\ #1"
    try:
        running = embedded.start(home)
        with client(running) as connected:
            assert connected.config_get("dir") == {"dir": str(home / "data")}
        assert embedded.find(home) == running
    finally:
        embedded.stop(home)


def test_a_long_log_is_set_aside(home: Path) -> None:
    """The log is bounded: one old log is kept, the new one begins empty."""
    home.mkdir(mode=0o700)
    (home / "redis.log").write_text("x" * 1_000_001)
    embedded.start(home)
    assert (home / "redis.log.1").stat().st_size == 1_000_001
    assert (home / "redis.log").stat().st_size < 10_000
