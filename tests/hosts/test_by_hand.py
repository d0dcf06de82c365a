"""`python -m tests.hosts`, as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.hosts.answers import TEXT
from tests.hosts.listener import PROTOCOLS, hear

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Started:
    program: subprocess.Popen[str]
    bases: dict[str, str]
    """The base URL of each protocol, as the program says it."""

    @property
    def url(self) -> str:
        return self.bases["ollama"].removesuffix("/BEHAVIOUR")


@pytest.fixture
def by_hand() -> Iterator[Started]:
    """The program, once it has said all it says."""
    command = [sys.executable, "-m", "tests.hosts"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("such as ")):
            said.append(program.stdout.readline())
            assert said[-1], "the program has ended"
        try:
            yield Started(program, dict(line.strip().split(": ", 1) for line in said[:-1]))
        finally:
            program.kill()


def test_each_protocol_is_named_with_its_base_url(by_hand: Started) -> None:
    """A behaviour put into it makes a stage that answers."""
    assert set(by_hand.bases) == set(PROTOCOLS)
    for protocol, base in by_hand.bases.items():
        assert hear(base.replace("BEHAVIOUR", "ok:text=Hello"), protocol, stream=True).text == "Hello"


def test_the_behaviour_stands_in_the_path(by_hand: Started) -> None:
    """All protocols, a script, text in URL quotes, and a stage with a name of its own."""
    url = by_hand.url
    assert hear(f"{url}/status:500,ok/v1", "openai", stream=True).status == 500
    assert hear(f"{url}/status%3A500%2Cok/v1", "openai", stream=True).text == TEXT
    assert hear(f"{url}/s/mine/status:500,ok/v1", "openai", stream=True).status == 500
    assert hear(f"{url}/ok:text=Hello%20there", "ollama", stream=True).text == "Hello there"
    assert hear(f"{url}/status:529", "anthropic", stream=True).error["type"] == "overloaded_error"
    assert hear(f"{url}/s/mine/status:503,ok/v1beta", "gemini", stream=True).error["status"] == "UNAVAILABLE"


def test_the_log_is_shown_as_json(by_hand: Started) -> None:
    """Stage by stage, under the path that names it."""
    url = by_hand.url
    hear(f"{url}/empty", "ollama", stream=True)
    hear(f"{url}/s/mine/ok/v1", "openai", stream=True)
    log = httpx.get(f"{url}/calls").json()
    assert set(log) == {"/empty", "/s/mine/ok"}
    assert (log["/empty"]["most_at_once"], log["/empty"]["in_flight"]) == (1, 0)
    (call,) = log["/s/mine/ok"]["calls"]
    assert (call["protocol"], call["outcome"], call["body"]["model"]) == ("openai", "served", "m")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_word(by_hand: Started, number: signal.Signals) -> None:
    """Also while a call is in flight."""
    program, url = by_hand.program, by_hand.url
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/silent/api/chat", json={}, timeout=0.2)
    program.send_signal(number)
    assert program.communicate(timeout=15) == ("", "")
    assert program.returncode == os.EX_OK


def test_a_port_in_use_is_said_in_one_line(by_hand: Started) -> None:
    """With what to do about it."""
    port = urlsplit(by_hand.url).port
    command = [sys.executable, "-m", "tests.hosts", "--port", str(port)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"cannot listen on port {port}: ")
    assert done.stderr.count("\n") == 1
