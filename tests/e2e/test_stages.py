"""`staffel stages` against real workers: what they have found out is shown, and what a hand says is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from staffel import SyncClient
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, serving
from tests.nodes.stages import Played
from tests.nodes.valkey import Valkey

PRICE = {"price": {"input": 1.0, "output": 1.0}}
STAGES = {
    "dead": Played("openai", "status:500", {"usd_per_day": 5.0, "breaker.open_for": 300, **PRICE}),
    "echo": Played("openai", "ok:echo", {"requests_per_minute": 600, **PRICE}),
    "silent": Played("openai", "silent", {"max_in_flight": 2}),
    "alone": Played("openai", "ok:echo"),
}
CHAINS = {"default": ("dead", "echo"), "quick": ("echo",), "hang": ("silent",), "one": ("alone",)}


@pytest.fixture(scope="module")
def small(valkey: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with a cloud worker alone, whose stages nobody else switches."""
    with Host() as host:
        made = House(valkey.another(), host, tmp_path_factory.mktemp("small"), stages=STAGES, chains=CHAINS)
        with serving(made, ("-Q", "cloud")):
            yield made


@pytest.fixture
def ask(small: House) -> Iterator[SyncClient]:
    with SyncClient(small.url) as client:
        yield client


def seen(house: House, stage: str) -> dict[str, Any]:
    done = house.staffel("stages", "--json", STAFFEL_CONFIG="/nowhere/staffel.toml")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    return next(row for row in rows if row["stage"] == stage)


def story(client: SyncClient, chain: str, prompt: str) -> list[tuple[str, str, str | None]]:
    return [(row["stage"], row["outcome"], row["reason"]) for row in client.ask(prompt, chain=chain).attempts]


def until(ask: Callable[[], Any], done: str) -> Any:
    return eventually(ask, done, 20)


def test_a_dead_stage_is_shown_as_open_and_asked_again_after_a_reset(
    small: House, ask: SyncClient, prompt: str
) -> None:
    """Nobody need wait for the probe who knows that the host is mended."""
    small.staffel("stages", "reset", "dead")  # another test's failures
    for number in range(5):
        assert story(ask, "default", f"{prompt} {number}")[0] == ("dead", "failed", "server_error")
    row = seen(small, "dead")
    assert (row["state"], row["reason"], row["model"]) == ("open", "breaker_open", "model-of-dead")
    assert row["until"] == row["next_probe"] > row["at"]
    assert story(ask, "default", prompt)[0] == ("dead", "skipped", "breaker_open")
    assert small.staffel("stages", "reset", "dead").out == "dead: closed\n"
    assert story(ask, "default", prompt)[0] == ("dead", "failed", "server_error")
    row = seen(small, "dead")
    assert (row["state"], row["calls"], row["failures"], row["failures_in_a_row"]) == ("closed", 1, 1, 1)


def test_a_stage_that_is_switched_off_is_passed_over_by_the_next_job(
    small: House, ask: SyncClient, prompt: str
) -> None:
    """And by no job after it is switched on."""
    small.staffel("stages", "reset", "dead")
    assert small.staffel("stages", "off", "dead", "--for", "1h").code == 0
    assert story(ask, "default", prompt)[0] == ("dead", "skipped", "switched_off")
    assert (seen(small, "dead")["state"], small.calls("dead", prompt)) == ("off", [])
    assert small.staffel("stages", "on", "dead").out == "dead: closed\n"
    assert story(ask, "default", prompt)[0] == ("dead", "failed", "server_error")


def test_what_is_taken_of_the_limits_is_shown_while_a_call_runs(small: House, ask: SyncClient, prompt: str) -> None:
    """And given back when its caller has cancelled it."""
    assert seen(small, "silent")["in_flight"] == 0
    job = ask.submit(prompt, chain="hang")
    until(lambda: seen(small, "silent")["in_flight"] == 1, "the place is taken")
    assert seen(small, "silent")["max_in_flight"] == 2
    ask.cancel(job)
    until(lambda: seen(small, "silent")["in_flight"] == 0, "the place is free")


def test_what_was_spent_and_what_is_left_is_shown(small: House, ask: SyncClient, prompt: str) -> None:
    """The same sum as in the answers; a bucket of 60 fills by ten a second."""
    before = seen(small, "echo")["spent_usd"]
    spent = ask.ask(prompt, chain="quick").cost_usd
    row = seen(small, "echo")
    assert spent
    assert row["spent_usd"] == pytest.approx(before + spent)
    assert (row["requests_burst"], row["requests_per_minute"]) == (60, 600)
    assert 0 <= row["requests_left"] <= 60
    assert (seen(small, "dead")["usd_per_day"], seen(small, "alone")["usd_per_day"]) == (5.0, None)


def test_a_job_that_waits_for_a_hand_is_shown_and_goes_on_when_it_comes(
    small: House, ask: SyncClient, prompt: str
) -> None:
    """Its only stage is off for some seconds more than it has to wait for."""
    small.staffel("stages", "off", "alone", "--for", "30s")
    job = ask.submit(prompt, chain="one")
    until(lambda: seen(small, "alone")["parked"] == 1, "the job is parked")
    assert "1 parked for it" in small.staffel("stages", "on", "alone").out
    assert prompt in ask.wait(job).text
    assert seen(small, "alone")["parked"] == 0
