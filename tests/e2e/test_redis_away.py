"""Redis goes away for some seconds while a job runs: the worker lives, the host is asked once, the answer is kept."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import psutil
import pytest
from celery import Celery

from staffel import SyncClient, Unavailable, embedded
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, Valkey, Worker, serving
from tests.nodes.stages import Played

STAGES = {
    "outlasts": Played("openai", "ok:text=kept:delay=5"),
    "ends-in-it": Played("openai", "ok:text=kept:delay=1.5"),
    "quick": Played("openai", "ok:text=quick"),
    "many": Played("openai", "ok:text=kept:delay=6"),
}
CHAINS = {f"a-{name}": (name,) for name in STAGES}
AWAY_S = 3.0


@pytest.fixture
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house whose Valkey may be killed."""
    server = Valkey.started(tmp_path_factory.mktemp("valkey"))
    try:
        with Host() as host:
            yield House(server, host, tmp_path_factory.mktemp("house"), stages=STAGES, chains=CHAINS)
    finally:
        server.stop()


@pytest.fixture
def worker(lonely: House) -> Iterator[Worker]:
    with serving(lonely, ()) as (worker,):
        yield worker


def test_it_comes_back_and_is_away_again(lonely: House, worker: Worker) -> None:
    """One call outlasts the outage, another ends in it; in a second outage the worker ends in order.

    Celery 5.7.0 by itself ends with an AttributeError here (see worker/consumer.py). The call that ended in it was
    answered and paid for, but could not be settled: its task failed with a traceback, its answer was lost, and who
    waited for it waited until the deadline.
    """
    with SyncClient(lonely.url) as client:
        jobs = {name: client.submit(f"question {name}", chain=f"a-{name}") for name in ("outlasts", "ends-in-it")}
        for name in jobs:
            eventually(partial(lonely.calls, name, "question"), f"the host of {name} is asked")

        os.kill(lonely.valkey.running.pid, signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(lonely.valkey.running.pid), "Redis is gone")
        began = time.monotonic()
        with pytest.raises(Unavailable):
            client.show(jobs["outlasts"])
        eventually(lambda: time.monotonic() - began > AWAY_S, "it is away for some seconds")
        lonely.valkey.running = embedded.start(lonely.valkey.folder)

        for name, job in jobs.items():
            assert client.wait(job).text == "kept"
            assert len(lonely.calls(name, "question")) == 1
        assert worker.status == "running"
        assert client.ask("after", chain="a-quick").text == "quick"
    with lonely.valkey.client as redis:
        eventually(lambda: redis.hlen("staffel:unacked") == 0, "every message is acknowledged")
        assert redis.zcard("staffel:unacked_index") == 0
    app = Celery("reader", backend=lonely.url, set_as_current=False)
    eventually(
        lambda: {app.AsyncResult(job).state for job in jobs.values()} == {"SUCCESS"}, "Celery has the answers too"
    )
    app.close()

    os.kill(lonely.valkey.running.pid, signal.SIGKILL)
    eventually(lambda: worker.logs().count("Redis is away") == 2, "the worker has noticed")
    assert worker.stop() == 0
    assert "Traceback" not in worker.logs()


def test_fifty_calls_outlive_ten_seconds_without_redis(lonely: House) -> None:
    """Two workers and fifty calls, which end in the outage: each is answered once, and what is new flows soon after."""
    with serving(lonely, ("-n", "first@here"), ("-n", "second@here")) as workers, SyncClient(lonely.url) as client:
        jobs = [client.submit(f"question {number}", chain="a-many") for number in range(50)]
        eventually(lambda: len(lonely.calls("many", "question")) == 50, "all calls are under way", 30)

        os.kill(lonely.valkey.running.pid, signal.SIGKILL)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 10, "it is away for long")
        lonely.valkey.running = embedded.start(lonely.valkey.folder)
        back = time.monotonic()

        assert {client.wait(job).text for job in jobs} == {"kept"}
        assert client.ask("after", chain="a-quick").text == "quick"
        assert time.monotonic() - back < 30
        assert len(lonely.calls("many", "question")) == 50
        assert [len(client.show(job)["attempts"]) for job in jobs] == [1] * 50
        assert {worker.status for worker in workers} == {"running"}
        assert not any("Traceback" in worker.logs() for worker in workers)
