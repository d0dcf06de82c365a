"""Workers die, messages get lost, nobody serves a lane: every job ends all the same, and its caller hears of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery, chain

from staffel import SyncClient
from staffel_wire import keys
from tests.e2e.callers import calling, who_has
from tests.eventually import eventually
from tests.nodes import House, Valkey, Worker, running, serving
from tests.nodes.stages import Played

STAGES = {
    "hangs-once": Played("openai", "silent,ok:text=at last", {"timeout": 80}),
    "hangs": Played("openai", "silent", {"timeout": 80}),
    "once": Played("openai", "silent", {"timeout": 80, "on_unknown": "skip"}),
    "quick": Played("openai", "ok:text=quick"),
    "slow": Played("openai", "ok:text=slow:delay=3"),
    "broken": Played("openai", "status:500"),
    "lane": Played("ollama", "ok:text=home", {"local": True}),
}
CHAINS = {
    **{f"a-{name}": {"stages": (name,), "deadline": 90} for name in STAGES},
    "once-then-quick": {"stages": ("once", "quick"), "deadline": 90},
    "late-to-the-lane": {"stages": ("broken", "lane"), "deadline": 4},
}
RECOVERED_S = 60.0
"""A death is 10 s of silence and a look; the rest is for a slow machine."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    """A house of its own: its workers are killed."""
    folder = tmp_path_factory.mktemp("lost")
    variables = {"STAFFEL_DRAIN": "2", "STAFFEL_MAX_DELIVERIES": "2"}
    return House(valkey.another(), house.host, folder, stages=STAGES, chains=CHAINS, variables=variables)


@pytest.fixture
def asker(place: House) -> Iterator[SyncClient]:
    with SyncClient(place.url) as asker:
        yield asker


@pytest.fixture
def caller(place: House) -> Iterator[Celery]:
    with calling(place.url) as app:
        yield app


Pair = tuple[Worker, Worker]


@pytest.fixture
def pair(place: House) -> Iterator[Pair]:
    """The first one is stopped for now, so that the second takes what comes; killed ones may be left."""
    first, second = place.worker("-c", "4", "-n", "first@here"), place.worker("-c", "4", "-n", "second@here")
    with running(first, second):
        yield first, second
        for worker in (first, second):
            if worker.status == "running":
                worker.kill("SIGCONT")
            else:
                worker.process.wait()


def killed_in_its_call(place: House, pair: Pair, job: str) -> str:
    """Kill the worker that has the job; its name."""
    name, worker = who_has(place, pair, job)
    worker.kill()
    return name


def test_a_job_whose_worker_is_killed_goes_on_elsewhere(
    place: House, pair: Pair, asker: SyncClient, prompt: str
) -> None:
    """In time for a deadline of 90 s, where Redis alone would give it out again after two minutes."""
    job = asker.submit(prompt, chain="a-hangs-once")
    eventually(lambda: place.calls("hangs-once", prompt), "the host is asked")
    name = killed_in_its_call(place, pair, job)
    answer = asker.wait(job)
    assert answer.text == "at last"
    told = [(row["outcome"], row["reason"], row["worker"]) for row in answer.attempts]
    assert told[0] == ("unknown", "crashed", name)
    assert told[1][:2] == ("answered", None)
    assert told[1][2] != name
    assert len(place.calls("hangs-once", prompt)) == 2


def test_a_stage_that_may_not_be_asked_twice_is_passed_over(
    place: House, pair: Pair, asker: SyncClient, prompt: str
) -> None:
    """`on_unknown = "skip"`."""
    job = asker.submit(prompt, chain="once-then-quick")
    eventually(lambda: place.calls("once", prompt), "the host is asked")
    killed_in_its_call(place, pair, job)
    answer = asker.wait(job)
    assert [(row["stage"], row["outcome"]) for row in answer.attempts] == [("once", "unknown"), ("quick", "answered")]
    assert len(place.calls("once", prompt)) == 1


def test_a_message_that_its_worker_took_and_never_wrote_down_is_sent_again(
    place: House, asker: SyncClient, prompt: str
) -> None:
    """Stopped, its connection goes on waiting in Redis: what is published then is given to it, and is nowhere else."""
    stopped, other = place.worker("-n", "first@here"), place.worker("-n", "second@here")
    with running(stopped):
        stopped.kill("SIGSTOP")
        job = asker.submit(prompt, chain="a-quick")
        with place.valkey.client as redis:
            eventually(lambda: redis.llen("cloud") == 0, "the stopped one was given it")
            assert redis.hlen("staffel:unacked") == 0
        stopped.kill("SIGKILL")
        with running(other):
            assert asker.wait(job).text == "quick"
    assert len(place.calls("quick", prompt)) == 1


def test_a_message_in_the_hands_of_a_dead_worker_is_sent_again(place: House, asker: SyncClient, prompt: str) -> None:
    """It was prefetched: its job has no owner whose heart could stop."""
    busy = place.worker("-c", "1", "-n", "first@here")
    with running(busy):
        hanging = asker.submit(prompt, chain="a-hangs")
        eventually(lambda: place.calls("hangs", prompt), "its only slot is taken")
        job = asker.submit(prompt, chain="a-quick")
        with place.valkey.client as redis:
            redis.lpush("cloud", *redis.lrange("cloud", 0, -1))
        busy.kill("SIGKILL")
        with running(place.worker("-n", "second@here")):
            assert asker.wait(job).text == "quick"
            asker.cancel(hanging)


def test_the_rest_of_a_chain_goes_on_once(place: House, pair: Pair, caller: Celery, prompt: str) -> None:
    """What is sent again is the whole message, with what follows; what is delivered twice is told once."""
    first = caller.signature("tasks.ask", [{"prompt": prompt, "chain": "a-hangs-once"}], queue="cloud")
    then = caller.signature("tasks.ask", [{"prompt": f"then {prompt}", "chain": "a-quick"}], queue="cloud",
                            immutable=True)  # fmt: skip
    last = chain(first, then, app=caller).apply_async()
    assert last.parent is not None
    eventually(lambda: place.calls("hangs-once", prompt), "the host is asked")
    killed_in_its_call(place, pair, last.parent.id)
    assert last.get(timeout=RECOVERED_S)["text"] == "quick"
    assert last.parent.get(timeout=5)["text"] == "at last"
    assert len(place.calls("quick", f"then {prompt}")) == 1


def test_a_job_that_kills_its_workers_ends(place: House, asker: SyncClient, prompt: str) -> None:
    """Here the second death is one too many."""
    job = ""
    for death in (1, 2):
        worker = place.worker("-n", f"number-{death}@here")
        with running(worker):
            job = job or asker.submit(prompt, chain="a-hangs", deadline=300)
            eventually(lambda: len(place.calls("hangs", prompt)) == death, "it is in its call", RECOVERED_S)  # noqa: B023
            worker.kill("SIGKILL")
    with serving(place, ("-n", "third@here")):
        eventually(lambda: asker.show(job)["status"] == "exhausted", "it is over", RECOVERED_S)
    shown = asker.show(job)
    assert shown["why"] == "poison: its worker died or its walk broke off 2 times (max_deliveries)"
    assert len(place.calls("hangs", prompt)) == 2


def test_nobody_waits_for_ever_for_a_lane_without_workers(
    place: House, asker: SyncClient, caller: Celery, prompt: str
) -> None:
    """Celery's waiters included: they hear of the end though the lane's worker never comes."""
    with serving(place, ()):
        sent = caller.send_task("tasks.ask", [{"prompt": prompt, "chain": "late-to-the-lane"}], queue="cloud")
        with pytest.raises(Exception, match="expired: broken server_error") as raised:
            sent.get(timeout=RECOVERED_S)
        assert type(raised.value).__name__ == "Expired"
        assert asker.show(sent.id)["status"] == "expired"


def test_a_paused_worker_that_wakes_up_asks_nobody_again(
    place: House, pair: Pair, asker: SyncClient, prompt: str
) -> None:
    """Others have taken its job meanwhile: its own reply is refused, and there is one answer."""
    job = asker.submit(prompt, chain="a-slow")
    name, paused = who_has(place, pair, job)
    eventually(lambda: place.calls("slow", prompt), "the host is asked")
    paused.kill("SIGSTOP")
    answer = asker.wait(job)
    paused.kill("SIGCONT")
    assert [row["outcome"] for row in answer.attempts] == ["unknown", "answered"]
    with place.valkey.client as redis:
        member = eventually(
            lambda: next((one for one in redis.zrange(keys.WORKERS, 0, -1) if name in one), None), "it is known"
        )
        last = redis.zscore(keys.WORKERS, member)
        eventually(lambda: redis.zscore(keys.WORKERS, member) != last, "it beats again")
        eventually(lambda: redis.hlen("staffel:unacked") == 0, "it has acknowledged what it had", 30)
    assert asker.show(job)["attempts"] == list(answer.attempts)
    assert len(place.calls("slow", prompt)) == 2
