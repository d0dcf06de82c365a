"""Whoever asks through Celery without Staffel installed, and the worker that has a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from celery import Celery

from tests.eventually import eventually
from tests.nodes import House, Worker


@contextmanager
def calling(url: str) -> Iterator[Celery]:
    """A Celery app that knows the names of a task and a queue."""
    app = Celery("caller", broker=url, backend=url, set_as_current=False)
    app.conf.broker_transport_options = {"unacked_key": "staffel:unacked"}
    yield app
    app.close()


def who_has(house: House, workers: Sequence[Worker], job: str) -> tuple[str, Worker]:
    """The worker that has the job, once one has it, and its name."""
    name = eventually(lambda: house.record(job).get("owner"), "a worker has it").split("/")[1]
    return name, next(worker for worker in workers if name in " ".join(worker.argv))
