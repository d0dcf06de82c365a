"""What one request's failure teaches the next one, through Redis, and the person on duty."""

from __future__ import annotations

import pytest
from pytest_celery import CeleryTestSetup

from staffel import SyncClient
from staffel_wire import keys
from tests.e2e.events import Recorded
from tests.eventually import eventually
from tests.nodes import House, Worker


def told(client: SyncClient, chain: str, prompt: str, **fields: object) -> list[tuple[str, str, str | None]]:
    answer = client.ask(prompt, chain=chain, **fields)
    return [(row["stage"], row["outcome"], row["reason"]) for row in answer.attempts]


@pytest.mark.usefixtures("celery_setup")
def test_a_key_that_is_refused_is_one_line_and_one_event(
    client: SyncClient, workers: tuple[Worker, Worker], recorded: Recorded, prompt: str
) -> None:
    """However many requests meet it: whoever is on duty reads what is wrong with which stage, and no more."""
    for number in range(3):
        assert told(client, "locked-first", f"{prompt} {number}")[0] == ("locked", "failed", "auth")
    eventually(lambda: [event for event in recorded.all if event["type"] == "stage-alarm"], "the event has come")
    events = [event for event in recorded.all if event.get("stage") == "locked"]
    assert [(e["type"], e["reason"], e["status"]) for e in events] == [("stage-alarm", "auth", 401)]
    assert events[0]["detail"] == "The scripted host says 401."
    lines = [line for line in workers[0].logs().splitlines() if "ERROR" in line and "locked" in line]
    assert len(lines) == 1
    assert (
        "stage locked (model-of-locked) needs a look: auth 401: The scripted host says 401. (api_key_env; job "
        in lines[0]
    )


@pytest.mark.usefixtures("recorded")  # it may be the first that meets the stage, whose alarm is heard once
def test_what_a_host_said_is_shown_to_a_person(
    celery_setup: CeleryTestSetup, house: House, client: SyncClient, prompt: str
) -> None:
    """The reason's one word is not all that they need."""
    shown = house.staffel("show", client.ask(prompt, chain="locked-first").job)
    assert "1 locked said: The scripted host says 401.\n" in shown.out


def test_a_stage_that_asks_for_an_hour_is_left_alone(
    celery_setup: CeleryTestSetup, house: House, client: SyncClient, prompt: str
) -> None:
    """The second request calls it no more: it is passed over, for the reason and until the time that Redis shows."""
    first = told(client, "busy-first", f"{prompt} 1")
    assert first[0] in {("busy", "failed", "throttled"), ("busy", "skipped", "throttled")}
    assert told(client, "busy-first", f"{prompt} 2")[0] == ("busy", "skipped", "throttled")
    assert house.calls("busy", f"{prompt} 2") == []
    with house.valkey.client as redis:
        reason, until, _ = redis.hget(keys.GATES, "busy").split(" ")
        assert (reason, int(until) // 1000 > 1_700_000_000) == ("throttled", True)
        assert 0 < redis.ttl(keys.GATES) <= 3_600 + 86_400


def test_a_field_that_a_stage_no_longer_takes_is_left_out_by_all(
    celery_setup: CeleryTestSetup, house: House, client: SyncClient, prompt: str
) -> None:
    """The host sees the field once, and the same request again without it; the next request comes without it."""
    assert told(client, "modern-first", f"{prompt} 1", temperature=0.3) == [
        ("modern", "failed", "unsupported"), ("modern", "answered", None),
    ]  # fmt: skip
    assert told(client, "modern-first", f"{prompt} 2", temperature=0.3) == [("modern", "answered", None)]
    bodies = [call.body for call in house.calls("modern", prompt)]
    assert [body.get("temperature") for body in bodies] == [0.3, None, None]
    with house.valkey.client as redis:
        assert redis.hget(keys.stage("modern"), "dropped") == '["temperature"]'
        assert 0 < redis.ttl(keys.stage("modern")) <= 2 * 86_400
