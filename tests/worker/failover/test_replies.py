"""What counts as an answer, and what a reply is worth."""

from __future__ import annotations

import pytest

from tests.worker.failover.walks import stage, walked
from worker.failover.answer import Status


@pytest.mark.parametrize(
    ("script", "reason", "completed"),
    [
        ("empty", "empty", True),
        ("cut", "cut_off", False),
        ("no-end", "incomplete", False),
        ("garbage", "malformed", False),
    ],
)
def test_a_reply_that_is_no_answer_goes_on_to_the_next_stage(script: str, reason: str, completed: bool) -> None:
    """Half an answer is never given out as a whole one."""
    found = walked(stage("a", script), stage("b", "ok:Because."))
    assert (found.view.status, found.view.shown["text"]) == (Status.ANSWERED, "Because. ")
    assert found.told[0] == ("a", "failed", reason)
    assert found.attempts[0]["completed"] is completed


def test_an_answer_that_ran_out_of_room_is_an_answer_and_says_so() -> None:
    """The caller may ask for more room; another stage would run out of it as well."""
    found = walked(stage("a", "length"), stage("b"))
    shown = found.view.shown
    assert (shown["status"], shown["text"], found.asked) == ("answered", "half an answer", ["a"])
    assert (shown["truncated"], shown["finish_reason"]) == (True, "length")
    whole = walked(stage("a")).view.shown
    assert (whole["truncated"], whole["finish_reason"]) == (False, "stop")
