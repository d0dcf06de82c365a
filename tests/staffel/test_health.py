"""`staffel health`: whether jobs are taken, for people and for health checks."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from config.settings import settings
from staffel_wire import keys
from staffel_wire.health import Pulse, pulses
from tests.nodes import House, Played
from worker.published import catalogue

CLOUD, LANE = "cloud/cloud@here/1-a", "ollama/ollama@here/2-b"
NOW = 1_000_000


def reply(*silent_ms: float, **said: object) -> list[object]:
    """What `health.lua` says of one worker that said this of itself a second ago."""
    words = {
        "name": "cloud@here",
        "slots": 4,
        "busy": 1,
        "taken": 7,
        "taken_at": NOW - 9000,
        "beat_at": NOW - 1000,
        **said,
    }
    flat = [str(part) for pair in words.items() for part in pair]
    beat = str(NOW - (silent_ms[0] if silent_ms else 500))
    return [NOW, [CLOUD, beat], [flat]]


def test_a_worker_that_says_what_it_takes_is_healthy() -> None:
    """The count, the slots, and how long ago it took the last."""
    assert pulses([CLOUD], reply()) == [Pulse("cloud", "cloud@here", "", 4, 1, 7, 9.0)]


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        (reply(12_000), "not heard of for 12 s"),
        (reply(beat_at=NOW - 14_000), "has said nothing of its work for 14 s"),
        (reply(stuck="3 jobs wait"), "takes nothing: 3 jobs wait"),
        (reply(mode="draining"), "ends, and takes nothing more"),
        (
            reply(mode="cancelled"),
            "takes nothing: its queue was cancelled (celery control add_consumer brings it back)",
        ),
        ([NOW, [CLOUD, str(NOW)], [[]]], "has not begun to take jobs"),
    ],
)
def test_a_heartbeat_alone_is_no_health(heard: list[object], why: str) -> None:
    """The old check asked whether the process answers; one that took nothing for hours did."""
    (pulse,) = pulses([CLOUD], heard)
    assert (pulse.healthy, pulse.why) == (False, why)


def test_who_has_ended_between_the_two_questions_is_left_out() -> None:
    """Nobody is to be blamed for it."""
    assert pulses([CLOUD, LANE], [NOW, [CLOUD, str(NOW)], [reply()[2][0], []]])[0].name == "cloud@here"  # type: ignore[index]


@pytest.fixture
def house(make_house: Callable[..., House]) -> House:
    """Two lanes, and no worker."""
    stages = {"a": Played("openai", "ok"), "b": Played("ollama", "ok")}
    return make_house(stages=stages, chains={"default": ("a", "b")})


@pytest.fixture
def redis(house: House) -> Iterator[Redis]:
    with house.valkey.client as client:
        yield client


def lives(redis: Redis, member: str, name: str, **said: object) -> None:
    """A worker speaks, and goes on to speak for a minute."""
    now = (int(redis.time()[0]) + 60) * 1000
    redis.zadd(keys.WORKERS, {member: now})
    words = {"name": name, "slots": 4, "busy": 1, "taken": 0, "beat_at": now, "stuck": "", "mode": "consumes", **said}
    redis.hset(keys.worker(member), mapping={key: str(value) for key, value in words.items()})


def publish(house: House, redis: Redis) -> None:
    """As a worker does when it starts."""
    redis.set(keys.CATALOGUE, catalogue(settings(house.config)).to_json())


def test_every_lane_that_a_chain_uses_needs_a_worker(house: House, redis: Redis) -> None:
    """One line a lane, and the exit code is 1 until all are served."""
    nobody = house.staffel("health")
    assert (nobody.code, nobody.out) == (1, "*: no worker has ever started here\n")
    publish(house, redis)
    lives(redis, CLOUD, "cloud@here")
    half = house.staffel("health")
    assert (half.code, half.out.splitlines()) == (
        1, ["cloud: 1 of 1 workers take jobs; 1 of 4 slots busy, 0 taken", "ollama: no worker lives"],
    )  # fmt: skip
    assert house.staffel("health", "--lane", "cloud").code == 0
    lives(redis, LANE, "ollama@here")
    assert house.staffel("health").code == 0
    lives(redis, LANE, "ollama@here", stuck="2 jobs wait")
    stuck = house.staffel("health", "--json")
    assert stuck.code == 1
    assert not stuck.json["healthy"]
    assert [(row["lane"], row["healthy"]) for row in stuck.json["found"]] == [("cloud", True), ("ollama", False)]
    assert stuck.json["found"][1]["line"] == "ollama@here takes nothing: 2 jobs wait"


def test_one_worker_or_those_of_this_machine_are_asked_about_alone(house: House, redis: Redis) -> None:
    """What a container's health check wants; one that was killed does not speak against its next one."""
    host = socket.gethostname()
    lives(redis, CLOUD, "cloud@here", stuck="2 jobs wait")
    assert house.staffel("health", "--worker", "cloud@here").code == 1
    lives(redis, "cloud/cloud@here/9-c", "cloud@here")
    found = house.staffel("health", "--worker", "cloud@here", "--json")
    assert (found.code, [row["worker"] for row in found.json["found"]]) == (0, ["cloud@here"])
    nobody = house.staffel("health", "--here")
    assert (nobody.code, nobody.out) == (1, f"*@{host}: no such worker lives\n")
    lives(redis, f"ollama/ollama@{host}/3-d", f"ollama@{host}")
    assert house.staffel("health", "--here").out.startswith(f"ollama@{host}: takes jobs; ")
    both = house.staffel("health", "--here", "--lane", "cloud")
    assert (both.code, "do not go together" in both.err) == (2, True)


def test_without_redis_the_exit_code_is_another(house: House) -> None:
    """Who restarts a worker for it restarts the wrong thing."""
    away = house.staffel("health", "--json", STAFFEL_REDIS_URL="redis://127.0.0.1:1/0")
    assert away.code == 6
    assert json.loads(away.out)["exit_code"] == 6
