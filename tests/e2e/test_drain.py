"""How a worker ends that is told once: it takes nothing more, finishes what it can, and gives back the rest."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest
from redis import Redis

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, Played, Valkey, Worker, serving

NOISE_S = 15.0
"""What a busy machine may add to any of these."""


def general(house: House, **values: float) -> House:
    """The house, with these keys above the first table of its file."""
    lines = [f"{key} = {value}" for key, value in values.items()]
    house.config.write_text("\n".join([*lines, house.config.read_text()]))
    return house


def queued(redis: Redis, lane: str = "cloud") -> list[str]:
    """The messages that wait, the next one first."""
    return list(reversed(redis.lrange(lane, 0, -1)))


@contextmanager
def ended_afterwards(worker: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        worker.teardown()


def test_a_hundred_calls_end_or_go_to_another_worker_and_none_is_made_twice(make_house: Callable[..., House]) -> None:
    """Half of them end while the worker drains. The others are handed back then, not after the visibility timeout."""
    stages = {
        "short": Played("openai", "ok:text=in time:delay=4"),
        "long": Played("openai", ",".join(["silent"] * 50) + ",ok:text=from another"),
    }
    house = general(make_house(stages=stages, chains={"a": ("short",), "b": ("long",)}), drain=5)
    with SyncClient(house.url) as client, house.valkey.client as redis, serving(house, ()) as (first,):
        jobs = {chain: [client.submit(f"question {chain} {n}", chain=chain) for n in range(50)] for chain in ("a", "b")}

        def asked(stage: str) -> int:
            return len(house.calls(stage, "question"))

        eventually(lambda: asked("short") == asked("long") == 50, "all are under way", 30)
        with serving(house, ()) as (second,):
            told = time.monotonic()
            first.process.terminate()
            assert first.process.wait(5 + 2 + NOISE_S) == 0
            assert time.monotonic() - told < 5 + 2 + NOISE_S
            left = time.monotonic()
            texts = {chain: Counter(client.wait(job).text for job in jobs[chain]) for chain in jobs}
            assert time.monotonic() - left < 2 + NOISE_S
            assert texts == {"a": {"in time": 50}, "b": {"from another": 50}}
            assert (asked("short"), asked("long")) == (50, 100)
            for job in jobs["b"]:
                rows = client.show(job)["attempts"]
                assert [(row["outcome"], row["reason"]) for row in rows] == [("unknown", "drained"), ("answered", None)]
            assert second.stop() == 0
        assert "Traceback" not in first.logs() + second.logs()
        assert not redis.exists(keys.WORKERS, "staffel:unacked", "cloud")
        assert not list(redis.scan_iter("staffel:worker:*"))


def test_what_was_taken_and_not_begun_goes_back_at_once_and_in_order(make_house: Callable[..., House]) -> None:
    """A worker with one slot holds three messages beside the one that it works on: they wait for no drain."""
    stages = {"stage": Played("openai", "silent,ok")}
    house = general(make_house(stages=stages, chains={"default": ("stage",)}), drain=600)
    options = ("-c", "1", "--prefetch-multiplier", "4")
    with SyncClient(house.url) as client, house.valkey.client as redis:
        worker = house.worker(*options)
        with ended_afterwards(worker):
            worker.start()
            worker.ready()
            jobs = [client.submit(f"question {n}") for n in range(6)]
            eventually(lambda: len(queued(redis)) == 2, "four are taken")
            eventually(lambda: house.calls("stage", "question 0"), "the first is under way")
            before = [house.record(job) for job in jobs[1:]]
            worker.process.terminate()
            eventually(lambda: len(queued(redis)) == 5, "three have come back")
            assert [next(job for job in jobs if job in message) for message in queued(redis)] == jobs[1:]
            assert [house.record(job) for job in jobs[1:]] == before
            assert client.show(jobs[0])["status"] == "running"
            assert [name.partition("/")[0] for name in redis.zrange(keys.WORKERS, 0, -1)] == ["cloud"]
            worker.kill("SIGQUIT")
            worker.process.wait(NOISE_S)
            eventually(lambda: len(queued(redis)) == 6, "it is told again, and waits no longer")
            assert jobs[0] in queued(redis)[0]
            assert client.show(jobs[0])["status"] == "queued"
        assert "Traceback" not in worker.logs()


def test_a_call_may_take_longer_than_the_visibility_timeout(make_house: Callable[..., House]) -> None:
    """Redis gives out again what was not acknowledged in time, counted from its delivery: the worker keeps it fresh.

    Also while it drains, when its main loop only waits for its threads.
    """
    stages = {"stage": Played("openai", "ok:delay=25")}
    house = general(make_house(stages=stages, chains={"default": ("stage",)}), visibility_timeout=10, drain=60)
    with SyncClient(house.url) as client, house.valkey.client as redis, serving(house, (), ()) as (first, second):
        shown = house.celery("inspect", "-j", "stats", "-t", "3").json
        options = [worker["broker"]["transport_options"] for worker in shown.values()]
        assert options, shown
        assert {option["visibility_timeout"] for option in options} == {10.0}
        jobs = [client.submit(f"question {n}") for n in range(4)]
        eventually(lambda: len(house.calls("stage", "question")) == 4, "they are under way")
        first.process.terminate()
        second.process.terminate()
        oldest: list[float] = []

        def ended() -> bool:
            seconds, _ = redis.time()
            oldest.extend(seconds - score for _, score in redis.zrange("staffel:unacked_index", 0, 0, withscores=True))
            return {first.process.poll(), second.process.poll()} == {0}

        eventually(ended, "both have ended", 25 + NOISE_S)
        assert max(oldest) < 9
        assert len([client.wait(job).text for job in jobs]) == 4
        assert len(house.calls("stage", "question")) == 4


@pytest.fixture
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house whose Valkey may be killed."""
    server = Valkey.started(tmp_path_factory.mktemp("valkey"))
    stages = {"stage": Played("openai", "silent")}
    try:
        with Host() as host:
            house = House(server, host, tmp_path_factory.mktemp("house"), stages=stages, chains={"default": ("stage",)})
            yield general(house, drain=1)
    finally:
        server.stop()


def test_a_worker_whose_redis_is_away_ends_all_the_same(lonely: House) -> None:
    """Nothing can be handed back then; the others learn by its silence."""
    with SyncClient(lonely.url) as client, serving(lonely, ()) as (worker,):
        client.submit("question")
        eventually(lambda: lonely.calls("stage", "question"), "it is under way")
        os.kill(lonely.valkey.running.pid, signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(lonely.valkey.running.pid), "Redis is gone")
        eventually(lambda: "Redis is away" in worker.logs(), "the worker has noticed")
        worker.process.terminate()
        worker.process.wait(1 + 2 + 2 * NOISE_S)
        assert "Traceback" not in worker.logs()


def test_a_message_that_waits_for_its_time_is_kept_too(make_house: Callable[..., House]) -> None:
    """One with an ETA is in no set of Celery's that a worker has of its own; it was given out again and again."""
    stages = {"stage": Played("openai", "ok")}
    house = general(make_house(stages=stages, chains={"default": ("stage",)}), visibility_timeout=60)
    code = "import json; from tasks import ask; print(json.dumps(ask.apply_async(('later',), countdown=25).id))"
    with house.valkey.client as redis, serving(house, ()) as (worker,):
        job = house.python(code)

        def score() -> float:
            held = redis.zrange("staffel:unacked_index", 0, -1, withscores=True)
            return max([float(seconds) for _, seconds in held], default=0.0)

        first = eventually(score, "it is held")
        eventually(lambda: score() > first + 4, "it is kept fresh")
        assert not house.calls("stage", "later")
        worker.process.terminate()
        assert worker.process.wait(NOISE_S) == 0
        (message,) = queued(redis)
        assert job in message
