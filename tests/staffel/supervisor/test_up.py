"""`staffel up` starts everything, keeps it running, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from staffel import embedded
from staffel.embedded.process import free_port
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import Valkey
from tests.staffel.supervisor.up_process import Place, Up, is_alive


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as playing:
        yield playing


@pytest.fixture(scope="module")
def running(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One that most tests share; whoever hurts it waits until it is well again."""
    with Up(Place(tmp_path_factory.mktemp("up"), host), "--port", "0") as up:
        yield up.ready()


@pytest.fixture
def place(host: Host, tmp_path: Path) -> Place:
    return Place(tmp_path, host)


@contextmanager
def started(place: Place, *arguments: str) -> Iterator[Up]:
    with Up(place, *arguments) as up:
        yield up.ready()


def flower(running: Up, path: str, data: bytes | None = None) -> object:
    where = re.search(r"Flower: (http://127\.0\.0\.1:\d+)", running.log)
    assert where, running.log
    with urllib.request.urlopen(where[1] + path, data, timeout=20) as reply:
        return json.load(reply)


# --- while it runs


def test_the_last_line_of_the_start_says_which_redis_where_flower_is_and_how_to_ask(running: Up) -> None:
    """It comes when both lanes have a heartbeat and Flower answers, and the log before it holds no banner."""
    url = embedded.find(running.place.state)
    assert url is not None
    ready = running.says("ready.")
    assert f"Redis: redis://127.0.0.1:{url.port}/0 (embedded)" in ready
    assert re.search(r"Flower: http://127\.0\.0\.1:\d+\.", ready)
    assert 'staffel ask "' in running.says("in another terminal")
    assert not re.search(r"-{5}|tasks\.ask|Visit me|superuser|\bmingle\b", running.log), running.log
    assert all(
        re.match(r"\d\d:\d\d:\d\d (up|cloud|ollama|valkey|flower) +\S", line) for line in running.log.splitlines()
    )


def test_a_question_from_another_terminal_walks_the_chain_and_the_log_tells_it(running: Up) -> None:
    """The cloud worker's and the lane's lines stand in one log, under their names, without prompt and answer."""
    answer = running.place.ask("canary question")
    assert answer["text"] == "from the lane"
    assert [attempt["stage"] for attempt in answer["attempts"]] == ["broken", "local"]
    job = answer["job"]
    assert " cloud " in running.says(f"job {job} 1/2 broken failed server_error 500")
    assert " ollama " in running.says(f"job {job} 2/2 local answered")
    assert "1 failed → local" in running.says(f"job {job} answered: ")
    assert "canary question" not in running.log
    assert "from the lane" not in running.log


def test_flower_lists_both_workers_and_its_buttons_work(running: Up) -> None:
    """Without a login Flower would answer 401 to a revoke; on loopback it is told that this is meant."""
    assert flower(running, "/api/task/revoke/no-such-job", b"") == {"message": "Revoked 'no-such-job'"}

    def lanes() -> set[str]:
        listed = flower(running, "/api/workers?refresh=1")
        assert isinstance(listed, dict)
        return {name.partition("@")[0] for name in listed}

    eventually(lambda: lanes() == {"cloud", "ollama"}, "Flower lists both workers", timeout=40)


def test_the_children_are_out_of_the_terminals_reach_and_their_command_lines_hold_no_password(running: Up) -> None:
    """Ctrl-C in a terminal goes to the whole foreground group, and `ps` shows arguments to everybody."""
    server = embedded.find(running.place.state)
    assert server is not None
    password = server.url.split(":")[2].split("@")[0]
    children = running.children()
    assert len(children) == 4
    assert {os.getsid(child.pid) for child in children} == {child.pid for child in children}
    assert not any(password in " ".join(child.cmdline()) for child in children)
    assert password not in running.log


def test_a_second_one_on_the_same_state_directory_is_refused_in_one_line(running: Up) -> None:
    """The lock is the directory's; the first one is not disturbed."""
    second = running.place.staffel("up", "--port", "0")
    assert second.returncode == 2
    assert re.fullmatch(r"staffel up already runs on .*state: .*\n", second.stderr)
    assert second.stdout == ""
    assert running.process.poll() is None


def test_a_worker_that_is_killed_is_told_and_started_again(running: Up) -> None:
    """One line with its name and how it ended, one when it is back, and questions are answered again."""
    after = running.mark()
    running.child("-Q", "ollama").kill()
    died = running.says("died", after=after)
    assert re.search(
        r" ollama  died \(killed by SIGKILL\); starting it again in 3 s \(1 of 3\)$", died.replace("ERROR: ", "")
    )
    assert " ollama " in running.says("is back", after=after)
    assert running.place.ask("again")["stage"] == "local"


def test_a_valkey_that_is_killed_is_told_and_comes_back_with_everything(running: Up) -> None:
    """The workers find it at the same place, and what was answered before is still there."""
    before = running.place.ask("before")
    server = embedded.find(running.place.state)
    assert server is not None
    after = running.mark()
    os.kill(server.pid, signal.SIGKILL)
    assert " valkey " in running.says("died", after=after)
    assert running.says("valkey  is back", after=after)  # a worker may say first that Redis is back
    again = embedded.find(running.place.state)
    assert again is not None
    assert again.url == server.url
    shown = running.place.staffel("show", "--json", before["job"])
    assert json.loads(shown.stdout)["text"] == "from the lane"
    assert running.place.ask("after")["stage"] == "local"


# --- the end


def test_ctrl_c_ends_it_in_order_and_leaves_nothing(place: Place, host: Host) -> None:
    """A call under way is finished first; no process and no run file is left, and the exit code is 0."""
    with started(place, "--port", "0") as up:
        children = up.children()
        place.staffel("submit", "--chain", "slowly", "finish this")
        eventually(lambda: host.in_flight(place.urls["slow"]), "the call is under way")
        up.signal(signal.SIGINT)
        assert up.ends() == 0
        (call,) = host.calls(place.urls["slow"])
        assert call.outcome == "served", up.log
        assert re.findall(r"^\S+ (\w+) +stopped$", up.log, re.MULTILINE) == ["flower", "cloud", "ollama"]
        assert up.log.splitlines()[-1].endswith("everything has stopped")
    assert len(children) == 4
    assert [child for child in children if is_alive(child)] == []
    assert place.is_clean()


def test_a_second_ctrl_c_hurries(place: Place, host: Host) -> None:
    """The call that would take 50 s more is given up, and the server still ends cleanly."""
    with started(place, "--no-flower") as up:
        children = up.children()
        assert len(children) == 3
        place.staffel("submit", "--chain", "never", "no end")
        eventually(lambda: host.in_flight(place.urls["silent"]), "the call is under way")
        up.signal(signal.SIGTERM)
        assert "Ctrl-C hurries" in up.says("finishes its calls")
        up.signal(signal.SIGINT)
        assert up.ends(15) == 0
    assert [child for child in children if is_alive(child)] == []
    assert place.is_clean()


def test_somebodys_own_redis_is_used_and_left_alone(place: Place, valkey: Valkey) -> None:
    """With STAFFEL_REDIS_URL no server is started, and none is stopped."""
    place.cloud_only()
    with Up(place, "--no-flower", variables={"STAFFEL_REDIS_URL": valkey.another().url}) as up:
        assert f"Redis: redis://127.0.0.1:{valkey.running.port}/" in up.ready().says("ready.")
        assert "embedded" not in up.log
        assert len(up.children()) == 1
        up.signal(signal.SIGTERM)
        assert up.ends() == 0
    assert embedded.find(valkey.folder) == valkey.running
    assert list(place.state.iterdir()) == []


def test_when_it_is_killed_itself_its_workers_end_and_the_next_one_finds_the_server(place: Place) -> None:
    """Nobody is left to stop the children, so the kernel tells them; the data outlives it all.

    The next one ends with its terminal, which says so more than once.
    """
    with started(place, "--port", "0") as up:
        server = embedded.find(place.state)
        assert server is not None
        workers = [child for child in up.children() if child.pid != server.pid]
        assert len(workers) == 3
        up.signal(signal.SIGKILL)
        up.ends()
        eventually(lambda: not any(map(is_alive, workers)), "no worker is left", timeout=30)
        assert embedded.find(place.state) == server
        with started(place, "--no-flower") as again:
            assert f"Redis: redis://127.0.0.1:{server.port}/0" in again.says("ready.")
            again.signal(signal.SIGHUP)
            again.signal(signal.SIGHUP)
            assert again.ends() == 0
    assert place.is_clean()


def test_a_worker_that_dies_again_and_again_ends_everything(place: Place) -> None:
    """Three restarts with a line each, the reason in it; then exit code 1, and nothing is left."""
    place.cloud_only()
    place.state.mkdir(mode=0o700)
    (place.state / "worker.py").write_text("raise SystemExit('a broken installation')\n")
    with Up(place, "--no-flower") as up:
        assert up.ends(60) == 1
        for count in (1, 2, 3):
            line = (
                f"cloud   ERROR: died (exit status 1: a broken installation); starting it again in 3 s ({count} of 3)"
            )
            assert line in up.log
        assert re.search(r"died again .*; stopping everything$", up.log, re.MULTILINE)
        assert "Traceback" not in up.log
    assert place.is_clean()


# --- the start that is refused


def test_a_port_in_use_is_told_in_one_line_and_nothing_is_started(place: Place) -> None:
    """The line names the port and the option; it is tried before anything runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = place.staffel("up", "--port", str(port))
    assert refused.returncode == 2
    assert refused.stderr == f"port {port} is in use: name another with --port, or --no-flower\n"
    assert refused.stdout == ""
    assert place.is_clean()


def test_everything_that_is_wrong_with_the_configuration_is_told_first(place: Place) -> None:
    """Two mistakes, two lines, exit code 2, and no server was started."""
    text = place.config.read_text().replace("timeout = 50", "timeuot = 50").replace('"local"]', '"lokal"]')
    place.config.write_text(text)
    refused = place.staffel("up", "--port", "0")
    assert refused.returncode == 2
    assert "stages.silent.timeuot" in refused.stderr
    assert "chains.default.stages.1" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not place.state.exists()


def test_a_redis_that_is_not_there_is_told_in_one_line(place: Place) -> None:
    """Somebody's own Redis is never started by us: exit code 6, the URL without its password."""
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    refused = place.staffel("up", "--port", "0", STAFFEL_REDIS_URL=url)
    assert refused.returncode == 6
    assert re.fullmatch(r"Redis does not answer at redis://127\.0\.0\.1:\d+/0: .*\n", refused.stderr)
    assert refused.stdout == ""
