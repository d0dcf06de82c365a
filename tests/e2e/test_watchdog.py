"""A worker that lives and takes nothing is noticed, says so, and ends, so that the next one is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import House, Played, Worker
from tests.nodes.worker import CELERY

MODULE = """
import time
from worker import watch
watch.STUCK_S = 6
from worker.celery import app
from celery.worker.control import control_command

@control_command()
def hang(state):
    time.sleep(3600)

@control_command()
def go_deaf(state):
    state.consumer.connection.default_channel._active_queues.clear()
    return {"ok": "deaf"}
"""
"""The worker as it is, but for a shorter patience and two faults that somebody can call: a main loop that hangs, and
the old one of a consumer that lives and asks for nothing.
"""

STUCK = 70
NOISE_S = 30.0


@contextmanager
def faulty(house: House) -> Iterator[Worker]:
    (house.folder / "faulty.py").write_text(MODULE)
    worker = house.worker(app="faulty")
    try:
        worker.start()
        worker.ready()
        yield worker
    finally:
        if worker.status == "running":
            worker.kill()


def house_of(make_house: Callable[..., House], script: str) -> House:
    house = make_house(stages={"stage": Played("openai", script)}, chains={"default": ("stage",)})
    house.config.write_text(f"drain = 1\n{house.config.read_text()}")
    return house


def control(house: House, *words: str) -> None:
    """What an operator types; a worker that hangs does not answer."""
    house.run([str(CELERY), "-A", "faulty", "control", "-t", "2", *words])


def told(house: House) -> dict[str, str]:
    """What the one worker says of itself."""
    with house.valkey.client as redis:
        members = redis.zrange(keys.WORKERS, 0, -1)
        return dict(redis.hgetall(keys.worker(members[0]))) if members else {}


def test_a_worker_says_what_it_takes(make_house: Callable[..., House]) -> None:
    """Its lane, its name, how many slots it has and uses, how many messages it has taken and when the last."""
    house = house_of(make_house, "ok,silent")
    with SyncClient(house.url) as client, faulty(house):
        assert client.ask("first").text
        client.submit("second")
        said = eventually(lambda: (found := told(house)).get("taken") == "2" and found, "it has taken both", 30)
        assert said
        assert (said["lane"], said["mode"], said["slots"], said["busy"], said["stuck"]) == (
            "cloud", "consumes", "200", "1", "",
        )  # fmt: skip
        assert said["name"].startswith("cloud@")
        assert 0 <= int(said["beat_at"]) - int(said["taken_at"]) < 60_000


def test_a_worker_that_lives_and_takes_nothing_ends_and_the_next_one_has_the_job(
    make_house: Callable[..., House],
) -> None:
    """After an outage of Redis Celery's workers used to stand there, connected and alive, and consume nothing at all.

    Its call under way is handed back as at any end.
    """
    house = house_of(make_house, "silent,ok:text=the next one's")
    with SyncClient(house.url) as client, faulty(house) as worker:
        first = client.submit("under way")
        eventually(lambda: house.calls("stage", "under way"), "the call is under way")
        control(house, "go_deaf")
        jobs = [first, *(client.submit(f"waits {n}") for n in range(3))]
        assert worker.process.wait(6 + NOISE_S) == STUCK
        assert "this worker takes nothing: " in worker.logs()
        assert "it ends, to be started anew" in worker.logs()
        assert "Traceback" not in worker.logs()
        with faulty(house) as other:
            assert {client.wait(job).text for job in jobs} == {"the next one's"}
            assert other.status == "running"


def test_a_worker_whose_main_loop_hangs_is_ended_by_force(make_house: Callable[..., House]) -> None:
    """It hears no signal that Celery would act on; its jobs are handed back all the same."""
    house = house_of(make_house, "silent,ok:text=the next one's")
    with SyncClient(house.url) as client, faulty(house) as worker:
        job = client.submit("under way")
        eventually(lambda: house.calls("stage", "under way"), "the call is under way")
        control(house, "hang")
        assert worker.process.wait(6 + NOISE_S) == STUCK
        assert "its main loop has stood still for" in worker.logs()
        with house.valkey.client as redis:
            assert not redis.exists(keys.WORKERS)
        assert client.show(job)["status"] == "queued"


def test_a_queue_that_an_operator_cancelled_is_said_and_ends_nobody(make_house: Callable[..., House]) -> None:
    """`celery control cancel_consumer` means it, and `add_consumer` undoes it."""
    house = house_of(make_house, "ok")
    with SyncClient(house.url) as client, faulty(house) as worker:
        control(house, "cancel_consumer", "cloud")
        job = client.submit("waits")
        eventually(lambda: told(house).get("mode") == "cancelled", "it says so", 30)
        eventually(lambda: "an operator has cancelled its queue" in told(house).get("stuck", ""), "and why", 30)
        assert worker.logs().count("this worker takes nothing") == 1
        health = house.staffel("health", "--json")
        assert health.code == 1
        assert "cancelled" in json.dumps(health.json)
        control(house, "add_consumer", "cloud")
        assert client.wait(job).text
        assert worker.status == "running"
        eventually(lambda: told(house).get("stuck") == "", "it is well again", 30)
        assert house.staffel("health").code == 0
