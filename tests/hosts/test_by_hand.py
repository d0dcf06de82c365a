"""`python -m tests.hosts`, as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.hosts.behaviours import TEXT
from tests.hosts.listener import hear

ROOT = Path(__file__).parents[2]


@pytest.fixture
def by_hand() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program and the address it says."""
    command = [sys.executable, "-m", "tests.hosts"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        address = line.removeprefix("base URLs: ").partition("/BEHAVIOUR/v1 (openai)")[0]
        try:
            yield program, address
        finally:
            program.kill()


def test_the_behaviour_stands_in_the_path(by_hand: tuple[subprocess.Popen[str], str]) -> None:
    """Both protocols, a script, text in URL quotes, and a stage with a name of its own."""
    _, url = by_hand
    assert hear(f"{url}/status:500,ok/v1", stream=True).status == 500
    assert hear(f"{url}/status%3A500%2Cok/v1", stream=True).text == TEXT
    assert hear(f"{url}/s/mine/status:500,ok/v1", stream=True).status == 500
    assert hear(f"{url}/ok:text=Hello%20there", stream=True).text == "Hello there"


def test_the_log_is_shown_as_json(by_hand: tuple[subprocess.Popen[str], str]) -> None:
    """Stage by stage, under the path that names it."""
    _, url = by_hand
    hear(f"{url}/empty", stream=True)
    hear(f"{url}/s/mine/ok/v1", stream=True)
    log = httpx.get(f"{url}/calls").json()
    assert set(log) == {"/empty", "/s/mine/ok"}
    assert (log["/empty"]["most_at_once"], log["/empty"]["in_flight"]) == (1, 0)
    (call,) = log["/s/mine/ok"]["calls"]
    assert (call["protocol"], call["outcome"], call["body"]["model"]) == ("openai", "served", "m")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_word(by_hand: tuple[subprocess.Popen[str], str], number: signal.Signals) -> None:
    """Also while a call is in flight."""
    program, url = by_hand
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/silent/api/chat", json={}, timeout=0.2)
    program.send_signal(number)
    assert program.communicate(timeout=15) == ("", "")
    assert program.returncode == os.EX_OK


def test_a_port_in_use_is_said_in_one_line(by_hand: tuple[subprocess.Popen[str], str]) -> None:
    """With what to do about it."""
    port = urlsplit(by_hand[1]).port
    command = [sys.executable, "-m", "tests.hosts", "--port", str(port)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"cannot listen on port {port}: ")
    assert done.stderr.count("\n") == 1
