"""What is asked of the scripts of dead letters, and what a person is told of one that is none."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Offer, Plan
from staffel_wire.dead import DeadLetter, listed, none_such, not_replayed, replaying, shown
from staffel_wire.errors import Invalid

NOW = 1_800_000_000_000
CATALOGUE = Catalogue(
    {"default": Plan((Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True)), 90.0)}
)


def row(n: int, stage: str, reason: str) -> str:
    told = {"n": n, "of": 3, "stage": stage, "model": "m", "outcome": "failed", "reason": reason, "started_at": 0}
    return json.dumps({**told, "cost_usd": 0.25})


RECORD = {"status": "exhausted", "chain": "default", "plan": '["primary", "local"]', "submitted_at": NOW - 5000,
          "ended_at": NOW - 1000, "label": "night", "why": "it is so"}  # fmt: skip
FLAT = [str(each) for pair in RECORD.items() for each in pair]
LEDGER = ["1", row(1, "primary", "server_error"), "2", row(2, "local", "connect")]
LETTER = DeadLetter(
    "j", "2027-01-15T07:59:59.000Z", "exhausted", "it is so", "default", "night", 2, "local", "connect",
    "2027-01-15T08:01:00.000Z",
)  # fmt: skip


def test_a_letter_is_listed_with_its_last_call() -> None:
    """Instants by the server's clock; none of its fields is what it asks."""
    assert listed("j", [FLAT, LEDGER[2:], 2, 60_000, NOW]) == LETTER
    bare = listed("j", [[*FLAT[:8], "ended_at", str(NOW)], [], 0, 60_000, NOW])
    assert (bare.stage, bare.reason, bare.label, bare.why, bare.attempts) == (None, None, None, None, 0)
    assert "request" not in asdict(LETTER)


def test_a_letter_is_shown_whole_and_its_request_only_where_that_is_there() -> None:
    """The object of every job, and what else is kept."""
    whole = shown("j", [FLAT, LEDGER, 2, 60_000, NOW])
    more = {name: whole[name] for name in ("chain", "label", "plan", "ended_at", "kept_until", "why", "cost_usd")}
    assert more == {
        "chain": "default", "label": "night", "plan": ["primary", "local"], "ended_at": LETTER.ended_at,
        "kept_until": LETTER.kept_until, "why": "it is so", "cost_usd": 0.5,
    }  # fmt: skip
    assert [attempt["stage"] for attempt in whole["attempts"]] == ["primary", "local"]
    assert "request" not in whole
    assert shown("j", [[*FLAT, "request", '{"prompt": "Why?"}'], [], 0, 1, NOW])["request"] == {"prompt": "Why?"}


def test_a_replay_names_the_queue_of_each_lane_and_a_message_for_it() -> None:
    """Which of them it is, the script decides in the step in which it puts it there."""
    names, given = replaying("j", "local", 2.5, CATALOGUE)
    assert names == [
        keys.job("j"), keys.attempts("j"), keys.OPEN, keys.DEAD, "celery-task-meta-j", keys.WAITING,
        "cloud", "cloud.batch", "ollama", "ollama.batch",
    ]  # fmt: skip
    assert (given[:2], json.loads(str(given[2]))) == (["j", "local"], {"primary": [1, False], "local": [2, True]})
    messages = [json.loads(each) for each in json.loads(str(given[3]))]
    assert [each["properties"]["delivery_info"]["routing_key"] for each in messages] == names[6:]
    assert given[4:6] == [2500, 86_400_000]
    assert replaying("j", None, None, CATALOGUE)[1][4] == ""
    assert replaying("j", "\ud800" + "x" * 200, None, CATALOGUE)[1][1] == "?" + "x" * 59


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_deadline_that_is_none_is_refused(deadline: float) -> None:
    """In the words of the door."""
    with pytest.raises(Invalid, match="deadline: must be more than 0 and at most"):
        replaying("j", None, deadline, CATALOGUE)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("unknown", "no such job is known here, or its time is over"),
        ("queued", "it is queued already"),
        ("parked", "it is parked already"),
        ("answered", "it is answered"),
        ("refused", "it is refused, and its request is not kept"),
        ("exhausted", "it is exhausted, and its request is not kept"),
    ],
)
def test_one_line_says_why_a_job_is_no_dead_letter(status: str, why: str) -> None:
    """A person who meant another one sees it by that."""
    assert str(none_such("j", status)) == f"there is no dead letter j; {why}"
    assert str(not_replayed("j", None, "none", status)) == f"there is no dead letter j; {why}"


@pytest.mark.parametrize(
    ("from_stage", "state", "line"),
    [
        ("else", "plan", "stage 'else' is not in the plan of j, which is primary → local"),
        (None, "nowhere", "no stage that j could be asked of is configured any more; its plan is primary → local"),
        (
            "local",
            "nowhere",
            "no stage that j could be asked of from local on is configured any more; its plan is primary → local",
        ),
    ],
)
def test_one_line_says_why_it_cannot_be_walked_again(from_stage: str | None, state: str, line: str) -> None:
    """With the plan, of which a person may name a stage."""
    said: Any = '["primary", "local"]'
    assert str(not_replayed("j", from_stage, state, said)) == line
