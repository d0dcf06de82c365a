"""Cancels that meet each other, and the answer: a job has one end, and everybody tells the same."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import Celery

from staffel import SyncClient
from tests.e2e.cancels import ENDING, Desk
from tests.e2e.events import Recorded
from tests.eventually import eventually
from tests.hosts import Outcome
from tests.nodes import House
from tests.nodes.flower import Flower

pytestmark = pytest.mark.usefixtures("workers")

AIMED = 30
"""Jobs that are cancelled at the very moment of their answer."""

SPREAD_S = 0.03
"""How far from it the aim may be: a terminate takes some milliseconds, and the host's answer too."""

ENDS = {"SUCCESS": ("answered", "answered"), "REVOKED": ("cancelled", "cancelled")}
"""What the record and its last attempt say, by what Celery says."""


@pytest.fixture
def desk(house: House, client: SyncClient, foreign: Celery, flower: Flower) -> Desk:
    return Desk(house, client, foreign, flower)


def test_all_at_once(desk: Desk, recorded: Recorded, prompt: str) -> None:
    """Everybody cancels the same running job at the same time: it ends once."""
    job = desk.asked(prompt, "hang", "silent")

    with ThreadPoolExecutor(len(ENDING)) as people:
        for cancelled in [people.submit(way, desk, job) for way in ENDING * 2 if way.__name__ != "by_command"]:
            cancelled.result(timeout=30)

    eventually(lambda: desk.house.calls("silent", prompt)[0].outcome is Outcome.ABORTED, "the call is closed")
    desk.is_revoked(job)
    shown = desk.client.show(job)
    assert (shown["status"], [attempt["outcome"] for attempt in shown["attempts"]]) == ("cancelled", ["cancelled"])
    assert desk.house.calls("echo", prompt) == []
    assert [event["type"] for event in recorded.until("task-revoked", job)].count("task-revoked") == 1


def test_at_the_moment_of_the_answer(desk: Desk, recorded: Recorded, prompt: str) -> None:
    """Answered or cancelled, never both: the record, its attempt, Celery's result and its events agree on each.

    A kill of a task that had just returned made REVOKED of a SUCCESS, or the other way round.
    """
    chance = random.Random(5)
    jobs = [desk.client.submit(f"{prompt} {n}", chain="slowly") for n in range(AIMED)]
    began = {
        job: eventually(lambda n=n: desk.house.calls("slow", f'{prompt} {n}"'), f"the host is asked for {n}")[0].started
        for n, job in enumerate(jobs)
    }
    for job in sorted(jobs, key=began.__getitem__):
        due = began[job] + 1 + chance.uniform(-SPREAD_S, SPREAD_S)  # `slow` answers after 1 s
        eventually(lambda due=due: time.monotonic() > due, "the answer is due")
        desk.foreign.control.revoke(job, terminate=True, signal=chance.choice(["SIGTERM", "SIGKILL"]))

    for job in jobs:
        state = eventually(lambda job=job: said(desk.foreign, job), f"Celery knows the end of {job}")
        shown = desk.client.show(job)
        (attempt,) = shown["attempts"]
        assert (shown["status"], attempt["outcome"]) == ENDS[state]
        kind = {"SUCCESS": "task-succeeded", "REVOKED": "task-revoked"}
        ends = [event["type"] for event in recorded.until(kind[state], job) if event["type"] in kind.values()]
        assert ends == [kind[state]]


def said(foreign: Celery, job: str) -> str:
    state = str(foreign.AsyncResult(job).state)
    return state if state in ENDS else ""
