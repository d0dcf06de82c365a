"""Celery hears the end that the record says, once, whatever fails on the way of telling it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from celery import Celery, chain
from redis import Redis

from staffel import SyncClient
from staffel_wire import keys
from tests.e2e.callers import calling, who_has
from tests.e2e.events import recording
from tests.eventually import eventually
from tests.nodes import House, Valkey, running, serving
from tests.nodes.stages import Played

STAGES = {
    "hangs-once": Played("openai", "silent,ok:text=at last", {"timeout": 80}),
    "hangs": Played("openai", "silent", {"timeout": 80}),
    "quick": Played("openai", "ok:text=quick"),
    "slow": Played("openai", "ok:text=slow:delay=1.5"),
    "fails-slowly": Played("openai", "status:500:delay=3"),
    "breaks-late": Played("openai", "status:500:delay=1"),
    "lane": Played("ollama", "ok:text=home", {"local": True}),
}
CHAINS = {
    **{f"a-{name}": {"stages": (name,), "deadline": 90} for name in STAGES},
    "to-the-lane": {"stages": ("breaks-late", "lane"), "deadline": 90},
}
AWAY_S = 3.0
RECOVERED_S = 60.0
"""A death is 10 s of silence and a look; the rest is for a slow machine."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    """A house of its own: what its workers need is taken from them."""
    folder = tmp_path_factory.mktemp("telling")
    variables = {"STAFFEL_DRAIN": "2", "STAFFEL_MAX_DELIVERIES": "2"}
    return House(valkey.another(), house.host, folder, stages=STAGES, chains=CHAINS, variables=variables)


@pytest.fixture
def redis(place: House) -> Iterator[Redis]:
    with place.valkey.client as client:
        yield client


@pytest.fixture
def caller(place: House) -> Iterator[Celery]:
    with calling(place.url) as app:
        yield app


def asked(caller: Celery, chain_: str, prompt: str, **options: Any) -> Any:
    return caller.send_task("tasks.ask", [{"prompt": prompt, "chain": chain_}], queue="cloud", **options)


def away(seconds: float, take: Callable[[], object], until: Callable[[], object] = lambda: True) -> None:
    """Take what a worker needs again and again, until a condition holds and so long beyond."""
    eventually(lambda: (take(), until())[1], "what is waited for happens meanwhile", 30)
    began = time.monotonic()
    eventually(lambda: (take(), time.monotonic() - began > seconds)[1], "it is away for so long", 30)


def test_the_rest_of_a_chain_waits_for_redis(place: House, caller: Celery, redis: Redis, prompt: str) -> None:
    """The first task's answer was settled and paid for; then the second one could not be written down.

    Celery made a FAILURE of the first one out of that, and of the whole chain; and it was noted that it had heard.
    """
    first = caller.signature("tasks.ask", [{"prompt": prompt, "chain": "a-slow"}], queue="cloud")
    then = caller.signature("tasks.ask", [{"prompt": f"then {prompt}", "chain": "a-quick"}], queue="cloud",
                            immutable=True)  # fmt: skip
    with recording(place.url) as recorded, serving(place, ()) as (worker,):
        last = chain(first, then, app=caller).apply_async()
        assert last.parent is not None
        job = last.parent.id
        eventually(lambda: place.calls("slow", prompt), "the host is asked")
        away(AWAY_S, lambda: redis.delete(keys.CATALOGUE), lambda: place.record(job)["status"] == "answered")
        assert last.parent.state == "STARTED"
        assert last.get(timeout=RECOVERED_S)["text"] == "quick"
        assert last.parent.get(timeout=5)["text"] == "slow"
        eventually(lambda: place.record(job).get("told") == "1", "it is noted that Celery has heard")
        assert len(place.calls("quick", f"then {prompt}")) == 1
        recorded.until("task-succeeded", last.id)
        assert "task-failed" not in {event["type"] for event in recorded.all}
        assert "Traceback" not in worker.logs()


def test_what_follows_and_cannot_be_asked_fails_alone(place: House, caller: Celery, prompt: str) -> None:
    """A chain that nobody has written down: the task before it has ended well, and is told so."""
    first = caller.signature("tasks.ask", [{"prompt": prompt, "chain": "a-quick"}], queue="cloud")
    then = caller.signature("tasks.ask", [{"prompt": prompt, "chain": "nowhere"}], queue="cloud", immutable=True)
    with serving(place, ()) as (worker,):
        last = chain(first, then, then.clone(), app=caller).apply_async()
        with pytest.raises(Exception, match="nowhere") as raised:
            last.get(timeout=RECOVERED_S)
        assert type(raised.value).__name__ == "Invalid"
        assert last.parent is not None
        assert last.parent.parent is not None
        assert last.parent.parent.get(timeout=5)["text"] == "quick"
        eventually(lambda: place.record(last.parent.parent.id).get("told") == "1", "Celery has heard")  # type: ignore[union-attr]
        assert "Traceback" not in worker.logs()


def test_a_foreign_message_waits_for_redis(place: House, caller: Celery, redis: Redis, prompt: str) -> None:
    """Its record could not be made for a moment, and its task failed for ever."""
    with serving(place, ()):
        redis.delete(keys.CATALOGUE)
        sent = asked(caller, "a-quick", prompt)
        away(1, lambda: redis.delete(keys.CATALOGUE), lambda: redis.hlen("staffel:unacked") == 1)
        assert sent.state == "PENDING"
        assert sent.get(timeout=RECOVERED_S)["text"] == "quick"


@pytest.mark.parametrize("ends", [False, True])
def test_a_handoff_is_sent_once_redis_takes_it(
    place: House, caller: Celery, redis: Redis, prompt: str, *, ends: bool
) -> None:
    """The record said already where the job goes; its message could not be put there.

    The task was FAILURE then, and later SUCCESS. A worker that ends meanwhile leaves the message to the others.
    """
    lane = partial(redis.set, "ollama", "not a list")
    with recording(place.url) as recorded:
        with serving(place, ()) as (worker,):
            lane()
            sent = asked(caller, "to-the-lane", prompt)
            eventually(lambda: place.record(sent.id).get("lane") == "ollama", "it goes to the lane")
            if ends:
                assert worker.stop() == 0
            else:
                away(AWAY_S, lane)
            assert sent.state in {"RETRY", "STARTED"}
            redis.delete("ollama")
            with serving(place, ("-Q", "ollama"), *([()] if ends else [])):
                assert sent.get(timeout=RECOVERED_S)["text"] == "home"
                recorded.until("task-succeeded", sent.id)
            assert "Traceback" not in worker.logs()
        assert len(place.calls("breaks-late", prompt)) == 1
        assert "task-failed" not in {event["type"] for event in recorded.of(sent.id)}


def test_a_link_is_called_once_though_its_worker_dies(place: House, caller: Celery, redis: Redis, prompt: str) -> None:
    """Killed in its call; and once more between what is stored at Celery and the note that it is.

    The second state is written by hand, as the death leaves it. Whoever got the message then told all of it again.
    """
    pair = place.worker("-n", "first@here"), place.worker("-n", "second@here")
    link = caller.signature("tasks.ask", [{"prompt": f"link {prompt}", "chain": "a-quick"}], queue="cloud",
                            immutable=True)  # fmt: skip
    calls = partial(place.calls, "quick", f"link {prompt}")
    with running(*pair):
        sent = asked(caller, "a-hangs-once", prompt, link=link)
        eventually(lambda: place.calls("hangs-once", prompt), "the host is asked")
        signature = place.record(sent.id)["signature"]
        _, killed = who_has(place, pair, sent.id)
        killed.kill()
        assert sent.get(timeout=RECOVERED_S)["text"] == "at last"
        eventually(calls, "the link is called")
        eventually(lambda: place.record(sent.id).get("told") == "1", "it is noted that Celery has heard")

        redis.hdel(keys.job(sent.id), "told", "teller", "telling_at")
        redis.hset(keys.job(sent.id), "signature", signature)
        redis.zadd(keys.OPEN, {sent.id: 0})
        eventually(lambda: place.record(sent.id).get("told") == "1", "it is noted again", RECOVERED_S)
        assert len(place.jobs()) == 2
        assert len(calls()) == 1
        killed.process.wait()


def test_a_job_that_breaks_every_walk_ends(place: House, caller: Celery, redis: Redis, prompt: str) -> None:
    """Its request holds a field that this worker does not know, as that of a newer client might.

    The record said running, its owner lived, and whoever waited for it waited until the deadline.
    """
    with serving(place, ()), SyncClient(place.url) as asker:
        sent = asked(caller, "a-lane", prompt)
        eventually(lambda: redis.llen("ollama") == 1, "it waits for the lane")
        request = json.loads(place.record(sent.id)["request"])
        redis.hset(keys.job(sent.id), "request", json.dumps({**request, "from_the_future": prompt}))
        with serving(place, ("-Q", "ollama")) as (lane,):
            with pytest.raises(Exception, match="exhausted") as raised:
                sent.get(timeout=RECOVERED_S)
            assert type(raised.value).__name__ == "Exhausted"
            assert (
                asker.show(sent.id)["why"] == "poison: its worker died or its walk broke off 2 times (max_deliveries)"
            )
            assert asker.ask("after", chain="a-lane").text == "home"
            assert place.calls("lane", prompt) == []
            assert lane.logs().count(f"job {sent.id}: its walk broke off (Invalid)") == 2
            assert "Traceback" not in lane.logs()
            assert prompt not in lane.logs()


def test_a_state_that_is_written_late_is_put_right(place: House, caller: Celery, redis: Redis, prompt: str) -> None:
    """A worker slept while it said STARTED; others ended the job meanwhile, and were overwritten when it woke up.

    What it wrote is written by hand here. Celery protects nothing but SUCCESS from that: its caller waited for ever.
    """
    pair = place.worker("-n", "first@here"), place.worker("-n", "second@here")
    with running(*pair):
        sent = asked(caller, "a-fails-slowly", prompt)
        eventually(lambda: place.calls("fails-slowly", prompt), "the host is asked")
        eventually(lambda: sent.state == "STARTED", "its worker says so")
        _, sleeper = who_has(place, pair, sent.id)
        sleeper.kill("SIGSTOP")
        try:
            eventually(lambda: place.record(sent.id).get("told") == "1", "it ends elsewhere", RECOVERED_S)
            assert caller.AsyncResult(sent.id).state == "FAILURE"
            late = {"status": "STARTED", "result": {}, "traceback": None, "children": [], "task_id": sent.id}
            redis.set(f"celery-task-meta-{sent.id}", json.dumps(late))
        finally:
            sleeper.kill("SIGCONT")
        with pytest.raises(Exception, match="exhausted"):
            caller.AsyncResult(sent.id).get(timeout=RECOVERED_S)
        eventually(lambda: place.record(sent.id).get("told") == "1", "it is told", RECOVERED_S)
        assert redis.zscore(keys.OPEN, sent.id) is None


def test_the_walk_that_has_the_job_is_the_one_that_is_cancelled(place: House, prompt: str) -> None:
    """A worker slept for longer than it may; its job was queued again, and it took that too, beside its old walk.

    The cancel closed the old call, which nobody waited for, and the new one went on.
    """
    with serving(place, (), ("-Q", "ollama")) as (sleeper, _), SyncClient(place.url) as asker:
        job = asker.submit(prompt, chain="a-hangs")
        eventually(lambda: place.calls("hangs", prompt), "the host is asked")
        sleeper.kill("SIGSTOP")
        try:
            eventually(lambda: place.record(job)["owner"] == "", "it is queued again", RECOVERED_S)
        finally:
            sleeper.kill("SIGCONT")
        eventually(lambda: len(place.calls("hangs", prompt)) == 2, "its worker takes it again", RECOVERED_S)
        asker.cancel(job)
        eventually(lambda: place.record(job)["status"] == "cancelled", "it is cancelled at once", 20)
        assert "Traceback" not in sleeper.logs()
