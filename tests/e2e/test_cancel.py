"""A caller's cancel ends the job: its call is closed, no further stage is asked, and everybody says so."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

import pytest
from celery import Celery

from staffel import Cancelled, Client, SyncClient
from tests.e2e.events import Recorded
from tests.eventually import eventually, eventually_async
from tests.hosts import Outcome
from tests.nodes import House
from tests.nodes.worker import BOTH

pytestmark = pytest.mark.usefixtures("workers")

CLOSED_S = 2.0
"""The most that is promised for the time from a cancel to the closed socket."""


def by_command(house: House, foreign: Celery, job: str) -> None:
    assert house.staffel("cancel", job).code == 0


def by_client(house: House, foreign: Celery, job: str) -> None:
    with SyncClient(house.url) as client:
        assert client.cancel(job) in {"cancelling", "cancelled"}


def by_terminate(house: House, foreign: Celery, job: str) -> None:
    """What a person sends who wants to be sure; in a thread, that signal would end the worker."""
    foreign.control.revoke(job, terminate=True, signal="SIGKILL")


def by_revoke(house: House, foreign: Celery, job: str) -> None:
    foreign.control.revoke(job)


def running(house: House, client: SyncClient, prompt: str, chain: str, stage: str) -> str:
    """A job whose call is under way."""
    job = client.submit(prompt, chain=chain)
    eventually(lambda: house.calls(stage, prompt), f"the host of {stage} is asked")
    return job


def revoked(foreign: Celery, job: str) -> bool:
    return bool(eventually(lambda: foreign.AsyncResult(job).state == "REVOKED", "the result backend says REVOKED"))


@pytest.mark.parametrize(
    ("chain", "stage", "then"), [("hang", "silent", "echo"), ("lane-hang", "lane-silent", "lane-echo")]
)
@pytest.mark.parametrize("cancel", [by_command, by_client, by_terminate])
def test_a_running_job_is_cancelled(
    *, house: House, client: SyncClient, foreign: Celery, recorded: Recorded, prompt: str,
    cancel: Callable[[House, Celery, str], None], chain: str, stage: str, then: str,
) -> None:  # fmt: skip
    """Whoever cancels, and on whichever lane: the host sees its client leave, and the next stage is never asked."""
    job = running(house, client, prompt, chain, stage)

    cancel(house, foreign, job)

    asked = time.monotonic()
    (call,) = eventually(
        lambda: [call for call in house.calls(stage, prompt) if call.outcome is Outcome.ABORTED], "the call is closed"
    )
    assert call.closed_at is not None
    assert call.closed_at - asked < CLOSED_S
    assert revoked(foreign, job)
    shown = client.show(job)
    assert shown["status"] == "cancelled"
    (attempt,) = shown["attempts"]
    assert (attempt["stage"], attempt["outcome"], attempt["reason"]) == (stage, "cancelled", "cancelled")
    assert recorded.until("task-revoked", job)[-1]["type"] == "task-revoked"
    assert house.calls(then, prompt) == []


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


def test_ctrl_c_on_wait_ends_the_wait_alone(house: House, client: SyncClient, prompt: str) -> None:
    """The job is not the waiter's: it goes on."""
    job = running(house, client, prompt, "hang", "silent")
    waiting = house.spawn("wait", job)
    assert waiting.stderr is not None
    assert "Redis:" in waiting.stderr.readline()

    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=20)

    assert waiting.returncode == 130
    assert client.show(job)["status"] == "running"
    client.cancel(job)


@pytest.mark.parametrize("cancel", [by_client, by_terminate, by_revoke])
def test_a_waiting_job_never_starts(
    house: House, client: SyncClient, foreign: Celery, prompt: str, cancel: Callable[[House, Celery, str], None]
) -> None:
    """The lane is busy, so the job behind waits in its queue; cancelled there, it makes no call when its turn comes."""
    ahead = running(house, client, f"{prompt} ahead", "lane-hang", "lane-silent")
    behind = client.submit(f"{prompt} behind", chain="lane")

    cancel(house, foreign, behind)
    with pytest.raises(Cancelled):
        client.wait(behind)
    client.cancel(ahead)

    assert client.ask(f"{prompt} after", chain="lane").stage == "lane-slow"
    assert revoked(foreign, behind)
    assert house.calls("lane-slow", f"{prompt} behind") == []


def test_an_ended_job_keeps_its_end(house: House, client: SyncClient, foreign: Celery, prompt: str) -> None:
    """A cancel that comes too late changes nothing, in the record or in Celery's result."""
    job = client.ask(prompt, chain="quick").job
    eventually(lambda: foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer")

    done = house.staffel("cancel", job, "--json")
    told(foreign, job, terminate=True)

    assert (done.code, done.json) == (0, {"job": job, "state": "answered"})
    assert client.show(job)["status"] == "answered"
    assert foreign.AsyncResult(job).state == "SUCCESS"


def test_a_plain_revoke_leaves_a_running_job_alone(
    house: House, client: SyncClient, foreign: Celery, prompt: str
) -> None:
    """Celery's revoke without terminate only keeps a task from starting."""
    job = running(house, client, prompt, "slowly", "slow")

    told(foreign, job)

    assert client.wait(job).stage == "slow"
    eventually(lambda: foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer too")


def test_a_plain_revoke_does_not_swallow_a_handoff(
    house: House, client: SyncClient, foreign: Celery, prompt: str
) -> None:
    """A job that is revoked while it runs, and goes on to the lane, is still the same started job.

    Workers keep a revoke in their memory: the lane's threw the handed-off message away, Celery said REVOKED, and who
    waited for the job waited until its deadline.
    """
    job = running(house, client, prompt, "slowly-to-the-lane", "slow-broken")

    told(foreign, job)

    assert client.wait(job).stage == "local"
    eventually(lambda: foreign.AsyncResult(job).state == "SUCCESS", "Celery has the answer too")


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
