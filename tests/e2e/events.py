"""What Celery tells those who listen: all events of a house, as Flower would get them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery import Celery

from tests.eventually import eventually


class Recorded:
    """Every event since the start."""

    def __init__(self) -> None:
        self.all: list[Mapping[str, Any]] = []

    def of(self, job: str) -> list[Mapping[str, Any]]:
        """A job's events by the time at which they were sent; two workers' may arrive in another order."""
        return sorted((e for e in list(self.all) if e.get("uuid") == job), key=lambda event: event["timestamp"])

    def until(self, kind: str, job: str) -> list[Mapping[str, Any]]:
        """The events of a job, once one of this kind has come."""
        eventually(lambda: any(event["type"] == kind for event in self.of(job)), f"{kind} of {job}")
        return self.of(job)


@contextmanager
def recording(url: str) -> Iterator[Recorded]:
    """Listen in a thread of its own, from now on."""
    recorded, listening = Recorded(), threading.Event()
    app = Celery("listener", broker=url, set_as_current=False)
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": recorded.all.append})
        receiver.on_consume_ready = lambda *_args, **_options: listening.set()
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, name="events")
        thread.start()
        assert listening.wait(10), "the broker lets nobody listen"
        yield recorded
        receiver.should_stop = True
        thread.join()
    app.close()
