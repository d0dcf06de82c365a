"""A Celery worker in a process of its own, and its node."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from pytest_celery import CeleryTestWorker

from tests.nodes.process import ProcessContainer

CELERY = Path(sys.executable).parent / "celery"


class Worker(ProcessContainer):
    """`celery -A worker worker OPTIONS`, as a person starts it; `-l INFO` so that it says when it is ready."""

    def __init__(
        self, *options: str, environ: Mapping[str, str], folder: Path, level: str = "INFO", app: str = "worker"
    ) -> None:
        self._queue = options[options.index("-Q") + 1] if "-Q" in options else "cloud"
        argv = [str(CELERY), "-A", app, "worker", "-l", level, *options]
        super().__init__(self._queue, argv, environ, folder)
        self._level = level

    @property
    def ready_prompt(self) -> str:
        return " ready.\n"

    def version(self) -> str:
        return "this"

    def log_level(self) -> str:
        return self._level

    def worker_name(self) -> str:
        return self._name

    def worker_queue(self) -> str:
        return self._queue


def named(lane: str) -> str:
    """What a lane's worker on this machine calls itself without `-n`."""
    return f"{lane}@{socket.gethostname()}"


BOTH = [named("cloud"), named("ollama")]
"""The shared house's workers; a broadcast reaches other apps' on the same Redis too."""


class WorkerNode(CeleryTestWorker):
    """A worker's node; asks the machine for processes, where the stock one would ask a container."""

    def hostname(self) -> str:
        return named(self.worker_queue)

    def get_running_processes_info(
        self, columns: list[str] | None = None, filters: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        parent = psutil.Process(self.container.process.pid)
        rows = [process.as_dict(columns) for process in [parent, *parent.children(recursive=True)]]
        return [row for row in rows if all(row.get(key) == value for key, value in (filters or {}).items())]
