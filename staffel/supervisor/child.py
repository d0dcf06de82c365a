"""One program as a child: its own session, its lines in the log, its last words kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from staffel.supervisor import tether
from staffel.supervisor.log import LastWords, Log, read
from staffel.supervisor.program import Program

_LINE_BYTES = 1 << 20
_ENDED_BY_OTHERS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT})


class Child:
    """A program that may be started again after it ended; used on one event loop, whose thread it dies with."""

    def __init__(self, program: Program, variables: Mapping[str, str], folder: Path, log: Log) -> None:
        self.program, self.name = program, program.name
        self.ready = asyncio.Event()
        self._variables, self._folder, self._log = variables, folder, log
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._words = LastWords()

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it; raises OSError where the machine has no process left to give.

        The folder is the current one of the child: there is no `worker.py` or `config/` of somebody's app in it.
        """
        self._words = LastWords()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(Path(tether.__file__)), str(os.getpid()), *self.program.argv,
            cwd=self._folder, env=self._variables, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True, limit=_LINE_BYTES,
        )  # fmt: skip
        self._listening = asyncio.create_task(self._listen(self._process.stdout))

    async def _listen(self, lines: asyncio.StreamReader | None) -> None:
        while lines is not None:
            try:
                raw = await lines.readline()
            except ValueError:  # longer than a line can be; the reader has thrown it away
                continue
            if not raw:
                return
            line = read(raw)
            if line.is_shown:
                self._log.say(self.name, line.text, line.level)
            self._words.hear(line)

    async def wait(self) -> str:
        """Wait for its end; how it ended, in words, with its last ones."""
        if self._process is None or self._listening is None:
            return "was never started"
        code = await self._process.wait()
        await asyncio.wait([self._listening], timeout=1)
        self.ready.clear()
        how = f"exit status {code}" if code >= 0 else f"killed by {_signal(-code)}"
        words = "" if -code in _ENDED_BY_OTHERS else self._words.text
        return f"{how}: {words}" if words else how

    def terminate(self) -> None:
        """Ask for an orderly end."""
        self._signal(signal.SIGTERM)

    def hurry(self) -> None:
        """Ask a worker to hand back at once what it has under way."""
        self._signal(signal.SIGQUIT)

    def kill(self) -> None:
        """End it and what it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
