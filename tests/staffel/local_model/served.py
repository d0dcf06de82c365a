"""The real model in a process of its own, and a plain HTTP client for it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection

import psutil

MODEL = "smollm2:135m"
# A list that the grammar does not let end before its 1900th number: over 3800 tokens, whatever the model wants.
ENDLESS = {"type": "array", "items": {"type": "integer"}, "minItems": 1900}
_WHILE = 0.5  # seconds of rest that count as idle
_RESTING = 0.1  # of one core


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str

    @property
    def error(self) -> str:
        return str(json.loads(self.text)["error"])


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, response.read().decode())
        finally:
            connection.close()

    def chat(self, **fields: object) -> Reply:
        return self.post("/api/chat", **{"messages": [{"role": "user", "content": "Hello"}], **fields})

    def post(self, path: str, **fields: object) -> Reply:
        """One answer in one piece, unless `stream` says otherwise."""
        return self.ask("POST", path, json.dumps({"model": MODEL, "stream": False, **fields}).encode())


class Resting:
    """Asked again and again: true once the process has used next to no CPU for half a second."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._mark = self._sample()

    def __call__(self) -> bool:
        then, used = self._mark
        now, total = self._sample()
        if now - then < _WHILE:
            return False
        self._mark = now, total
        return (total - used) / (now - then) < _RESTING

    def _sample(self) -> tuple[float, float]:
        return time.monotonic(), busy_seconds(self._process)


def busy_seconds(process: psutil.Process) -> float:
    """The CPU time of the server and of the process in which llama.cpp runs."""
    total = 0.0
    for one in (process, *process.children()):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


@contextmanager
def started(*options: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m staffel.local_model`, killed at the end if it is still there."""
    command = [sys.executable, "-m", "staffel.local_model", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving() -> Iterator[Served]:
    with started("--port", "0") as process:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"no ready line but {line!r}"
        yield Served(found.group(), process)


@contextmanager
def one_that_says(answer: bytes | None) -> Iterator[str]:
    """The URL of a listener that takes one connection and sends `answer`, or nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def take_one() -> None:
            taken, _ = listener.accept()
            with taken:
                taken.recv(4096)
                if answer is None:
                    over.wait(10)
                else:
                    taken.sendall(answer)

        thread = threading.Thread(target=take_one)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()
