"""What a person may see of the stages, read from a real Valkey; and what the switch by hand leaves there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Known, Offer, Plan, from_json
from staffel_wire.scripts import source
from staffel_wire.stages import Action, counted, looked, looking, switching
from tests.nodes import Valkey

NOW = 1_800_000_000_000
DAY = 86_400_000
ALIVE, DEAD = "cloud/celery@a/1-aa", "cloud/celery@b/2-bb"
PRIMARY = Known("gpt", "1d", 10_000, 3, 60, 6000, 10.0, None, 5.0)
CATALOGUE = Catalogue(
    {
        "default": Plan((Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True)), 90.0),
        "other": Plan((Offer("east", "cloud", local=False), Offer("west", "cloud", local=False)), 90.0),
    },
    known={
        "primary": PRIMARY,
        "local": Known("qwen", "2d"),
        "east": Known("gpt", "3d", max_in_flight=2, group="account"),
        "west": Known("gpt", "4d", max_in_flight=2, group="account"),
    },
)


@pytest.fixture
def server(valkey: Valkey) -> Iterator[redis.Redis]:
    with valkey.another().client as client:
        client.zadd(keys.WORKERS, {ALIVE: NOW - 1000, DEAD: NOW - 60_000})
        yield client


def look(server: redis.Redis, stage: str = "primary", now: int = NOW, catalogue: Catalogue = CATALOGUE) -> Any:
    names, arguments = looking(catalogue, now)
    rows = looked(catalogue, server.eval(source("stages"), len(names), *names, *arguments))  # type: ignore[arg-type]
    return next(row for row in rows if row["stage"] == stage)


def switch(server: redis.Redis, action: Action, for_ms: int | None = None) -> None:
    names, arguments = switching("primary", "1d", action, for_ms, NOW)
    server.eval(source("switch"), len(names), *names, *arguments)


def test_a_stage_of_which_nothing_is_known_is_closed_and_has_all_its_limits(server: redis.Redis) -> None:
    """Nothing has been called yet: there is no key of it."""
    row = look(server)
    shown = ("state", "reason", "until", "next_probe", "calls", "in_flight", "requests_left", "tokens_left", "parked")
    assert [row[name] for name in shown] == ["closed", None, None, None, 0, 0, 10, 1000, 0]
    assert (row["spent_usd"], row["usd_per_day"], row["lane"]) == (0.0, 5.0, "cloud")


def test_every_stage_is_there_once_with_those_of_the_default_chain_first(server: redis.Redis) -> None:
    """The order in which they are asked is the one in which a person looks for them."""
    names, arguments = looking(CATALOGUE, NOW)
    rows = looked(CATALOGUE, server.eval(source("stages"), len(names), *names, *arguments))  # type: ignore[arg-type]
    assert [row["stage"] for row in rows] == ["primary", "local", "east", "west"]


@pytest.mark.parametrize(
    ("gate", "seen"),
    [
        ("breaker_open 9000 1d", ("open", "breaker_open", 9000, 9000)),
        ("auth 9000 1d", ("open", "auth", 9000, 9000)),
        ("breaker_open -1 1d", ("half_open", "breaker_open", None, 0)),
        ("throttled 9000 1d", ("throttled", "throttled", 9000, None)),
        ("overloaded 9000 1d", ("throttled", "overloaded", 9000, None)),
        ("throttled -1 1d", ("closed", None, None, None)),
        ("breaker_open 5000 1d; throttled 9000 1d", ("throttled", "throttled", 9000, 9000)),
        ("breaker_open 9000 1d; throttled 5000 1d", ("open", "breaker_open", 9000, 9000)),
        ("breaker_open -1 1d; throttled 5000 1d", ("throttled", "throttled", 5000, 5000)),
        ("switched_off 1000 *; breaker_open 9000 1d", ("off", "switched_off", 1000, None)),
        ("switched_off -1 *; breaker_open 9000 1d", ("open", "breaker_open", 9000, 9000)),
        ("breaker_open 9000 another", ("closed", None, None, None)),
    ],
)
def test_a_gate_is_read_as_admit_reads_it(
    server: redis.Redis, gate: str, seen: tuple[str, str | None, int | None, int | None]
) -> None:
    """The hand's reason first, else the one that lasts longest; another host's under the same name is nobody's."""
    written = " ".join(str(NOW + int(w)) if w.lstrip("-").isdecimal() else w for w in gate.split())
    server.hset(keys.GATES, "primary", written)
    row = look(server)
    state, reason, until, probe = seen
    assert (row["state"], row["reason"]) == (state, reason)
    assert (row["until"], row["next_probe"]) == (iso(until), iso(probe))
    assert row["raw"]["gate"] == written


def iso(after_ms: int | None) -> str | None:
    return None if after_ms is None else f"2027-01-15T08:00:{after_ms / 1000:06.3f}Z"


def test_a_window_forgets_what_is_older(server: redis.Redis) -> None:
    """Parts of half a second; of ten seconds there are twenty, and the one that begins on the edge is out."""
    part = NOW // 500
    assert counted(f"{part - 20}:9:9 {part - 19}:4:1 {part}:3:2", 10_000, NOW) == (7, 3)
    server.hset(keys.stage("primary"), mapping={"id": "1d", "window": f"{part}:7:3", "row": 2})
    row = look(server)
    assert (row["calls"], row["failures"], row["failures_in_a_row"], row["window_s"]) == (7, 3, 2, 10.0)


def test_what_was_counted_of_another_model_is_not_shown_but_what_was_spent_is(server: redis.Redis) -> None:
    """The file was changed and no call has been made since: money stays spent."""
    found = {"id": "another", "window": f"{NOW // 500}:7:3", "row": 2, "spent_usd": "0.5", "spent_until": NOW + 1}
    server.hset(keys.stage("primary"), mapping=found)
    row = look(server)
    assert (row["calls"], row["failures_in_a_row"], row["spent_usd"]) == (0, 0, 0.5)


def test_what_was_spent_yesterday_is_not_shown(server: redis.Redis) -> None:
    """A day ends at 00:00 UTC."""
    server.hset(keys.stage("primary"), mapping={"id": "1d", "spent_usd": "0.500000000", "spent_until": NOW})
    assert look(server)["spent_usd"] == 0.0
    assert look(server, now=NOW - 1)["spent_usd"] == 0.5


def test_buckets_fill_by_themselves(server: redis.Redis) -> None:
    """60 requests and 6,000 tokens a minute with a burst of ten seconds: ten and a thousand, full at an instant."""
    full = {"requests_full_at": (NOW + 4000) * 1000, "tokens_full_at": (NOW + 20_000) * 1000}
    server.hset(keys.stage("primary"), mapping=full)
    row = look(server)
    assert (row["requests_left"], row["requests_burst"], row["tokens_left"], row["tokens_burst"]) == (6, 10, 0, 1000)
    row = look(server, now=NOW + 15_000)
    assert (row["requests_left"], row["tokens_left"]) == (10, 500)


def test_a_slow_rate_holds_one_request_whatever_its_burst(server: redis.Redis) -> None:
    """One request a minute with a burst of six seconds would else be never."""
    known = {"primary": Known("gpt", "1d", requests_per_minute=1)}
    catalogue = Catalogue(CATALOGUE.chains, known=known)
    row = look(server, catalogue=catalogue)
    assert (row["requests_left"], row["requests_burst"]) == (1, 1)


def test_in_flight_are_leases_of_the_living(server: redis.Redis) -> None:
    """A dead worker's places and those whose time is over are free, whether or not somebody has tidied them up."""
    held = {f"{ALIVE} j1 1": NOW + 1, f"{ALIVE} j 2 1": NOW + 1, f"{ALIVE} j3 1": NOW, f"{DEAD} j4 1": NOW + 9000}
    server.zadd(keys.in_flight("primary"), held)
    row = look(server)
    assert (row["in_flight"], row["max_in_flight"]) == (2, 3)
    assert (look(server, "local")["in_flight"], look(server, "local")["max_in_flight"]) == (0, None)


def test_stages_behind_one_account_show_what_the_account_has(server: redis.Redis) -> None:
    """Both of them the same figure."""
    server.zadd(keys.group_in_flight("account"), {f"{ALIVE} j 1": NOW + 1})
    for stage in ("east", "west"):
        row = look(server, stage)
        assert (row["in_flight"], row["limit_group"]) == (1, "account")


def test_who_probes_is_named(server: redis.Redis) -> None:
    """The job's id may have blanks; a dead worker's probe is free again."""
    server.hset(keys.GATES, "primary", f"breaker_open {NOW - 1} 1d")
    server.zadd(keys.probe("primary"), {f"{DEAD} job 1": NOW + 9000})
    assert (look(server)["probe"], look(server)["next_probe"]) == (None, iso(0))
    server.zadd(keys.probe("primary"), {f"{ALIVE} my own job 3": NOW + 9000})
    row = look(server)
    assert row["probe"] == {"worker": ALIVE, "job": "my own job", "until": iso(9000)}
    assert (row["state"], row["next_probe"]) == ("half_open", iso(9000))
    server.delete(keys.probe("primary"))
    server.zadd(keys.probe("primary"), {"- sent 0": NOW + 9000})
    assert look(server)["probe"] == {"worker": None, "job": "sent", "until": iso(9000)}


def test_parked_jobs_are_counted_by_stage(server: redis.Redis) -> None:
    """Those that were sent on and that no worker has taken yet are still there."""
    server.zadd(keys.line("primary"), {"a": NOW - 1, "b": NOW + 120_000})
    assert (look(server)["parked"], look(server, "local")["parked"]) == (2, 0)


def test_what_is_known_of_a_stage_travels_with_the_catalogue() -> None:
    """And what a newer worker adds to it is passed over, as everywhere in it."""
    data = json.loads(CATALOGUE.to_json())
    data["known"]["primary"]["colour"] = "green"
    assert from_json(json.dumps(data)) == CATALOGUE


def test_an_older_worker_s_catalogue_shows_what_needs_no_configuration(server: redis.Redis) -> None:
    """It names no identity, so every reason is believed."""
    server.hset(keys.GATES, "primary", f"breaker_open {NOW + 9000} any")
    server.hset(keys.stage("primary"), mapping={"id": "any", "window": "1:7:3"})
    row = look(server, catalogue=Catalogue(CATALOGUE.chains))
    assert (row["state"], row["calls"], row["window_s"], row["max_in_flight"]) == ("open", 7, None, None)


def test_a_stage_is_switched_off_for_a_time_and_everything_of_it_has_an_end(server: redis.Redis) -> None:
    """What its breaker had said stays beside it."""
    server.hset(keys.GATES, "primary", f"breaker_open {NOW - 5} 1d; throttled {NOW + 5} 1d; auth {NOW} other")
    switch(server, "off", 60_000)
    written = server.hget(keys.GATES, "primary")
    assert written == f"switched_off {NOW + 60_000} *; breaker_open {NOW - 5} 1d; throttled {NOW + 5} 1d"
    assert server.pttl(keys.GATES) > DAY
    switch(server, "on")
    assert server.hget(keys.GATES, "primary") == f"breaker_open {NOW - 5} 1d; throttled {NOW + 5} 1d"


def test_without_a_time_it_is_off_for_a_year(server: redis.Redis) -> None:
    """Every key has a TTL; a year is as good as for ever."""
    switch(server, "off")
    assert server.hget(keys.GATES, "primary") == f"switched_off {NOW + 365 * DAY} *"
    assert server.pttl(keys.GATES) > 365 * DAY
    switch(server, "on")
    assert not server.exists(keys.GATES)


def test_a_stage_that_is_on_may_be_switched_on(server: redis.Redis) -> None:
    """Nothing is written."""
    switch(server, "on")
    assert server.keys() == [keys.WORKERS]


def test_a_reset_forgets_the_faults_and_keeps_the_money_the_limits_and_the_hand(server: redis.Redis) -> None:
    """A call that is under way was admitted in an older generation, and teaches nothing of what was forgotten."""
    forgotten = {"reason": "auth", "until": 1, "window": "1:1:1", "row": 5, "opened": 2, "throttles": 3,
                 "dropped": "[]", "refused": "[]", "loud:auth": 9, "loud:quota": 9, "believed_until": 9}  # fmt: skip
    kept = {"requests_full_at": "1", "tokens_full_at": "2", "spent_usd": "3", "spent_until": "4"}
    server.hset(keys.stage("primary"), mapping={"id": "1d", "state": "open", "generation": 7, **forgotten, **kept})
    server.zadd(keys.probe("primary"), {f"{ALIVE} j 1": NOW + 9000})
    server.hset(keys.GATES, "primary", f"switched_off {NOW + 9000} *; auth {NOW + 5} 1d; throttled {NOW + 5} 1d")
    switch(server, "reset")
    found = server.hgetall(keys.stage("primary"))
    assert found == {"id": "1d", "state": "closed", "generation": "8", **kept}
    assert DAY < server.pttl(keys.stage("primary")) <= 2 * DAY
    assert server.hget(keys.GATES, "primary") == f"switched_off {NOW + 9000} *"
    assert not server.exists(keys.probe("primary"))


def test_a_look_writes_nothing(server: redis.Redis) -> None:
    """It may be looked at once a second, by anybody."""
    server.zadd(keys.in_flight("primary"), {f"{DEAD} j 1": NOW - 1})
    before = server.dbsize()
    look(server)
    assert (server.dbsize(), server.zcard(keys.in_flight("primary"))) == (before, 1)
