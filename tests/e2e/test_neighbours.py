"""Other Celery apps on the same Redis must not feel us, nor we a clock that is shorter than a call."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery

from staffel import SyncClient
from tests.e2e.shop import shop_of
from tests.eventually import eventually
from tests.nodes import House, Played, running

IMPATIENT = """
from worker.celery import app

app.conf.broker_transport_options |= {"visibility_timeout": 2, "unacked_restore_interval": 0.5}
"""
"""Our app with 2 s in place of 120 s, and a look at what is too old every half second in place of ten."""

LONGER_S = 4


def test_late_tasks_run_once_each(make_house: Callable[..., House]) -> None:
    """A neighbour's tasks and our calls outlast our visibility timeout two times over, and each runs once.

    Think of 200 s tasks beside our 120 s; what counts is that they are longer than our timeout while
    the neighbour's own, an hour as Celery has it, is not reached. Celery keeps what is not yet acknowledged under one
    key for all apps of a Redis, and every worker hands out again what is older than its own timeout there: with that
    key, our worker would deliver the neighbour's tasks a second and a third time.
    """
    house = make_house(stages={"long": Played("openai", f"ok:delay={LONGER_S}")}, chains={"default": ("long",)})
    (house.folder / "impatient.py").write_text(IMPATIENT)
    shop = shop_of(house)
    worker = house.worker(app="impatient")
    with running(worker, shop), SyncClient(house.url) as client, house.valkey.client as redis:
        app = Celery("customer", broker=house.url, backend=house.url, set_as_current=False)
        cakes = [app.send_task("shop.bake", [LONGER_S], queue="shop") for _ in range(3)]
        job = client.submit("A long question.")
        eventually(lambda: redis.hlen("unacked") == 3, "the neighbour's tasks are not acknowledged yet")
        eventually(lambda: redis.hlen("staffel:unacked") == 1, "nor is ours")

        assert [cake.get(timeout=30) for cake in cakes] == ["cake"] * 3
        assert client.wait(job).stage == "long"

        eventually(lambda: not redis.exists("unacked", "staffel:unacked"), "all is acknowledged")
        assert sorted(redis.lrange("shop:baked", 0, -1)) == sorted(cake.id for cake in cakes)
        assert (redis.llen("shop"), redis.llen("cloud")) == (0, 0)
        assert len(house.calls("long", "A long question.")) == 1
        assert worker.logs().count(f"[{job}] received") == 1
        app.close()
