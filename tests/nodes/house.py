"""A Redis, a configuration, a scripted host: where a test types what a person would type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from staffel_wire import keys
from tests.hosts import Call, Host
from tests.nodes.stages import CHAINS, KEY, KEY_VARIABLE, STAGES, Chains, Played, write_config
from tests.nodes.valkey import Valkey
from tests.nodes.worker import Worker

BIN = Path(sys.executable).parent
COMMAND_S = 60.0
"""How long a command may take; those that wait for a job are bounded by the job's own deadline."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended; `seconds` by the wall clock, its start and its imports included."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class House:
    """`folder` is the current directory of all that is started here, and holds the configuration."""

    def __init__(
        self,
        valkey: Valkey,
        host: Host,
        folder: Path,
        *,
        stages: Mapping[str, Played] = STAGES,
        chains: Chains = CHAINS,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.valkey, self.host, self.folder, self.variables = valkey, host, folder, variables
        self.urls = write_config(self.config, host, stages, chains)

    @property
    def url(self) -> str:
        return self.valkey.url

    @property
    def config(self) -> Path:
        return self.folder / "staffel.toml"

    @property
    def environ(self) -> dict[str, str]:
        ours = {"STAFFEL_REDIS_URL": self.url, "STAFFEL_CONFIG": str(self.config), "COLUMNS": "120", KEY_VARIABLE: KEY}
        return {**os.environ, **ours, **self.variables}

    def staffel(self, *arguments: str, stdin: str | bytes = b"", **variables: str) -> Finished:
        """Run a command to its end."""
        return self.run([str(BIN / "staffel"), *arguments], stdin, **variables)

    def celery(self, *arguments: str, **variables: str) -> Finished:
        """`celery -A worker ...` to its end."""
        return self.run([str(BIN / "celery"), "-A", "worker", *arguments], **variables)

    def python(self, code: str, **variables: str) -> Any:
        """What a program prints as JSON."""
        finished = self.run([sys.executable, "-W", "error", "-c", code], **variables)
        assert finished.code == 0, finished.err
        return finished.json

    def run(self, argv: Sequence[str], stdin: str | bytes = b"", **variables: str) -> Finished:
        began = time.monotonic()
        ended = subprocess.run(
            argv, cwd=self.folder, env={**self.environ, **variables}, capture_output=True, timeout=COMMAND_S,
            input=stdin.encode() if isinstance(stdin, str) else stdin, check=False,
        )  # fmt: skip
        return Finished(ended.returncode, ended.stdout.decode(), ended.stderr.decode(), time.monotonic() - began)

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command and leave it to the test."""
        return subprocess.Popen(
            [str(BIN / "staffel"), *arguments], cwd=self.folder, env=self.environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def worker(self, *options: str, level: str = "INFO", app: str = "worker", **variables: str) -> Worker:
        """A worker that is not started yet."""
        environ = {**self.environ, **variables}
        return Worker(*options, environ=environ, folder=self.folder, level=level, app=app)

    def calls(self, stage: str, prompt: str) -> list[Call]:
        """The calls that this prompt made at the stage's host."""
        return [call for call in self.host.calls(self.urls[stage]) if prompt in json.dumps(call.body)]

    def jobs(self) -> set[str]:
        """The records there are."""
        with self.valkey.client as client:
            return {key for key in client.scan_iter("staffel:job:*", count=1000) if not key.endswith(":attempts")}

    def record(self, job: str) -> dict[str, str]:
        with self.valkey.client as client:
            return dict(client.hgetall(keys.job(job)))


@contextmanager
def serving(house: House, *commands: Sequence[str], level: str = "INFO", **variables: str) -> Iterator[list[Worker]]:
    """Workers with these options, ready; ended afterwards."""
    with running(*(house.worker(*options, level=level, **variables) for options in commands)) as workers:
        yield workers


@contextmanager
def running(*workers: Worker) -> Iterator[list[Worker]]:
    """These workers, started at the same time and ready; ended afterwards."""
    with ExitStack() as started:
        for worker in workers:
            started.callback(worker.teardown)
            worker.start()
        for worker in workers:
            worker.ready()
        yield list(workers)
