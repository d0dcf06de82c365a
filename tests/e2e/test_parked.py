"""A job none of whose stages may be asked now, but may be before its deadline: it waits, and nobody waits with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from celery import Celery, chain, chord
from celery.result import AsyncResult

from staffel import Cancelled, Exhausted, Expired, SyncClient
from staffel_wire import keys
from tests.e2e.callers import calling
from tests.e2e.events import Recorded, recording
from tests.eventually import eventually
from tests.nodes import House, Valkey, Worker, serving
from tests.nodes.stages import Played

ONCE = "status:429:retry-after=3,ok:text=at last"
LONG = "status:429:retry-after=40"
STAGES = {
    **{f"once-{use}": Played("openai", ONCE) for use in ("slot", "restart", "chord", "chain")},
    **{f"long-{use}": Played("openai", LONG) for use in ("by_client", "by_revoke", "by_terminate", "soon", "lost")},
    "longer": Played("openai", "status:429:retry-after=3"),
    "once-wait": Played("openai", "status:429:retry-after=8,ok:text=at last"),  # two commands start meanwhile
    "quick": Played("openai", "ok:text=quick"),
    "lane-once": Played("ollama", ONCE, {"local": True}),
    "broken": Played("openai", "status:500"),
}
CHAINS = {**{f"a-{name}": (name,) for name in STAGES}, "hopes-for-the-lane": ("broken", "lane-once")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    return House(valkey.another(), house.host, tmp_path_factory.mktemp("parking"), stages=STAGES, chains=CHAINS)


@pytest.fixture(scope="module")
def narrow(place: House) -> Iterator[list[Worker]]:
    """Two workers of one slot each: that of `cloud` and the lane's. Either of them may be the housekeeper."""
    with serving(place, ("-c", "1"), ("-Q", "ollama")) as workers:
        yield workers


@pytest.fixture(scope="module")
def asker(place: House, narrow: list[Worker]) -> Iterator[SyncClient]:
    with SyncClient(place.url) as asker:
        yield asker


@pytest.fixture(scope="module")
def caller(place: House) -> Iterator[Celery]:
    with calling(place.url) as app:
        yield app


@pytest.fixture(scope="module")
def heard(place: House) -> Iterator[Recorded]:
    with recording(place.url) as heard:
        yield heard


def asked(caller: Celery, name: str, prompt: str) -> Any:
    return caller.signature("tasks.ask", args=[{"prompt": prompt, "chain": f"a-{name}"}], queue="cloud", immutable=True)


def parked(client: SyncClient, job: str) -> dict[str, Any]:
    """The job as it is shown once it is parked."""
    eventually(lambda: client.show(job)["status"] == "parked", f"{job} is parked", 20)
    return client.show(job)


def kept(place: House, job: str) -> bool:
    """Whether its message is in its record, so that it can be sent on."""
    return "signature" in place.record(job)


def test_it_holds_no_slot_while_it_waits(
    place: House, asker: SyncClient, heard: Recorded, caller: Celery, prompt: str
) -> None:
    """The only slot there is serves another job meanwhile; then the same id is answered, and the wait is counted."""
    job = asker.submit(prompt, chain="a-once-slot", deadline=30)
    shown = parked(asker, job)
    assert shown["parked_for"] == "once-slot"
    wait = datetime.fromisoformat(shown["retry_at"]) - datetime.now(UTC)
    assert 0 < wait.total_seconds() <= 3
    celery = AsyncResult(job, app=caller)
    eventually(lambda: celery.state == "RETRY", "Celery says that it waits")
    said = heard.until("task-retried", job)[-1]["result"]
    assert re.fullmatch(r"1 failed → parked for once-slot until \d\d:\d\d:\d\dZ: throttled", said)
    assert str(celery.result) == said
    assert asker.ask(prompt, chain="a-quick").text == "quick"
    assert asker.show(job)["status"] == "parked"

    answer = asker.wait(job)
    assert answer.text == "at last"
    assert [(row["outcome"], row["reason"]) for row in answer.attempts] == [("failed", "throttled"), ("answered", None)]
    assert 2 < answer.queued_s < answer.duration_s
    assert len(place.calls("once-slot", prompt)) == 2
    assert celery.get(timeout=10) == asker.show(job)
    assert (asker.show(job)["parked_for"], asker.show(job)["retry_at"]) == (None, None)
    assert not kept(place, job)
    with place.valkey.client as redis:
        assert redis.zscore(keys.PARKED, job) is None


def test_a_person_is_told_that_it_waits(place: House, asker: SyncClient, prompt: str) -> None:
    """`staffel wait` says so once, and for what; `staffel show` too."""
    job = asker.submit(prompt, chain="a-once-wait", deadline=30)
    parked(asker, job)
    assert f"{job}: 1 failed → parked for once-wait until " in place.staffel("show", job).out
    waited = place.staffel("wait", job)
    assert (waited.code, waited.out) == (0, "at last\n")
    assert waited.err.count(f"job {job} waits: 1 failed → parked for once-wait until ") == 1


def test_it_goes_on_on_the_lane_that_it_waits_for(place: House, asker: SyncClient, caller: Celery, prompt: str) -> None:
    """It was handed off, the lane's stage throttled it, and it is sent to the lane again, not to where it began."""
    job = asker.submit(prompt, chain="hopes-for-the-lane", deadline=30)
    assert parked(asker, job)["parked_for"] == "lane-once"
    answer = asker.wait(job)
    assert (answer.stage, answer.text) == ("lane-once", "at last")
    assert [row["stage"] for row in answer.attempts] == ["broken", "lane-once", "lane-once"]
    assert len(place.calls("broken", prompt)) == 1
    assert AsyncResult(job, app=caller).get(timeout=10) == asker.show(job)


def by_client(client: SyncClient, caller: Celery, job: str) -> None:
    assert client.cancel(job) == "cancelled"


def by_revoke(client: SyncClient, caller: Celery, job: str) -> None:
    caller.control.revoke(job)


def by_terminate(client: SyncClient, caller: Celery, job: str) -> None:
    caller.control.revoke(job, terminate=True)


@pytest.mark.parametrize("cancel", [by_client, by_revoke, by_terminate])
def test_it_can_be_cancelled(
    place: House, asker: SyncClient, caller: Celery, prompt: str, cancel: Callable[[SyncClient, Celery, str], None]
) -> None:
    """At once, long before it would go on; both sides say so, and its host is asked no more."""
    name = f"long-{cancel.__name__}"
    job = asker.submit(prompt, chain=f"a-{name}", deadline=55)
    parked(asker, job)
    eventually(lambda: kept(place, job), "its message is kept")
    cancel(asker, caller, job)
    with pytest.raises(Cancelled):
        asker.wait(job)
    assert asker.show(job)["duration_s"] < 20
    eventually(lambda: AsyncResult(job, app=caller).state == "REVOKED", "Celery knows")
    assert len(place.calls(name, prompt)) == 1
    with place.valkey.client as redis:
        eventually(lambda: redis.zscore(keys.PARKED, job) is None, "it waits no more")


def test_it_survives_the_restart_of_the_only_worker(make_house: Callable[..., House], prompt: str) -> None:
    """Nothing of it is in a worker's memory: one that starts later sends it on and answers it."""
    place = make_house(stages=STAGES, chains=CHAINS)
    with SyncClient(place.url) as client:
        with serving(place, ()) as (worker,):
            job = client.submit(prompt, chain="a-once-restart", deadline=50)
            parked(client, job)
            assert worker.stop() == 0
        assert client.show(job)["status"] == "parked"
        with serving(place, ()):
            assert client.wait(job).text == "at last"
    assert len(place.calls("once-restart", prompt)) == 2


def test_a_deadline_that_is_too_near_is_not_waited_for(
    place: House, asker: SyncClient, caller: Celery, prompt: str
) -> None:
    """The job ends at once, and says from when on it is worth asking again."""
    with pytest.raises(Exhausted, match="; may be asked again from ") as raised:
        asker.ask(prompt, chain="a-long-soon", deadline=5)
    error = raised.value
    assert error.retry_at is not None
    wait = datetime.fromisoformat(error.retry_at) - datetime.now(UTC)
    assert 30 < wait.total_seconds() <= 40
    assert error.job is not None
    shown = asker.show(error.job)
    assert (shown["status"], shown["retry_at"]) == ("exhausted", error.retry_at)
    assert "; may be asked again from " in place.staffel("show", error.job).out
    celery = AsyncResult(error.job, app=caller)
    eventually(celery.ready, "Celery knows")
    assert "; may be asked again from " in str(celery.result)


def test_it_ends_by_its_deadline_where_the_stage_is_longer_away(
    place: House, asker: SyncClient, caller: Celery, prompt: str
) -> None:
    """Another job was told so meanwhile. Celery hears of the end too, and the stage is not asked for it."""
    job = asker.submit(prompt, chain="a-longer", deadline=5)
    parked(asker, job)
    with place.valkey.client as redis:
        reason, until, whose = str(redis.hget(keys.GATES, "longer")).split()
        redis.hset(keys.GATES, "longer", f"{reason} {int(until) + 60_000} {whose}")
    with pytest.raises(Expired):
        asker.wait(job)
    celery = AsyncResult(job, app=caller)
    eventually(celery.ready, "Celery knows")
    assert str(celery.result).startswith("expired: longer throttled (429)")
    assert len(place.calls("longer", prompt)) == 1


def test_a_chord_is_completed_by_parked_members(
    place: House, narrow: list[Worker], caller: Celery, prompt: str
) -> None:
    """Three members, all of which wait for one stage; the chord's body runs when the last is answered, once."""
    members = [asked(caller, "once-chord", f"{prompt} {n}") for n in range(3)]
    result = chord(members, app=caller)(asked(caller, "quick", f"{prompt} body"))
    assert result.get(timeout=40)["text"] == "quick"
    assert [member.get(timeout=10)["text"] for member in result.parent.results] == ["at last"] * 3
    assert len(place.calls("quick", f"{prompt} body")) == 1


def test_a_chain_goes_on_after_a_parked_link(place: House, narrow: list[Worker], caller: Celery, prompt: str) -> None:
    """What follows it is kept with it."""
    result = chain(asked(caller, "once-chain", prompt), asked(caller, "quick", f"{prompt} then"), app=caller)()
    assert result.get(timeout=30)["text"] == "quick"
    assert result.parent.get(timeout=10)["text"] == "at last"
    assert len(place.calls("quick", f"{prompt} then")) == 1


def test_a_job_whose_message_is_lost_waits_in_no_line(place: House, asker: SyncClient, prompt: str) -> None:
    """Somebody has taken it out of the record: nothing could be sent, and others of its line must not wait for that."""
    job = asker.submit(prompt, chain="a-long-lost", deadline=55)
    parked(asker, job)
    eventually(partial(kept, place, job), "its message is kept")
    with place.valkey.client as redis:
        redis.hdel(keys.job(job), "signature")
        assert asker.cancel(job) == "cancelled"
        eventually(lambda: not redis.exists(keys.line("long-lost")), "it waits in no line")
        assert redis.zscore(keys.PARKED, job) is None
