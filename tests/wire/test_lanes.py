"""What a person may see of the lanes, read from a real Valkey."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue
from staffel_wire.scripts import source
from staffel_wire.stages import looked_at_lanes, looking
from tests.nodes import Valkey
from tests.wire.test_stages import ALIVE, CATALOGUE, DEAD, NOW

OWNER, STANDBY = "ollama/lane@a/1-aa", "ollama/lane@b/1-bb"
KEYS = {
    "kind", "stage", "lane", "waiting", "interactive", "batch", "in_queue", "oldest_s", "in_hand", "running_since",
    "running_s",
    "calls_seen", "call_s", "calls_per_minute", "tokens_per_second", "eta_s", "eta_from_s", "eta_to_s", "busy_share",
    "owner", "standby", "workers", "at",
}  # fmt: skip


@pytest.fixture
def server(valkey: Valkey) -> Iterator[redis.Redis]:
    with valkey.another().client as client:
        client.zadd(keys.WORKERS, {ALIVE: NOW - 1000, DEAD: NOW - 60_000, OWNER: NOW, STANDBY: NOW - 500})
        yield client


def look(server: redis.Redis, lane: str = "ollama", catalogue: Catalogue = CATALOGUE) -> dict[str, Any]:
    names, arguments = looking(catalogue, NOW)
    rows = looked_at_lanes(catalogue, server.eval(source("stages"), len(names), *names, *arguments))  # type: ignore[arg-type]
    assert [row["lane"] for row in rows] == ["cloud", "ollama"]
    return next(row for row in rows if row["lane"] == lane)


def waits(server: redis.Redis, queue: str, since_ms: int, job: str) -> None:
    server.zadd(keys.WAITING, {f"{queue} {since_ms * 1000:016} {job}": 0})


def test_a_lane_of_which_nothing_is_known_is_empty(server: redis.Redis) -> None:
    """Every key is there all the same."""
    server.delete(keys.WORKERS)
    row = look(server)
    assert set(row) == KEYS
    assert {name: value for name, value in row.items() if value} == {
        "kind": "lane", "lane": "ollama", "at": "2027-01-15T08:00:00.000Z"
    }  # fmt: skip


def test_who_waits_is_counted_by_priority_with_the_age_of_the_oldest(server: redis.Redis) -> None:
    """Messages that nobody has a record of are in the queue all the same."""
    for n in range(3):
        waits(server, "ollama", NOW - 1000 - n, f"i{n}")
    for n in range(12):
        waits(server, "ollama.batch", NOW - 5000 - n, f"b{n}")
    waits(server, "cloud", NOW - 10, "c")
    waits(server, "ollama.gpu2", NOW - 99_000, "of another lane")
    server.rpush("ollama", "m", "m")
    server.rpush("ollama.batch\x06\x163", *["m"] * 14)
    row = look(server)
    assert (row["waiting"], row["interactive"], row["batch"], row["in_queue"]) == (15, 3, 12, 16)
    assert row["oldest_s"] == 5.011
    cloud = look(server, "cloud")
    assert (cloud["waiting"], cloud["oldest_s"], cloud["workers"], cloud["owner"]) == (1, 0.01, [ALIVE], None)


def test_the_pace_says_when_it_will_be_empty(server: redis.Redis) -> None:
    """Ten calls of 2 s and 60 tokens, one that has run for 1 s, one prepared and three that wait: 9 s."""
    busy = f"{NOW // 5000 - 2}:5000 {NOW // 5000 - 1}:3000"
    server.hset(keys.PACE, "ollama", json.dumps({"calls": [[2000, 10, 60]] * 10, "busy": busy, "at": NOW}))
    said = {"owner": OWNER, "since": NOW - 1000, "in_hand": 2, "at": NOW}
    server.hset(keys.LANES, "ollama", json.dumps(said))
    for n in range(3):
        waits(server, "ollama", NOW - 1000, f"i{n}")
    row = look(server)
    assert (row["calls_seen"], row["call_s"], row["calls_per_minute"], row["tokens_per_second"]) == (10, 2, 30, 30)
    assert (row["running_since"], row["running_s"], row["in_hand"]) == ("2027-01-15T07:59:59.000Z", 1, 2)
    assert row["eta_s"] == 9
    assert 8 < row["eta_from_s"] < 9 < row["eta_to_s"] < 10
    assert row["busy_share"] == 0.15, "8 s of before, and one of now"
    assert (row["owner"], row["standby"], row["workers"]) == (OWNER, [STANDBY], [STANDBY, OWNER])


def test_what_a_dead_owner_has_said_is_not_believed(server: redis.Redis) -> None:
    """Its jobs come back into the queue; the other is about to have the lane."""
    server.zadd(keys.WORKERS, {OWNER: NOW - 30_000})
    server.hset(keys.LANES, "ollama", json.dumps({"owner": OWNER, "since": NOW - 1000, "in_hand": 2, "at": NOW}))
    row = look(server)
    assert (row["owner"], row["in_hand"], row["running_since"]) == (None, 0, None)
    assert (row["standby"], row["workers"]) == ([], [STANDBY])
