"""What is written down of Celery's having heard of a job's end, however long Redis is away."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from worker.state.connection import AWAY
from worker.state.open_jobs import OpenJobs
from worker.state.patient import patiently

OnLoop = Callable[[Coroutine[Any, Any, None]], concurrent.futures.Future[None]]


class Telling:
    """Every step returns before it is written down; any thread may ask for one."""

    def __init__(self, jobs: OpenJobs, on_loop: OnLoop) -> None:
        self._jobs, self._on_loop = jobs, on_loop
        self._writing: set[concurrent.futures.Future[None]] = set()

    def told(self, job: str) -> None:
        """Celery has heard of this job's end."""
        self._begin(lambda: self._jobs.told(job))

    def untold(self, job: str) -> None:
        """What Celery has heard of this job's end was written over: it is to be told again, if the job has ended."""
        self._begin(lambda: self._jobs.untold(job))

    def _begin(self, step: Callable[[], Awaitable[None]]) -> None:
        writing = self._on_loop(_written(step))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def wait(self, seconds: float) -> None:
        """Until all is written, at most so long: what is not, is told to Celery once more by another worker."""
        concurrent.futures.wait(list(self._writing), seconds)


async def _written(step: Callable[[], Awaitable[None]]) -> None:
    with suppress(*AWAY):  # Redis refuses it for minutes: Celery may hear twice
        await patiently(step)
