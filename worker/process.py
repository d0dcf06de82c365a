"""The runtime of this process: one, made when a worker starts."""

from __future__ import annotations

from worker.runtime import Runtime

_runtime: list[Runtime] = []


def runtime() -> Runtime:
    """The runtime; only a worker process has one."""
    if not _runtime:
        raise RuntimeError("a job runs in a worker only: celery -A worker worker")
    return _runtime[0]


def here() -> Runtime | None:
    """The runtime, or None where this is no worker process."""
    return _runtime[0] if _runtime else None


def set_runtime(made: Runtime) -> Runtime:
    _runtime[:] = [made]
    return made
