"""What several worker processes know together: no one asks a dead stage for itself, or more than a rate allows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import House, Valkey, Worker, running
from tests.nodes.monitor import monitored
from tests.nodes.stages import Played

WORKERS, SLOTS = 3, 4
RECOVERY_S = 2.0
BREAKER = {"open_for": RECOVERY_S, "open_growth": 1}
RATE = {"requests_per_minute": 600, "burst": 1}

STAGES = {
    "dead": Played("openai", "status:500:delay=0.1", {"breaker": BREAKER}),
    "second": Played("openai", "ok:text=second:delay=0.05"),
    "rated": Played("openai", "ok", RATE),
    "narrow": Played("openai", "ok:delay=0.1", {"max_in_flight": 2}),
    "sick": Played("openai", "status:500,status:500,silent,ok", {"breaker": {**BREAKER, "consecutive_failures": 2}}),
    "held": Played("openai", "silent,ok", {"max_in_flight": 1}),
}
CHAINS = {
    "dead-first": ("dead", "second"),
    "good": ("second",),
    "rate": ("rated",),
    "places": ("narrow",),
    "sick-first": ("sick", "second"),
    "one-place": ("held",),
}


@pytest.fixture(scope="module")
def crowd(
    valkey: Valkey, house: House, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[House, list[Worker]]]:
    """Some worker processes of a few slots each."""
    home = House(valkey.another(), house.host, tmp_path_factory.mktemp("crowd"), stages=STAGES, chains=CHAINS)
    workers = [home.worker("-Q", "cloud", "-c", str(SLOTS), "-n", f"w{number}@here") for number in range(WORKERS)]
    with running(*workers):
        yield home, workers
        for worker in workers:
            worker.process.poll()  # one was killed


@pytest.fixture
def home(crowd: tuple[House, list[Worker]]) -> House:
    return crowd[0]


@pytest.fixture
def ask(home: House) -> Iterator[SyncClient]:
    with SyncClient(home.url) as client:
        yield client


def times(home: House, stage: str) -> list[float]:
    """When each call came to the stage's host."""
    return sorted(call.started for call in home.host.calls(home.urls[stage]))


def submitted(client: SyncClient, count: int, chain: str) -> list[str]:
    return [client.submit(f"question {number}", chain=chain, deadline=60) for number in range(count)]


def test_a_dead_stage_is_asked_by_a_few_and_then_by_one_at_a_time(home: House, ask: SyncClient) -> None:
    """Those under way when it died, then one in each recovery window, whoever it is; the others go on at once."""
    jobs = submitted(ask, 150, "dead-first")
    assert {ask.wait(job).stage for job in jobs} == {"second"}
    calls = times(home, "dead")
    probes = [at for at in calls if at >= calls[0] + RECOVERY_S]
    assert 5 <= len(calls) - len(probes) <= 5 + WORKERS * SLOTS
    assert all(later - earlier >= RECOVERY_S for earlier, later in pairwise(probes))


def test_a_rate_is_kept_by_all_together_and_used(home: House, ask: SyncClient) -> None:
    """What finds no room is parked and sent on when there is some; no place in a worker waits for it."""
    jobs = submitted(ask, 60, "rate")
    answers = [ask.wait(job) for job in jobs]
    calls = times(home, "rated")
    assert len(calls) == len(answers) == 60
    # A call is admitted some milliseconds before it is at the host, sooner or later than the one before it.
    most = max(j - i + 1 - (calls[j] - calls[i]) * 10 for i in range(60) for j in range(i, 60))
    assert most <= RATE["requests_per_minute"] / 60 * RATE["burst"] + 1
    assert calls[-1] - calls[0] < 2 * (60 - 10) / 10
    waited = [answer for answer in answers if answer.attempts[0]["outcome"] == "skipped"]
    assert {answer.attempts[0]["reason"] for answer in waited} == {"limit"}
    assert all(len(answer.attempts) == 2 for answer in waited)


def test_places_are_never_more_than_the_limit(home: House, ask: SyncClient) -> None:
    """Over all processes."""
    jobs = submitted(ask, 20, "places")
    for job in jobs:
        ask.wait(job)
    calls = home.host.calls(home.urls["narrow"])
    assert len(calls) == 20
    for call in calls:
        assert call.ended is not None
        beside = [other for other in calls if other.started <= call.started < (other.ended or call.started)]
        assert len(beside) <= 2


def test_an_attempt_is_two_round_trips_and_leaves_nothing_without_an_end(home: House, ask: SyncClient) -> None:
    """Beats and the catalogue aside, which are a process's and not a job's; that is what the workers are, and stays.

    What kombu keeps of messages is there for as long as there are some, also those of a worker that was killed.
    """
    for job in submitted(ask, WORKERS * SLOTS, "good"):
        ask.wait(job)  # the connections are there from now on
    with home.valkey.client as redis:
        eventually(lambda: not redis.zcard(keys.OPEN), "what others have left behind has ended", 60)
    with monitored(home.valkey) as asked:
        for job in submitted(ask, 30, "good"):
            ask.wait(job)
    for a_process_own in ("beat", "feed", "SET", "consumption", "reconcile", "TIME", "ZRANGEBYSCORE"):
        del asked[a_process_own]
    assert asked == {"admit": 30, "settle": 30}
    with home.valkey.client as redis:
        endless = {key for key in redis.scan_iter("staffel:*") if redis.ttl(key) == -1}
        assert {key for key in endless if not key.startswith("staffel:unacked")} == {keys.CATALOGUE}


def killed(crowd: tuple[House, list[Worker]], key: str) -> float:
    """Kill the process that holds this lease; when it died."""
    home, workers = crowd
    with home.valkey.client as redis:
        owner = str(redis.zrange(key, 0, 0)[0]).split(" ")[0]
    pid = int(owner.rpartition("/")[2].partition("-")[0])
    worker = next(worker for worker in workers if worker.process.pid == pid)
    os.kill(pid, signal.SIGKILL)
    died = time.monotonic()
    worker.process.wait()
    worker.start()
    return died


def test_a_worker_killed_in_its_probe_leaves_it_to_another(crowd: tuple[House, list[Worker]], ask: SyncClient) -> None:
    """When its heart has not been heard for the time of a lease; until then the stage is passed over."""
    home, _ = crowd
    for job in submitted(ask, 2, "sick-first"):
        ask.wait(job)
    with home.valkey.client as redis:
        until = int(redis.hget(keys.stage("sick"), "until")) / 1000
    eventually(lambda: time.time() > until, "its breaker is due", 10)
    submitted(ask, 1, "sick-first")
    eventually(lambda: len(times(home, "sick")) == 3, "the probe hangs at the host")
    died = killed(crowd, keys.probe("sick"))
    eventually(
        lambda: [ask.ask("and now?", chain="sick-first"), len(times(home, "sick")) > 3][-1], "another probes", 30
    )
    assert times(home, "sick")[3] - died < keys.WORKER_DEAD_AFTER_MS / 1000 + 5  # its lease and 1 s, and a slow machine


def test_the_places_of_a_killed_worker_come_back(crowd: tuple[House, list[Worker]], ask: SyncClient) -> None:
    """To a job that was parked for one of them."""
    home, _ = crowd
    submitted(ask, 1, "one-place")
    eventually(lambda: len(times(home, "held")) == 1, "the only place is taken")
    (waiting,) = submitted(ask, 1, "one-place")
    eventually(lambda: ask.show(waiting)["status"] == "parked", "the other job is parked")
    killed(crowd, keys.in_flight("held"))
    assert ask.wait(waiting).stage == "held"
