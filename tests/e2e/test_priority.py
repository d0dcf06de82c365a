"""Interactive jobs before batch jobs, on every lane, and a tenth for these."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import pytest
from celery import Celery

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, Played, serving

STAGES = {"cloud": Played("openai", "ok:echo:delay=0.03"), "lane": Played("ollama", "ok:echo:delay=0.03")}
CHAINS = {f"at-{name}": {"stages": [name], "deadline": 600} for name in STAGES}
WORKERS = {"cloud": ("-c", "1"), "lane": ("-Q", "ollama")}


@pytest.fixture
def waiting_house(make_house: Callable[..., House]) -> House:
    """Whose workers have ended: what is submitted waits."""
    house = make_house(stages=STAGES, chains=CHAINS)
    with serving(house, ("-c", "1")):
        pass
    return house


def order(house: House, stage: str) -> list[str]:
    """The prompts that the stage's host was asked, as they came."""
    return [call.body["messages"][-1]["content"] for call in house.host.calls(house.urls[stage])]


@pytest.mark.parametrize("stage", STAGES)
def test_every_tenth_job_that_is_taken_is_a_batch_job(waiting_house: House, stage: str) -> None:
    """All batch jobs had been there first; once no interactive one waits any more, they have the lane."""
    house = waiting_house
    with SyncClient(house.url) as client:
        jobs = [client.submit(f"batch {n}", chain=f"at-{stage}", priority="batch") for n in range(10)]
        jobs += [client.submit(f"now {n}", chain=f"at-{stage}") for n in range(40)]
        with serving(house, WORKERS[stage]):
            shown = [client.wait(job).shown["priority"] for job in jobs]
    assert shown == ["batch"] * 10 + ["interactive"] * 40
    found = order(house, stage)
    assert [place for place, prompt in enumerate(found, 1) if "batch" in prompt] == [10, 20, 30, 40, *range(45, 51)]
    assert found[9] == "batch 0"
    assert [prompt for prompt in found if "now" in prompt] == [f"now {n}" for n in range(40)]


@pytest.mark.parametrize("stage", STAGES)
def test_an_interactive_job_behind_a_long_batch_is_next_or_next_but_one(waiting_house: House, stage: str) -> None:
    """Behind 1,500 documents a person waited for an hour."""
    house = waiting_house
    with SyncClient(house.url) as client:
        for n in range(1500):
            client.submit(f"batch {n}", chain=f"at-{stage}", priority="batch")
        with serving(house, WORKERS[stage]):
            for number in range(5):
                eventually(lambda: len(order(house, stage)) > 12 * number, "the batch goes on", 30)  # noqa: B023
                before = len(order(house, stage))
                client.ask(f"now {number}", chain=f"at-{stage}")
                assert order(house, stage)[before:].index(f"now {number}") <= 2, "one may have begun meanwhile"


def test_a_foreign_batch_job_goes_to_the_batch_queue_of_its_next_lane(make_house: Callable[..., House]) -> None:
    """Wherever its message came in; whoever names the batch queue alone serves the lane."""
    stages = {"broken": Played("openai", "status:500"), "lane": STAGES["lane"]}
    house = make_house(stages=stages, chains={"default": ("broken", "lane")})
    stranger = Celery("stranger", broker=house.url, backend=house.url)
    with serving(house, ()), SyncClient(house.url) as client, house.valkey.client as redis, stranger:
        fields = {"prompt": "Why?", "priority": "batch"}
        sent = stranger.send_task("tasks.ask", [fields], queue="cloud")
        eventually(lambda: redis.llen("ollama.batch") == 1, "it waits for the lane")
        record = house.record(sent.id)
        assert (record["lane"], record["priority"], redis.llen("ollama")) == ("ollama", "batch", 0)
        assert record["ticket"].startswith("ollama.batch ")
        assert redis.zcard(keys.WAITING) == 1
        with serving(house, ("-Q", "ollama.batch")):
            assert sent.get(timeout=30)["priority"] == "batch"
            assert client.ask("Now?", chain="default").stage == "lane", "and its interactive queue"
        assert redis.zcard(keys.WAITING) == 0


def test_lost_batch_messages_are_put_back_where_they_were(waiting_house: House) -> None:
    """Both queues of a lane are searched."""
    house = waiting_house
    with SyncClient(house.url) as client, house.valkey.client as redis:
        kept = client.submit("batch kept", chain="at-lane", priority="batch")
        lost = client.submit("batch lost", chain="at-lane", priority="batch")
        redis.lpop("ollama.batch")
        for job in (kept, lost):
            redis.zadd(keys.OPEN, {job: 1})
        with serving(house, ()):
            eventually(lambda: redis.llen("ollama.batch") == 2, "the message is back", 20)
            assert redis.llen("ollama") == 0
            assert redis.zrange(keys.WAITING, 0, 0)[0].endswith(lost), "it is the next one, as its message is"


def test_an_operator_may_stop_the_batch_jobs_alone(waiting_house: House) -> None:
    """The worker is well meanwhile; the lane's name brings both queues back."""
    house = waiting_house
    with serving(house, ("-Q", "ollama")), SyncClient(house.url) as client:
        assert house.celery("control", "cancel_consumer", "ollama.batch").code == 0
        batch = client.submit("batch", chain="at-lane", priority="batch")
        assert client.ask("now", chain="at-lane").text
        assert client.show(batch)["status"] == "queued"
        worker = f"ollama@{socket.gethostname()}"
        eventually(lambda: house.staffel("health", "--worker", worker).code == 0, "the worker is well", 30)
        assert house.celery("control", "add_consumer", "ollama").code == 0
        assert client.wait(batch).text


def test_several_hosts_have_a_lane_each(make_house: Callable[..., House]) -> None:
    """A lane's name may hold dots; a chain that names both hosts goes from one to the other."""
    with Host() as other:
        home = {"local": True}
        stages = {
            "gpu1": Played("ollama", "status:500", {**home, "lane": "ollama.gpu1"}),
            "gpu2": Played("ollama", "ok", {**home, "lane": "ollama.gpu2", "base_url": other.ollama("ok:text=two")}),
        }
        house = make_house(stages=stages, chains={"default": ("gpu1", "gpu2")})
        with serving(house, ("-Q", "ollama.gpu1"), ("-Q", "ollama.gpu2,ollama.gpu2.batch")):
            with SyncClient(house.url) as client:
                assert client.ask("Why?").text == "two"
                assert client.ask("Why?", priority="batch").text == "two"
            health = house.staffel("health", "--json")
            assert [row["lane"] for row in health.json["found"]] == ["ollama.gpu1", "ollama.gpu2"]
            eventually(lambda: house.staffel("health").code == 0, "both lanes are well", 30)


@pytest.mark.parametrize("options", [(), ("--priority", "batch")])
def test_the_priority_on_the_command_line(waiting_house: House, options: Sequence[str]) -> None:
    house = waiting_house
    submitted = house.staffel("submit", "Why?", "--chain", "at-lane", "--json", *options)
    with house.valkey.client as redis:
        assert (redis.llen("ollama"), redis.llen("ollama.batch")) == ((0, 1) if options else (1, 0))
    shown = house.staffel("show", submitted.json["job"], "--json").json
    assert shown["priority"] == ("batch" if options else "interactive")
