"""A child process in the place of a container.

pytest-celery's nodes ask their container for id, name, status, logs, kill, restart and the like, and check that it is a
`CeleryTestContainer`; they never look for Docker behind it. Nothing documents this, so the pin on pytest-celery
in pyproject.toml holds it.
"""

from __future__ import annotations

import os
import signal as signals
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_celery import CeleryTestContainer

from tests.eventually import eventually

START_S = 40.0
"""How long a process may take to say that it is ready, on a machine that is busy with others."""

STOP_S = 20.0


class ProcessContainer(CeleryTestContainer):
    """Runs `argv`, its output in a file. Started by `start`, ended by `teardown`, both by whoever made it."""

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
        # The base class is not initialised: it would want Docker's own object.
        self._name, self._id = name, uuid.uuid4().hex
        self.argv, self.environ, self.folder = list(argv), dict(environ), folder
        self.log = folder / f"{name}-{self._id[:6]}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> ProcessContainer:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.argv, env=self.environ, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self._name} was never started"
        return self._process

    @property
    def id(self) -> str:
        return self._id

    @property
    def name(self) -> str:
        return self._name

    @property
    def attrs(self) -> Mapping[str, Any]:
        return {"Config": {"Hostname": "127.0.0.1"}}

    @property
    def status(self) -> str:
        return "running" if self._process is not None and self._process.poll() is None else "exited"

    def reload(self) -> None:
        """Nothing is cached."""

    def logs(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ready(self) -> bool:
        """Wait until the log says so; fail with its last lines if the process ends before."""

        def said() -> bool:
            assert self.status == "running", f"{self._name} ended by itself:\n{self.logs()[-3000:]}"
            return self.ready_prompt is None or self.ready_prompt in self.logs()

        return eventually(said, f"{self._name} says that it is ready", START_S)

    def kill(self, signal: str | int = "SIGKILL") -> None:
        """Send a signal, given by name or number, and wait for the end if it is SIGKILL."""
        number = signals.Signals[signal] if isinstance(signal, str) else signals.Signals(signal)
        os.kill(self.process.pid, number)
        if number is signals.SIGKILL:
            self.process.wait(STOP_S)

    def stop(self, seconds: float = STOP_S) -> int:
        """End it as a supervisor does, the hard way if it takes too long; returns the exit code."""
        if self.status == "running":
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self._name} did not end:\n{self.logs()[-3000:]}") from None

    def restart(self, timeout: float = STOP_S) -> None:
        self.stop(timeout)
        self.log.unlink()
        self.start()
        self.ready()

    def teardown(self) -> None:
        if self._process is not None:
            self.stop()
