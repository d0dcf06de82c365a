"""`staffel up` as a person runs it: a process, its log, and a second terminal beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from staffel import embedded
from tests.eventually import eventually
from tests.hosts import Host

STAFFEL = Path(sys.executable).parent / "staffel"
READY_S = 60.0
STOP_S = 40.0

_CONFIG = """
[stages.broken]
provider = "openai"
base_url = "{broken}"
model = "m"
[stages.slow]
provider = "openai"
base_url = "{slow}"
model = "m"
[stages.silent]
provider = "openai"
base_url = "{silent}"
model = "m"
timeout = 50
[stages.local]
provider = "ollama"
base_url = "{local}"
model = "m"
[chains.default]
stages = ["broken", "local"]
[chains.slowly]
stages = ["slow"]
[chains.never]
stages = ["silent"]
"""


class Place:
    """A configuration whose stages the host plays, and a state directory with a server in it only while it is used."""

    def __init__(self, folder: Path, host: Host) -> None:
        self.config, self.state = folder / "staffel.toml", folder / "state"
        self.urls = {
            "broken": host.openai("status:500"), "slow": host.openai("ok:delay=1"), "silent": host.openai("silent"),
            "local": host.ollama("ok:text=from the lane"),
        }  # fmt: skip
        self.config.write_text(_CONFIG.format(**self.urls))

    def cloud_only(self) -> None:
        """Take the other lane out: one worker is quicker than two."""
        text = self.config.read_text()
        head, _, chains = text.partition("[stages.local]")
        self.config.write_text(head + chains[chains.index("[chains.default]") :].replace(', "local"', ""))

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "STAFFEL_STATE_DIR": str(self.state), "STAFFEL_CONFIG": str(self.config)}

    def staffel(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        return subprocess.run(
            [STAFFEL, *arguments], env={**self.environ, **variables}, cwd=self.config.parent, capture_output=True,
            text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def ask(self, prompt: str) -> dict[str, Any]:
        """The object of `staffel ask --json`, which finds the embedded server by itself."""
        ended = self.staffel("ask", "--json", prompt)
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))

    def is_clean(self) -> bool:
        return not (self.state / "redis.json").exists() and embedded.find(self.state) is None


_AS_FROM_A_TERMINAL = """\
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Whoever runs the tests under nohup has told every process to be deaf to SIGHUP."""


class Up:
    """The process and the lines it has written; leaving the context ends it and what it started, however it was."""

    def __init__(self, place: Place, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self.place, self._seen = place, list[str]()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AS_FROM_A_TERMINAL, STAFFEL, "up", *arguments],
            env={**place.environ, **(variables or {})}, cwd=place.config.parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self._seen.append(line.decode().rstrip("\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = [] if self.process.poll() is not None else self.children()
        self.process.kill()
        self.process.wait(10)
        for child in left:
            if is_alive(child):
                child.kill()
        embedded.stop(self.place.state, timeout=2)
        self._reader.join(10)

    @property
    def log(self) -> str:
        return "\n".join(self._seen)

    def says(self, text: str, timeout: float = READY_S, *, after: int = 0) -> str:
        """Wait for a line that holds the text, not counting the first `after` lines; returns the line."""

        def find() -> str:
            found = next((line for line in self._seen[after:] if text in line), "")
            assert found or self.process.poll() is None, f"it ended without saying {text!r}:\n{self.log}"
            return found

        try:
            return eventually(find, f"up says {text!r}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def mark(self) -> int:
        return len(self._seen)

    def ready(self) -> Self:
        self.says("in another terminal")
        return self

    def children(self) -> list[psutil.Process]:
        """What it has started, the server too."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, *words: str) -> psutil.Process:
        """The child with these words in its command line."""
        (found,) = [one for one in self.children() if set(words) <= set(one.cmdline())]
        return found

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, timeout: float = STOP_S) -> int:
        """Its exit code; every line is in the log then."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.log}") from None
        self._reader.join(10)
        return code


def is_alive(process: psutil.Process) -> bool:
    """Neither gone nor a zombie that nobody has collected yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
