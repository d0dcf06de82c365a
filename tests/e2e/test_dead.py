"""A job that ended without an answer is kept whole, and answered once its host is mended; with real workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from celery.result import AsyncResult

from staffel import Cancelled, Client, Exhausted, Expired, Invalid, Refused, SyncClient
from staffel_wire import keys
from tests.e2e.callers import calling
from tests.eventually import eventually
from tests.nodes import House, Valkey, Worker, serving
from tests.nodes.stages import Played

MENDED = "status:500,ok:text=mended"
ONCE_EACH = ("by_hand", "celery", "twice")
STAGES = {
    **{f"mended-{name}": Played("openai", MENDED) for name in ONCE_EACH},
    "broken": Played("openai", "status:500"),
    "mended-home": Played("ollama", MENDED, {"local": True}),
    "asleep": Played("openai", "silent,ok:text=awake", {"timeout": 60}),
    "asleep-too": Played("openai", "silent,ok:text=awake", {"timeout": 60}),
    "hangs": Played("openai", "silent", {"timeout": 60}),
    "strict": Played("openai", "status:400"),
    "fine": Played("openai", "ok:text=fine"),
}
CHAINS = {**{f"a-{name}": (name,) for name in STAGES}, "both": ("broken", "mended-home")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    return House(valkey.another(), house.host, tmp_path_factory.mktemp("dead"), stages=STAGES, chains=CHAINS)


@pytest.fixture(scope="module")
def both(place: House) -> Iterator[list[Worker]]:
    with serving(place, ("-c", "4"), ("-Q", "ollama")) as workers:
        yield workers


@pytest.fixture(scope="module")
def asker(place: House, both: list[Worker]) -> Iterator[SyncClient]:
    with SyncClient(place.url) as asker:
        yield asker


@pytest.fixture(scope="module")
def caller(place: House) -> Iterator[Celery]:
    with calling(place.url) as app:
        yield app


def dies(client: SyncClient, prompt: str, chain: str, **fields: Any) -> str:
    """Its id."""
    with pytest.raises((Exhausted, Expired)) as raised:
        client.ask(prompt, chain=chain, **fields)
    assert raised.value.job is not None
    return raised.value.job


def is_listed(client: SyncClient, job: str) -> bool:
    return job in {letter.job for letter in client.dead.list()}


def told(client: SyncClient, job: str) -> list[tuple[int, str, str]]:
    return [(row["n"], row["stage"], row["outcome"]) for row in client.show(job)["attempts"]]


def test_a_person_finds_it_and_has_it_answered(place: House, asker: SyncClient, prompt: str) -> None:
    """List, show, replay: and what it asks is seen by nobody who does not ask for it."""
    job = dies(asker, prompt, "a-mended-by_hand", label="night batch")
    listed = place.staffel("dead", "list", "--json")
    (letter,) = [row for row in map(json.loads, listed.out.splitlines()) if row["job"] == job]
    assert (letter["status"], letter["stage"], letter["reason"]) == ("exhausted", "mended-by_hand", "server_error")
    assert (letter["label"], letter["attempts"]) == ("night batch", 1)
    assert job in place.staffel("dead").out
    seen = place.staffel("dead", "show", job)
    assert (seen.code, prompt in seen.out + seen.err + listed.out) == (0, False)
    assert seen.out.startswith(
        f"{job}: 1 failed → exhausted\nchain a-mended-by_hand, label night batch, plan mended-by_"
    )
    assert place.staffel("dead", "show", job, "--request", "--json").json["request"]["prompt"] == prompt

    waited = place.staffel("dead", "replay", job, "--wait", "--json")
    assert (waited.code, waited.json["text"], waited.json["job"]) == (0, "mended", job)
    assert told(asker, job) == [(1, "mended-by_hand", "failed"), (2, "mended-by_hand", "answered")]
    assert not is_listed(asker, job)
    again = place.staffel("dead", "replay", job)
    assert (again.code, again.err.splitlines()[-1]) == (2, f"there is no dead letter {job}; it is answered")
    assert "request" not in place.record(job)


def test_it_begins_with_the_stage_that_a_person_names(place: House, asker: SyncClient, prompt: str) -> None:
    """On that stage's own lane; the one before it is not asked again."""
    job = dies(asker, prompt, "both")
    done = place.staffel("dead", "replay", job, "--from", "mended-home", "--wait")
    assert (done.code, done.out) == (0, "mended\n")
    assert told(asker, job) == [(1, "broken", "failed"), (2, "mended-home", "failed"), (3, "mended-home", "answered")]
    assert len(place.calls("broken", prompt)) == 1


def test_one_that_fails_again_is_kept_again(place: House, asker: SyncClient, prompt: str) -> None:
    """With the attempts of both lives, and the exit code of its end."""
    job = dies(asker, prompt, "a-broken")
    done = place.staffel("dead", "replay", job, "--wait")
    assert done.code == 3
    eventually(lambda: is_listed(asker, job), "it is a dead letter")
    assert told(asker, job) == [(1, "broken", "failed"), (2, "broken", "failed")]
    assert asker.dead.show(job, request=True)["request"]["prompt"] == prompt


def test_an_expired_one_is_given_more_time(asker: SyncClient, prompt: str) -> None:
    """Else it has as much as before."""
    job = dies(asker, prompt, "a-asleep", deadline=1)
    shown = asker.dead.show(job)
    assert (shown["status"], shown["plan"]) == ("expired", ["asleep"])
    assert asker.dead.replay(job, deadline=40) == job
    answer = asker.wait(job)
    assert (answer.text, [row["outcome"] for row in answer.attempts][1:]) == ("awake", ["answered"])


@pytest.mark.parametrize(("chain", "fields"), [("a-mended-celery", {}), ("a-asleep-too", {"deadline": 1})])
def test_celery_hears_of_both_ends(
    asker: SyncClient, caller: Celery, prompt: str, chain: str, fields: dict[str, Any]
) -> None:
    """FAILURE, then nothing known, then SUCCESS: whoever asks for the result by the id gets the answer."""
    sent = caller.send_task("tasks.ask", [{"prompt": prompt, "chain": chain, **fields}], queue="cloud")

    def state() -> str:
        return str(AsyncResult(sent.id, app=caller).state)

    eventually(lambda: state() == "FAILURE", "Celery knows of the end", 20)
    assert asker.dead.replay(sent.id, deadline=40) == sent.id
    assert state() != "FAILURE"
    answer = asker.wait(sent.id)
    eventually(lambda: state() == "SUCCESS", "Celery knows of the answer", 20)
    assert AsyncResult(sent.id, app=caller).get(timeout=10)["text"] == answer.text


def test_two_people_replay_it_at_once(place: House, asker: SyncClient, prompt: str) -> None:
    """One of them has done it, the other is told; the host is asked once more, not twice."""
    job = dies(asker, prompt, "a-mended-twice")

    async def replay() -> list[Any]:
        async with Client(place.url) as one, Client(place.url) as other:
            return await asyncio.gather(one.dead.replay(job), other.dead.replay(job), return_exceptions=True)

    done = asyncio.run(replay())
    assert job in done
    (refused,) = [one for one in done if one != job]
    assert isinstance(refused, Invalid)
    assert str(refused).startswith(f"there is no dead letter {job}; it is ")
    assert asker.wait(job).text == "mended"
    assert len(place.calls("mended-twice", prompt)) == 2


def test_what_ended_in_any_other_way_keeps_no_request(place: House, asker: SyncClient, prompt: str) -> None:
    """Answered, refused, cancelled: nobody would ask it again."""
    answered = asker.ask(prompt, chain="a-fine").job
    with pytest.raises(Refused) as refused:
        asker.ask(prompt, chain="a-strict")
    cancelled = asker.submit(prompt, chain="a-hangs")
    eventually(lambda: place.calls("hangs", prompt), "it is asked")
    asker.cancel(cancelled)
    with pytest.raises(Cancelled):
        asker.wait(cancelled)
    with place.valkey.client as redis:
        for job in (answered, str(refused.value.job), cancelled):
            assert redis.hget(keys.job(job), "request") is None
            assert redis.zscore(keys.DEAD, job) is None
            assert redis.ttl(keys.job(job)) <= 86_400
        job = dies(asker, prompt, "a-broken")
        assert 6 * 86_400 < redis.ttl(keys.job(job)) <= 7 * 86_400
        assert 0 < redis.ttl(keys.DEAD) <= 7 * 86_400


def test_they_are_thrown_away_at_once(place: House, asker: SyncClient, prompt: str) -> None:
    """One by its name, or all; how they ended is still shown."""
    first, second = dies(asker, prompt, "a-broken"), dies(asker, prompt, "a-broken")
    assert place.staffel("dead", "drop", first).out == f"{first}: dropped\n"
    assert place.staffel("dead", "drop", first).code == 2
    assert place.staffel("dead", "drop", "--all", "--json").json["dropped"] >= 1
    assert asker.dead.list() == ()
    assert place.staffel("dead").out == "no dead letters\n"
    for job in (first, second):
        assert asker.show(job)["status"] == "exhausted"
        assert not {"request", "answer"} & set(place.record(job))


def test_with_no_time_to_keep_them_nothing_is_kept(make_house: Callable[..., House], prompt: str) -> None:
    """`dead_ttl = 0`, for those who may keep no prompt."""
    place = make_house(stages=STAGES, chains=CHAINS)
    place.config.write_text(f"dead_ttl = 0\n{place.config.read_text()}")
    with serving(place, ("-c", "1")), SyncClient(place.url) as client:
        job = dies(client, prompt, "a-broken")
        late = dies(client, prompt, "a-hangs", deadline=1)
        assert client.dead.list() == ()
        for one in (job, late):
            assert "request" not in place.record(one)
            with pytest.raises(Invalid, match="and its request is not kept"):
                client.dead.replay(one)


def test_a_lane_that_nobody_serves_is_told(make_house: Callable[..., House], prompt: str) -> None:
    """It waits there again, and expires there again unless somebody starts a worker."""
    stages = {"fine": Played("openai", "ok"), "attic": Played("openai", "ok", {"lane": "attic"})}
    place = make_house(stages=stages, chains={"default": ("fine",), "a-attic": ("attic",)})
    with serving(place, ("-c", "1")), SyncClient(place.url) as client:
        job = dies(client, prompt, "a-attic", deadline=1)
        done = place.staffel("dead", "replay", job, "--json")
        assert (done.json["job"], done.json["lane"]) == (job, "attic")
        assert f"job {job} waits: no worker serves the lane 'attic'" in done.err
        eventually(lambda: is_listed(client, job), "it is a dead letter again", 20)
        client.dead.replay(job, deadline=50)
        with serving(place, ("-Q", "attic")):
            assert client.wait(job).stage == "attic"
