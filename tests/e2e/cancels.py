"""Everything by which a person or a program cancels a job, each as it is really done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from celery import Celery

from staffel import SyncClient
from tests.eventually import eventually
from tests.nodes import House
from tests.nodes.flower import Flower


@dataclass(frozen=True)
class Desk:
    """Who cancels, and from where."""

    house: House
    client: SyncClient
    foreign: Celery
    flower: Flower

    def asked(self, prompt: str, chain: str, stage: str) -> str:
        """A job whose call is under way."""
        job = self.client.submit(prompt, chain=chain)
        eventually(lambda: self.house.calls(stage, prompt), f"the host of {stage} is asked")
        return job

    def is_revoked(self, job: str) -> None:
        eventually(
            lambda: self.foreign.AsyncResult(job).state == "REVOKED", f"the result backend says REVOKED of {job}"
        )

    def never_started(self, job: str, stage: str, prompt: str) -> None:
        """All say that it was cancelled, and its stage was not asked."""
        assert self.client.show(job)["status"] == "cancelled"
        self.is_revoked(job)
        assert self.house.calls(stage, prompt) == []


@contextmanager
def opened(house: House) -> Iterator[Desk]:
    """A desk at a house of its own, whose workers run already."""
    foreign = Celery("caller", broker=house.url, backend=house.url, set_as_current=False)
    flower = Flower(environ=house.environ, folder=house.folder)
    try:
        with SyncClient(house.url) as client:
            flower.start()
            flower.ready()
            eventually(lambda: flower.get("/api/workers"), "Flower has met a worker", 30)
            yield Desk(house, client, foreign, flower)
    finally:
        flower.teardown()
        foreign.close()


Cancel = Callable[[Desk, str], None]


def by_command(desk: Desk, job: str) -> None:
    assert desk.house.staffel("cancel", job).code == 0


def by_client(desk: Desk, job: str) -> None:
    assert desk.client.cancel(job) in {"cancelling", "cancelled"}


def by_sigterm(desk: Desk, job: str) -> None:
    """Celery's own default signal."""
    desk.foreign.control.revoke(job, terminate=True)


def by_sigkill(desk: Desk, job: str) -> None:
    """What a person sends who wants to be sure; in a thread, that signal would end the worker."""
    desk.foreign.control.revoke(job, terminate=True, signal="SIGKILL")


def by_revoke(desk: Desk, job: str) -> None:
    desk.foreign.control.revoke(job)


def by_flower_terminate(desk: Desk, job: str) -> None:
    desk.flower.get(f"/api/task/revoke/{job}?terminate=true", data=b"")


def by_flower_revoke(desk: Desk, job: str) -> None:
    desk.flower.get(f"/api/task/revoke/{job}?terminate=false", data=b"")


ENDING: tuple[Cancel, ...] = (by_command, by_client, by_sigterm, by_sigkill, by_flower_terminate)
"""Those that end a running job too."""

ALL: tuple[Cancel, ...] = (*ENDING, by_revoke, by_flower_revoke)
"""Those that keep a waiting job from starting."""
