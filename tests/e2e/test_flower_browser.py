"""A person at Flower's page, in a real browser: what they press ends the job, and what they see holds no secret.

Flower 2.2 draws a page once, when it is loaded; after a press it says so and loads the page again by itself, 5 s later.
It asks for no confirmation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from celery import Celery

from staffel import SyncClient
from tests.e2e.cancels import Desk, opened
from tests.eventually import eventually
from tests.hosts import Outcome
from tests.nodes import House, serving
from tests.nodes.browser import Browser, browsing
from tests.nodes.flower import Flower
from tests.nodes.stages import KEY

pytestmark = pytest.mark.usefixtures("workers")

CLOSED_S = 2.0
"""The most that is promised for the time from a press to the closed socket."""

DRAWN_S = 30.0
"""How long it may take until a page shows what has happened, its own 5 s included."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def desk(house: House, client: SyncClient, foreign: Celery, flower: Flower) -> Desk:
    return Desk(house, client, foreign, flower)


def look(browser: Browser, flower: Flower, job: str, button: str) -> None:
    """Open the job's page, again and again until it has this button."""

    def has_it() -> bool:
        browser.open(f"http://127.0.0.1:{flower.port}/task/{job}")
        return button in browser.buttons

    eventually(has_it, f"Flower's page of {job} has {button}", DRAWN_S)


def sees(browser: Browser, words: str) -> None:
    eventually(lambda: words in browser.text, f"the page says {words}", DRAWN_S)


def test_terminate_closes_the_call(desk: Desk, browser: Browser, prompt: str) -> None:
    """The host sees its client leave, all agree on the end, and the next stage is never asked."""
    job = desk.asked(prompt, "hang", "silent")
    look(browser, desk.flower, job, "Terminate")

    browser.press("Terminate")

    pressed = time.monotonic()
    (call,) = eventually(
        lambda: [call for call in desk.house.calls("silent", prompt) if call.outcome is Outcome.ABORTED],
        "the call is closed",
    )
    assert call.closed_at is not None
    assert call.closed_at - pressed < CLOSED_S
    sees(browser, "REVOKED")
    assert "Terminate" not in browser.buttons
    desk.is_revoked(job)
    shown = desk.client.show(job)
    assert shown["status"] == "cancelled"
    assert [(attempt["stage"], attempt["outcome"]) for attempt in shown["attempts"]] == [("silent", "cancelled")]
    assert desk.house.calls("echo", prompt) == []


def test_revoke_of_a_handed_off_job(desk: Desk, browser: Browser, prompt: str) -> None:
    """It has failed in the cloud and waits for the busy lane: Flower has a button for it, and it never goes on."""
    ahead = desk.asked(f"{prompt} ahead", "lane-hang", "lane-silent")
    ready = desk.client.submit(f"{prompt} ready", chain="lane")
    eventually(lambda: desk.client.show(ready)["status"] == "running", "the lane's worker has made it ready")
    behind = desk.client.submit(f"{prompt} behind", chain="default")
    look(browser, desk.flower, behind, "Revoke")
    assert "RETRY" in browser.text
    assert "1 failed → waits for local" in browser.text

    browser.press("Revoke")

    eventually(lambda: desk.client.show(behind)["status"] == "cancelled", "the record says so")
    desk.client.cancel(ahead)
    assert desk.client.ask(f"{prompt} after", chain="lane").stage == "lane-slow"
    desk.never_started(behind, "local", f"{prompt} behind")
    sees(browser, "REVOKED")


def test_revoke_of_a_prefetched_job(make_house: Callable[..., House], browser: Browser, prompt: str) -> None:
    """A worker holds its message already, behind another job's, and Celery's threads would start it all the same."""
    house = make_house()
    with serving(house, ["-c", "1", "--prefetch-multiplier", "4"]), opened(house) as desk:
        ahead = desk.asked(f"{prompt} ahead", "hang", "silent")
        behind = desk.client.submit(f"{prompt} behind", chain="quick")
        look(browser, desk.flower, behind, "Revoke")
        assert "RECEIVED" in browser.text

        browser.press("Revoke")

        eventually(lambda: desk.client.show(behind)["status"] == "cancelled", "the record says so")
        desk.client.cancel(ahead)
        assert desk.client.ask(f"{prompt} after", chain="quick").stage == "echo"
        desk.never_started(behind, "echo", f"{prompt} behind")
        sees(browser, "REVOKED")


def test_no_page_holds_a_prompt_or_a_key(desk: Desk, browser: Browser, prompt: str) -> None:
    """As the browser draws them, a foreign producer's job included, whose message holds its prompt."""
    answered = desk.client.ask(prompt, chain="quick").job
    sent = desk.foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "hang"}], queue="cloud").id
    look(browser, desk.flower, sent, "Terminate")
    paths = ["/", "/tasks", "/workers", "/broker", f"/task/{answered}", f"/task/{sent}"]
    paths += [f"/worker/{name}" for name in desk.flower.get("/api/workers")]

    for path in paths:
        browser.open(f"http://127.0.0.1:{desk.flower.port}{path}")
        if path == "/tasks":
            sees(browser, answered)  # its table is filled by a script
        assert [canary for canary in (prompt, KEY) if canary in browser.source] == [], path
    desk.client.cancel(sent)
