"""A job that waits is cancelled: wherever its message is, it never starts, and nobody forgets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.cancels import ALL, Cancel, Desk, opened
from tests.e2e.events import Recorded, recording
from tests.eventually import eventually
from tests.nodes import CHAINS, STAGES, House, Played, Valkey, serving

PREFETCHED = ["-c", "1", "--prefetch-multiplier", str(len(ALL) + 1)]
"""One slot, and as many messages behind it as there are ways to cancel."""


@dataclass(frozen=True)
class Place:
    """Where a job waits: for `stage` of `chain`, while a call of the chain `ahead` is under way."""

    chain: str
    stage: str
    ahead: tuple[str, str] | None
    state: str
    after: str


PLACES = {
    "in a queue": Place("lane", "lane-slow", ("lane-hang", "lane-silent"), "PENDING", "lane"),
    "handed off": Place("default", "local", ("lane-hang", "lane-silent"), "RETRY", "lane"),
    "prefetched": Place("quick", "echo", ("hang", "silent"), "RECEIVED", "quick"),
    "parked": Place("parks", "throttled", None, "RETRY", "quick"),
}


@pytest.fixture(scope="module")
def place_of_waiting(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    stages = {**STAGES, "throttled": Played("openai", "status:429:retry-after=40")}
    folder = tmp_path_factory.mktemp("waiting")
    return House(valkey.another(), house.host, folder, stages=stages, chains={**CHAINS, "parks": ("throttled",)})


@pytest.fixture(scope="module")
def desk(place_of_waiting: House) -> Iterator[Desk]:
    with serving(place_of_waiting, PREFETCHED, ["-Q", "ollama"]), opened(place_of_waiting) as desk:
        yield desk


@pytest.fixture(scope="module")
def heard(place_of_waiting: House) -> Iterator[Recorded]:
    with recording(place_of_waiting.url) as heard:
        yield heard


def waits(desk: Desk, job: str, state: str) -> bool:
    """Whether Celery says so; of what a worker has only taken, its events alone tell, and Flower hears them."""
    if state == "RECEIVED":
        return bool(desk.flower.get("/api/tasks?limit=1000").get(job, {}).get("state") == state)
    return bool(desk.foreign.AsyncResult(job).state == state)


@pytest.mark.parametrize("where", ["in a queue", "prefetched"])
def test_a_waiting_foreign_message_never_starts(desk: Desk, prompt: str, where: str) -> None:
    """It holds the request itself and has no record yet, so there is nothing but the message that a revoke can mean."""
    place = PLACES[where]
    assert place.ahead
    ahead = desk.asked(f"{prompt} ahead", *place.ahead)
    queue = "cloud" if where == "prefetched" else "ollama"
    ways = [way for way in ALL if fits(way, "foreign")]
    jobs = {way: sent(desk, f"{prompt} {way.__name__}", place.chain, queue) for way in ways}
    for job in jobs.values():
        eventually(lambda job=job: waits(desk, job, place.state), f"{job} is {where}")

    for way, job in jobs.items():
        way(desk, job)
        desk.is_revoked(job)

    desk.client.cancel(ahead)
    assert desk.client.ask(f"{prompt} after", chain=place.after).text
    for way, job in jobs.items():
        assert desk.house.calls(place.stage, f"{prompt} {way.__name__}") == [], way.__name__
        desk.is_revoked(job)


@pytest.mark.parametrize("where", PLACES)
def test_a_waiting_job_never_starts(desk: Desk, heard: Recorded, prompt: str, where: str) -> None:
    """One job for each way to cancel waits behind the same call; when that is over, none of them is begun."""
    place = PLACES[where]
    ahead = desk.asked(f"{prompt} ahead", *place.ahead) if place.ahead else None
    jobs = {way: desk.client.submit(f"{prompt} {way.__name__}", chain=place.chain) for way in ALL}
    for job in jobs.values():
        eventually(lambda job=job: waits(desk, job, place.state), f"{job} is {where}")
    asked_before = {way: len(desk.house.calls(place.stage, f"{prompt} {way.__name__}")) for way in ALL}

    for way, job in jobs.items():
        way(desk, job)
        eventually(lambda job=job: desk.client.show(job)["status"] == "cancelled", f"{job} {way.__name__} is cancelled")

    if ahead:
        desk.client.cancel(ahead)
    assert desk.client.ask(f"{prompt} after", chain=place.after).text
    for way, job in jobs.items():
        desk.is_revoked(job)
        assert len(desk.house.calls(place.stage, f"{prompt} {way.__name__}")) == asked_before[way], way.__name__
        assert heard.until("task-revoked", job), way.__name__


@pytest.mark.parametrize("kind", ["submitted", "foreign"])
def test_a_worker_that_starts_later_does_not_start_it(make_house: Callable[..., House], prompt: str, kind: str) -> None:
    """It was cancelled while no worker served its lane; who heard of it is killed, and nobody is asked (`mingle`).

    Celery keeps a revoke in the memory of the workers that live, and executes the task once they are gone.
    """
    house = make_house()
    with serving(house, []) as (cloud,), opened(house) as desk:
        jobs = {way: waiting(desk, kind, f"{prompt} {way.__name__}") for way in ALL if fits(way, kind)}
        for way, job in jobs.items():
            way(desk, job)
        by_celery = {job for way, job in jobs.items() if fits(way, "foreign")}
        eventually(lambda: heard_of(desk, by_celery), "the worker has heard of all")
        cloud.kill()
        with serving(house, ["-Q", "ollama", "--without-mingle", "--without-gossip"]):
            assert desk.client.ask(f"{prompt} after", chain="lane").stage == "lane-slow"
            for way, job in jobs.items():
                assert house.calls("lane-slow", f"{prompt} {way.__name__}") == [], way.__name__
                desk.is_revoked(job)


def waiting(desk: Desk, kind: str, prompt: str) -> str:
    """A job in the lane's queue: with a record of its own, or one that only its message describes."""
    if kind == "submitted":
        return desk.client.submit(prompt, chain="lane")
    return sent(desk, prompt, "lane", "ollama")


def sent(desk: Desk, prompt: str, chain: str, queue: str) -> str:
    return str(desk.foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": chain}], queue=queue).id)


def fits(way: Cancel, kind: str) -> bool:
    """Our own ways need the job's record, which a foreign message has only once a worker took it."""
    return kind == "submitted" or way.__name__ not in {"by_command", "by_client"}


def heard_of(desk: Desk, jobs: set[str]) -> bool:
    """Whether the one worker there is remembers that these were revoked."""
    replies = desk.foreign.control.broadcast("revoked", reply=True, limit=1, timeout=5)
    return all(jobs <= set(known) for reply in replies for known in reply.values()) and bool(replies)
