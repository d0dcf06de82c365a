"""The main job: a request walks its chain through two workers, and everybody sees the same of it."""

from __future__ import annotations

import re

import pytest
from celery import Celery
from pytest_celery import CeleryTestSetup

from tests.e2e.events import Recorded
from tests.nodes import House

OBJECT = {
    "job", "status", "text", "stage", "finish_reason", "truncated", "usage", "cost_usd", "queued_s", "duration_s",
    "retry_at", "parked_for", "position", "follows", "why", "priority", "attempts",
}  # fmt: skip
ATTEMPT = {
    "n", "of", "stage", "model", "outcome", "reason", "status", "started_at", "duration_s", "first_token_s",
    "completed", "committed", "retry_after_s", "usage", "cost_usd", "worker", "detail",
}  # fmt: skip


def test_500_and_then_the_lane(celery_setup: CeleryTestSetup, house: House, recorded: Recorded, prompt: str) -> None:
    """`staffel ask --json` prints the second stage's text in the design's shape, under one Celery id throughout."""
    assert celery_setup.ready(docker=True, control=True)

    done = house.staffel("ask", prompt, "--json")

    assert (done.code, done.err) == (0, "")
    shown = done.json
    assert set(shown) == OBJECT
    assert (shown["status"], shown["text"], shown["stage"]) == ("answered", "from the lane", "local")
    first, second = shown["attempts"]
    assert set(first) == set(second) == ATTEMPT
    assert (first["n"], first["of"], first["stage"], first["outcome"]) == (1, 2, "broken", "failed")
    assert (first["reason"], first["status"], first["completed"]) == ("server_error", 500, False)
    assert (second["n"], second["of"], second["stage"], second["outcome"]) == (2, 2, "local", "answered")
    assert [row["worker"].partition("@")[0] for row in (first, second)] == ["cloud", "ollama"]
    assert [len(house.calls(stage, prompt)) for stage in ("broken", "local")] == [1, 1]
    story = recorded.until("task-succeeded", shown["job"])
    assert [event["type"] for event in story] == [
        "task-received", "task-started", "task-retried", "task-received", "task-started", "task-succeeded",
    ]  # fmt: skip
    assert {event["hostname"].partition("@")[0] for event in story} == {"cloud", "ollama"}
    place = r"1 failed → waits for local: 1st of 1 on ollama(, about \d+ s( \(\d+ s to \d+ s\))?)?"
    assert re.fullmatch(place, story[2]["result"]), story[2]
    assert story[-1]["result"].startswith("1 failed → local 0.")


def test_everybody_sees_the_same_object(
    celery_setup: CeleryTestSetup, house: House, foreign: Celery, prompt: str
) -> None:
    """`ask`, `show`, `wait` and Celery's result backend print one object, to the last field."""
    asked = house.staffel("ask", prompt, "--json").json
    job = asked["job"]

    assert house.staffel("show", job, "--json").json == asked
    assert house.staffel("wait", job, "--json").json == asked
    assert foreign.AsyncResult(job).get(timeout=10) == asked


def test_a_person_reads_the_answer_and_its_story(celery_setup: CeleryTestSetup, house: House, prompt: str) -> None:
    """Without --json the answer alone is on stdout, and what each stage did on stderr."""
    done = house.staffel("ask", prompt)

    assert (done.code, done.out) == (0, "from the lane\n")
    assert "broken server_error (500) 0." in done.err
    assert "local answered 0." in done.err


def test_a_stages_own_timeout_goes_on(celery_setup: CeleryTestSetup, house: House, prompt: str) -> None:
    """A stage that stays silent past its clock is left, and the next one answers."""
    shown = house.staffel("ask", prompt, "--chain", "late", "--json").json

    assert shown["text"] == prompt
    assert [(row["stage"], row["outcome"], row["reason"]) for row in shown["attempts"]] == [
        ("impatient", "failed", "timeout"),
        ("echo", "answered", None),
    ]
    assert 0.4 < shown["attempts"][0]["duration_s"] < 3


@pytest.mark.parametrize(
    ("chain", "options", "code", "status"),
    [
        ("hopeless", [], 3, "exhausted"),
        ("strict-first", [], 4, "refused"),
        ("hang", ["--deadline", "0.7"], 5, "expired"),
    ],
)
def test_each_end_without_an_answer_has_its_exit_code(
    *, celery_setup: CeleryTestSetup, house: House, foreign: Celery, prompt: str,
    chain: str, options: list[str], code: int, status: str,
) -> None:  # fmt: skip
    """3 exhausted, 4 refused, 5 expired: the object on stdout says so too, and so does Celery's result."""
    done = house.staffel("ask", prompt, "--chain", chain, "--json", *options)

    assert (done.code, done.json["status"], done.json["text"]) == (code, status, None)
    assert done.err.startswith(f"{status}: ")
    assert "Traceback" not in done.err
    result = foreign.AsyncResult(done.json["job"])
    with pytest.raises(Exception, match=f"{status}: ") as raised:
        result.get(timeout=10)
    assert type(raised.value).__name__ == status.capitalize()
    assert house.calls("echo", prompt) == []
