"""Several workers of one lane: one serves, the others follow it, and the host never hears two at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.hosts import Call, Outcome
from tests.nodes import House, Valkey, Worker, serving
from tests.nodes.stages import Played

STAGES = {
    "quick": Played("ollama", "ok:text=home:delay=0.1", {"local": True, "timeout": 6}),
    "long": Played("ollama", "ok:text=home:delay=6", {"local": True, "timeout": 9}),
    "hangs": Played("ollama", "silent,ok:text=home", {"local": True, "timeout": 60, "cool_off": 2}),
}
CHAINS = {f"a-{name}": {"stages": (name,), "deadline": 100} for name in STAGES}
FOLLOWED_S = 10.0


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    folder = tmp_path_factory.mktemp("lane")
    variables = {"STAFFEL_DRAIN": "1"}
    return House(valkey.another(), house.host, folder, stages=STAGES, chains=CHAINS, variables=variables)


@pytest.fixture
def asker(place: House) -> Iterator[SyncClient]:
    with SyncClient(place.url) as asker:
        yield asker


def lane(number: int) -> list[list[str]]:
    return [["-Q", "ollama", "-n", f"ollama{n}@%h"] for n in range(number)]


def owner(place: House, workers: Sequence[Worker]) -> Worker:
    """The worker that holds the lane."""

    def found() -> Worker | None:
        with place.valkey.client as redis:
            holder = " ".join(redis.zrange(keys.lane("ollama"), 0, 0))
        return next((worker for worker in workers if f"/{worker.process.pid}-" in holder), None)

    return eventually(found, "one worker holds the lane")


def calls(place: House, stage: str) -> list[Call]:
    return place.host.calls(place.urls[stage])


def never_two(place: House) -> bool:
    """Also not of two stages: they are one host."""
    spans = sorted((call.started, call.ended) for stage in STAGES for call in calls(place, stage))
    return all(ended is not None and ended <= began for (_, ended), (began, _) in pairwise(spans))


def test_five_workers_one_is_killed_and_one_is_paused(place: House, asker: SyncClient) -> None:
    """Started by mistake, jobs flow; the lane is served again within 10 s of a death, and nobody is lost."""
    with serving(place, *lane(5)) as workers:
        jobs = [asker.submit(f"question {n}", chain="a-quick") for n in range(150)]
        eventually(lambda: len(calls(place, "quick")) > 20, "the jobs flow")
        first = owner(place, workers)
        eventually(lambda: place.host.in_flight(place.urls["quick"]), "a call is under way")
        first.kill()
        died, before = time.monotonic(), len(calls(place, "quick"))
        others = [worker for worker in workers if worker is not first]
        eventually(lambda: len(calls(place, "quick")) > before, "another one serves the lane", FOLLOWED_S)
        assert calls(place, "quick")[before].started - died < FOLLOWED_S
        second = owner(place, others)
        eventually(lambda: place.host.in_flight(place.urls["quick"]), "a call is under way again")
        second.kill("SIGSTOP")
        try:
            paused = len(calls(place, "quick"))
            eventually(lambda: len(calls(place, "quick")) > paused + 1, "the paused one is followed", 40)
        finally:
            second.kill("SIGCONT")
        assert [asker.wait(job).stage for job in jobs] == ["quick"] * len(jobs)
    assert never_two(place)


def test_a_paused_owner_is_waited_for_while_its_call_may_run(place: House, asker: SyncClient) -> None:
    """Its heart stands still, but its connections live: nobody can know that it has no call at the host.

    Paused for 6 s in a call of 6 s, it wakes up as the owner still, and its answer counts; nobody is asked twice.
    """
    with serving(place, *lane(2)) as workers:
        job = asker.submit("question one", chain="a-long")
        eventually(lambda: calls(place, "long"), "the host is asked")
        first = owner(place, workers)
        first.kill("SIGSTOP")
        began = time.monotonic()
        try:
            eventually(lambda: time.monotonic() - began > 5, "more than a lease has passed")
            assert owner(place, workers) is first
        finally:
            first.kill("SIGCONT")
        assert asker.wait(job).stage == "long"
        assert len(calls(place, "long")) == 1
        assert owner(place, workers) is first


def test_an_idle_owner_that_is_paused_is_followed_at_once(place: House, asker: SyncClient) -> None:
    with serving(place, *lane(2)) as workers:
        assert asker.ask("question one", chain="a-quick").stage == "quick"
        first = owner(place, workers)
        first.kill("SIGSTOP")
        try:
            eventually(lambda: owner(place, workers) is not first, "another one holds the lane", FOLLOWED_S)
            # Redis gives this one to the paused worker, which had asked for it; its message is found to be nowhere.
            assert asker.ask("question two", chain="a-quick").stage == "quick"
        finally:
            first.kill("SIGCONT")
        assert owner(place, workers) is not first
        eventually(lambda: "another worker's now" in first.logs(), "it has seen that it lost the lane")
        assert asker.ask("question three", chain="a-quick").stage == "quick"
    assert never_two(place)


def test_the_host_is_left_alone_after_a_call_that_was_broken_off(place: House, asker: SyncClient) -> None:
    """A cancelled call, and its owner's end: in both the next call comes `cool_off` after it, and not before."""
    with serving(place, *lane(1)) as (worker,):
        job, next_one = (asker.submit(f"question {n}", chain="a-hangs") for n in range(2))
        eventually(lambda: calls(place, "hangs"), "the host is asked")
        eventually(lambda: place.record(next_one)["status"] == "running", "the next one is made ready")
        asker.cancel(job)
        assert asker.wait(next_one).stage == "hangs"
        first, second = calls(place, "hangs")
        assert first.outcome is Outcome.ABORTED
        assert first.closed_at is not None
        assert second.started - first.closed_at >= 1.9
        assert worker.process.poll() is None


def test_the_next_one_follows_an_owner_that_ends(place: House, asker: SyncClient) -> None:
    """Told to end, it hands back what it has: the one under way as unknown, the one made ready as if never admitted."""
    with serving(place, *lane(2)) as workers:
        first = owner(place, workers)
        job, next_one = (asker.submit(f"question {n}", chain="a-hangs") for n in range(2))
        eventually(lambda: calls(place, "hangs"), "the host is asked")
        eventually(lambda: place.record(next_one)["status"] == "running", "the next one is made ready")
        first.kill(signal.SIGTERM)
        answers = [asker.wait(one) for one in (job, next_one)]
        assert [answer.stage for answer in answers] == ["hangs"] * 2
        outcomes = [[attempt["outcome"] for attempt in answer.attempts] for answer in answers]
        assert outcomes == [["unknown", "answered"], ["answered"]]
        broken, *others = calls(place, "hangs")
        assert broken.closed_at is not None
        assert others[0].started - broken.closed_at >= 1.9
        assert len(others) == 2
    assert never_two(place)


def test_a_standby_is_no_sick_worker(place: House) -> None:
    with serving(place, *lane(2)) as workers:
        owner(place, workers)
        eventually(lambda: place.staffel("health", "--lane", "ollama").code == 0, "both are healthy")
