"""Celery's time limits, as a caller gives them with a task: the call is closed at the limit, and the job says why."""

from __future__ import annotations

import pytest
from celery import Celery

from staffel import SyncClient
from tests.eventually import eventually
from tests.hosts import Outcome
from tests.nodes import House

pytestmark = pytest.mark.usefixtures("workers")

LIMIT_S = 1
LATE_S = 2.0
"""How much later than at the limit the host may see the close, on a machine that is busy with others."""

LIMITS = [{"time_limit": LIMIT_S}, {"soft_time_limit": LIMIT_S}, {"time_limit": 50, "soft_time_limit": LIMIT_S}]


def ended_in_time(house: House, client: SyncClient, foreign: Celery, job: str, prompt: str) -> None:
    """All tell the same: expired, the socket closed at the limit, the next stage not asked."""
    (call,) = eventually(
        lambda: [call for call in house.calls("silent", prompt) if call.outcome is Outcome.ABORTED],
        "the call is closed",
    )
    assert call.closed_at is not None
    assert call.closed_at - call.started < LIMIT_S + LATE_S
    eventually(lambda: foreign.AsyncResult(job).state == "FAILURE", "Celery has the end")
    assert type(foreign.AsyncResult(job).result).__name__ == "Expired"
    shown = client.show(job)
    assert shown["status"] == "expired"
    (attempt,) = [attempt for attempt in shown["attempts"] if attempt["outcome"] != "skipped"]
    assert (attempt["stage"], attempt["reason"]) == ("silent", "timeout")
    assert house.calls("echo", prompt) == []


@pytest.mark.parametrize("limits", LIMITS)
def test_of_a_foreign_message(
    house: House, client: SyncClient, foreign: Celery, prompt: str, limits: dict[str, int]
) -> None:
    """Nobody can kill a thread, so Celery ignores a limit there; here it shortens the job's deadline."""
    job = foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "hang"}], queue="cloud", **limits).id
    ended_in_time(house, client, foreign, job, prompt)


@pytest.mark.parametrize("limits", LIMITS)
def test_of_our_own_task(
    house: House, client: SyncClient, foreign: Celery, prompt: str, limits: dict[str, int]
) -> None:
    """`ask.apply_async(..., time_limit=1)`."""
    job = house.python(f"""
import json
from tasks import ask
print(json.dumps(ask.apply_async([{{"prompt": {prompt!r}, "chain": "hang"}}], **{limits!r}).id))
""")
    ended_in_time(house, client, foreign, job, prompt)


def test_a_limit_in_a_signature(house: House, client: SyncClient, foreign: Celery, prompt: str) -> None:
    """Set on a signature, as a canvas does."""
    job = house.python(f"""
import json
from tasks import ask
print(json.dumps(ask.s({{"prompt": {prompt!r}, "chain": "hang"}}).set(time_limit={LIMIT_S}).apply_async().id))
""")
    ended_in_time(house, client, foreign, job, prompt)
