"""A caller's cancel ends the job: its call is closed, no further stage is asked, and everybody says so."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest
from celery import Celery

from staffel import Cancelled, Client, SyncClient
from tests.e2e.cancels import ENDING, Cancel, Desk, by_flower_revoke
from tests.e2e.events import Recorded
from tests.eventually import eventually, eventually_async
from tests.hosts import Outcome
from tests.nodes import House
from tests.nodes.flower import Flower
from tests.nodes.worker import BOTH

pytestmark = pytest.mark.usefixtures("workers")

CLOSED_S = 2.0
"""The most that is promised for the time from a cancel to the closed socket."""


@pytest.fixture
def desk(house: House, client: SyncClient, foreign: Celery, flower: Flower) -> Desk:
    return Desk(house, client, foreign, flower)


@pytest.mark.parametrize(
    ("chain", "stage", "then"), [("hang", "silent", "echo"), ("lane-hang", "lane-silent", "lane-echo")]
)
@pytest.mark.parametrize("cancel", ENDING)
def test_a_running_job_is_cancelled(
    *, desk: Desk, recorded: Recorded, prompt: str, cancel: Cancel, chain: str, stage: str, then: str
) -> None:
    """Whoever cancels, and on whichever lane: the host sees its client leave, and the next stage is never asked."""
    job = desk.asked(prompt, chain, stage)

    cancel(desk, job)

    asked = time.monotonic()
    (call,) = eventually(
        lambda: [call for call in desk.house.calls(stage, prompt) if call.outcome is Outcome.ABORTED],
        "the call is closed",
    )
    assert call.closed_at is not None
    assert call.closed_at - asked < CLOSED_S
    desk.is_revoked(job)
    shown = desk.client.show(job)
    assert shown["status"] == "cancelled"
    (attempt,) = shown["attempts"]
    assert (attempt["stage"], attempt["outcome"], attempt["reason"]) == (stage, "cancelled", "cancelled")
    assert recorded.until("task-revoked", job)[-1]["type"] == "task-revoked"
    assert desk.house.calls(then, prompt) == []


def test_ctrl_c_on_ask_cancels_the_job(house: House, foreign: Celery, prompt: str) -> None:
    """Nobody waits for that answer any more: 130, the call closed, the job cancelled."""
    asking = house.spawn("ask", prompt, "--chain", "hang")
    eventually(lambda: house.calls("silent", prompt), "the host is asked")

    asking.send_signal(signal.SIGINT)
    out, err = asking.communicate(timeout=20)

    assert (asking.returncode, out) == (130, "")
    assert "Traceback" not in err
    eventually(lambda: house.calls("silent", prompt)[0].outcome is Outcome.ABORTED, "the call is closed", CLOSED_S)
    assert house.calls("echo", prompt) == []


def test_ctrl_c_on_wait_ends_the_wait_alone(desk: Desk, prompt: str) -> None:
    """The job is not the waiter's: it goes on."""
    job = desk.asked(prompt, "hang", "silent")
    waiting = desk.house.spawn("wait", job)
    assert waiting.stderr is not None
    assert "Redis:" in waiting.stderr.readline()

    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=20)

    assert waiting.returncode == 130
    assert desk.client.show(job)["status"] == "running"
    desk.client.cancel(job)


def test_an_ended_job_keeps_its_end(house: House, client: SyncClient, foreign: Celery, prompt: str) -> None:
    """A cancel that comes too late changes nothing, in the record or in Celery's result."""
    job = client.ask(prompt, chain="quick").job
    eventually(lambda: foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer")

    done = house.staffel("cancel", job, "--json")
    told(foreign, job, terminate=True)

    assert (done.code, done.json) == (0, {"job": job, "state": "answered"})
    assert client.show(job)["status"] == "answered"
    assert foreign.AsyncResult(job).state == "SUCCESS"


def test_a_plain_revoke_leaves_a_running_job_alone(desk: Desk, prompt: str) -> None:
    """Celery's revoke without terminate only keeps a task from starting."""
    job = desk.asked(prompt, "slowly", "slow")

    told(desk.foreign, job)

    assert desk.client.wait(job).stage == "slow"
    eventually(lambda: desk.foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer too")


def test_flowers_revoke_leaves_a_running_job_alone(desk: Desk, prompt: str) -> None:
    """It is Celery's plain one, asked for by a page that was drawn before the job began."""
    job = desk.asked(prompt, "slowly", "slow")

    by_flower_revoke(desk, job)

    assert desk.client.wait(job).stage == "slow"
    eventually(lambda: desk.foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer too")


def test_a_plain_revoke_does_not_swallow_a_handoff(desk: Desk, prompt: str) -> None:
    """A job that is revoked while it runs, and goes on to the lane, is still the same started job.

    Workers keep a revoke in their memory: the lane's threw the handed-off message away, Celery said REVOKED, and who
    waited for the job waited until its deadline.
    """
    job = desk.asked(prompt, "slowly-to-the-lane", "slow-broken")

    told(desk.foreign, job)

    assert desk.client.wait(job).stage == "local"
    eventually(lambda: desk.foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer too")


def told(foreign: Celery, job: str, *, terminate: bool = False) -> None:
    """Revoke, and wait until both workers have heard it."""
    arguments = {"task_id": job, "terminate": terminate, "signal": "SIGTERM"}
    replies = foreign.control.broadcast("revoke", arguments, BOTH, reply=True, limit=2, timeout=10)
    assert len(replies) == 2


def test_cancelling_the_coroutine_cancels_the_wait_alone(house: House, prompt: str) -> None:
    """Another waiter of the same client, and the job itself, notice nothing."""

    async def work() -> tuple[str, str]:
        async with Client(house.url) as client:
            job = await client.submit(prompt, chain="slowly")
            left, stayed = asyncio.create_task(client.wait(job)), asyncio.create_task(client.wait(job))
            await eventually_async(lambda: house.calls("slow", prompt), "the host is asked")
            left.cancel()
            with pytest.raises(asyncio.CancelledError):
                await left
            return (await stayed).text, (await client.show(job))["status"]

    assert asyncio.run(work()) == ("Hello from the scripted host.", "answered")


def test_cancel_with_me_cancels_the_job(house: House, prompt: str) -> None:
    """A web request whose browser has left takes its job along."""

    async def work() -> None:
        async with Client(house.url) as client:
            asking = asyncio.create_task(client.ask(prompt, chain="hang", cancel_with_me=True))
            await eventually_async(lambda: house.calls("silent", prompt), "the host is asked")
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(work())
    eventually(lambda: house.calls("silent", prompt)[0].outcome is Outcome.ABORTED, "the call is closed", CLOSED_S)
    assert house.calls("echo", prompt) == []


def test_the_one_who_waits_learns_that_it_was_cancelled(house: House, prompt: str) -> None:
    """`Cancelled` carries the attempts."""

    async def work() -> Cancelled:
        async with Client(house.url) as client:
            job = await client.submit(prompt, chain="hang")
            await eventually_async(lambda: house.calls("silent", prompt), "the host is asked")
            await client.cancel(job)
            with pytest.raises(Cancelled) as raised:
                await client.wait(job)
            return raised.value

    error = asyncio.run(work())
    assert [attempt["stage"] for attempt in error.attempts] == ["silent"]
