"""The Celery way in: our tasks, imported or called by name, alone and in canvases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, chain, chord
from celery.exceptions import ChordError

from staffel import SyncClient
from tests.e2e.events import Recorded
from tests.eventually import eventually
from tests.nodes import House

pytestmark = pytest.mark.usefixtures("workers")


def test_delay_and_get(house: House, client: SyncClient, prompt: str) -> None:
    """`from tasks import ask`: the result is the object that the command line prints."""
    result = house.python(f"""
import json
from tasks import ask
result = ask.delay({{"prompt": {prompt!r}, "chain": "quick"}})
print(json.dumps(result.get(timeout=30)))
""")
    assert (result["text"], result["stage"]) == (prompt, "echo")
    assert result == client.show(result["job"])


def test_all_that_a_caller_may_write(house: House, shop: object, prompt: str) -> None:
    """Keywords, a bare text, an id of one's own, a summary, a chain and a chord whose other tasks live elsewhere."""
    got = house.python(f"""
import json
from celery import chain, chord
from tasks import ask, summarize
fields = {{"prompt": {prompt!r}, "chain": "quick"}}
other = lambda name: ask.app.signature(name, queue="shop")
got = {{
    "keywords": ask.delay(**fields).get(timeout=30)["text"],
    "bare": ask.delay({prompt!r}).get(timeout=30)["text"],
    "own id": ask.apply_async([fields], task_id="own {prompt}").get(timeout=30)["job"],
    "summary": summarize.delay({{"text": {prompt!r}, "chain": "quick"}}).get(timeout=30)["text"],
    "chain": chain(ask.s(fields), other("shop.shout"))().get(timeout=30),
    "chord": chord([ask.s(fields), ask.s({{"prompt": {prompt!r}}})])(other("shop.count")).get(timeout=30),
    "countdown": ask.apply_async([fields], countdown=0.1).get(timeout=30)["text"],
}}
print(json.dumps(got))
""")
    assert got == {
        "keywords": prompt,
        "bare": "from the lane",
        "own id": f"own {prompt}",
        "summary": f"Summarize this document:\n\n{prompt}",
        "chain": prompt.upper(),
        "chord": ["echo", "local"],
        "countdown": prompt,
    }


def test_a_bad_request_is_refused_where_it_enters(house: House, prompt: str) -> None:
    """`delay` raises before there is a job, `ValueError` for who knows no class of ours."""
    before = house.jobs()
    told = house.python("""
import json
from tasks import ask, summarize
told = []
for task, fields in [(ask, {"prompt": " "}), (ask, {"prompt": "x", "chain": "nowhere"}), (ask, {"stream": True}),
                     (ask, {"prompt": "x", "deadline": -1}), (ask, 3), (ask, {}), (summarize, {"text": ""})]:
    try:
        task.delay(fields)
    except ValueError as error:
        told.append(str(error))
print(json.dumps(told))
""")
    assert [text.partition(":")[0] for text in told] == [
        "the prompt is empty", "chain", "stream", "deadline", "a request is an object with a prompt, not a int",
        "give a prompt or messages", "text",
    ]  # fmt: skip
    assert house.jobs() == before


def test_the_caller_meets_an_exception_that_says_all(house: House, prompt: str) -> None:
    """Its type says how the job ended, its one string what each stage did."""
    told = house.python(f"""
import json
from staffel import Exhausted
from tasks import ask
try:
    ask.delay({{"prompt": {prompt!r}, "chain": "hopeless"}}).get(timeout=30)
except Exhausted as error:
    print(json.dumps(str(error)))
""")
    assert told.startswith("exhausted: broken server_error (500) 0.")
    assert "; overloaded overloaded (529) 0." in told


@pytest.mark.parametrize("expires", [0.7, timedelta(seconds=0.7)])
def test_expires_becomes_the_deadline(
    house: House, foreign: Celery, client: SyncClient, prompt: str, expires: float | timedelta
) -> None:
    """Celery's own would drop the message without a word; ours ends the job, running or not, with a reason."""
    when = datetime.now(UTC) + expires if isinstance(expires, timedelta) else expires
    result = foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "hang"}], queue="cloud", expires=when)

    with pytest.raises(Exception, match="expired: silent timeout") as raised:
        result.get(timeout=30)

    assert type(raised.value).__name__ == "Expired"
    assert client.show(result.id)["status"] == "expired"


def test_expired_while_it_waited(house: House, foreign: Celery, client: SyncClient, prompt: str) -> None:
    """A message that is already too late when a worker takes it ends as `Expired` too, and no host is asked."""
    past = datetime.now(UTC) - timedelta(seconds=5)
    result = foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "quick"}], queue="cloud", expires=past)

    with pytest.raises(Exception, match="expired: no stage was asked") as raised:
        result.get(timeout=30)

    assert type(raised.value).__name__ == "Expired"
    assert house.calls("echo", prompt) == []


@pytest.mark.parametrize("limits", [{"time_limit": 1}, {"soft_time_limit": 1}])
def test_a_time_limit_ends_the_job_as_expired(foreign: Celery, prompt: str, limits: dict[str, int]) -> None:
    """Nobody can kill a thread, so Celery ignores a limit there; the job's deadline can be shortened by it."""
    result = foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "hang"}], queue="cloud", **limits)

    with pytest.raises(Exception, match="expired: silent timeout"):
        result.get(timeout=30)


def test_a_foreign_producer_calls_by_name(house: House, foreign: Celery, recorded: Recorded, prompt: str) -> None:
    """An app that knows no more than two names gets the same object, and its prompt is in no event."""
    result = foreign.send_task("tasks.ask", [{"prompt": prompt}], queue="cloud")

    found = result.get(timeout=30)

    assert (found["job"], found["text"]) == (result.id, "from the lane")
    story = recorded.until("task-succeeded", result.id)
    assert prompt not in json.dumps(story)


@pytest.mark.parametrize(
    "wrong", [{"prompt": ""}, {"nothing": "here"}, ["a", "list"], None, {"prompt": "x", "chain": "y"}]
)
def test_a_foreign_producer_is_told_what_is_wrong(house: House, foreign: Celery, wrong: Any) -> None:
    """Its message cannot be refused before it is queued; the task fails with the same line, and no job is made."""
    before = house.jobs()
    result = foreign.send_task("tasks.ask", [wrong], queue="cloud")

    with pytest.raises(Exception) as raised:  # noqa: PT011 - the foreign app makes a class of that name itself
        result.get(timeout=30)

    assert type(raised.value).__name__ == "Invalid"
    assert house.jobs() == before


def test_a_foreign_canvas(house: House, shop: object, foreign: Celery, prompt: str) -> None:
    """Chain and chord of tasks on both sides; members that change lanes are counted once."""
    ask = foreign.signature("tasks.ask", args=[{"prompt": prompt}], queue="cloud", immutable=True)
    shout = foreign.signature("shop.shout", queue="shop")
    count = foreign.signature("shop.count", queue="shop")

    assert chain(ask, shout, app=foreign)().get(timeout=30) == "FROM THE LANE"
    assert chord([ask.clone() for _ in range(3)], app=foreign)(count).get(timeout=30) == ["local"] * 3


def test_a_chord_with_a_cancelled_member(
    house: House, client: SyncClient, shop: object, foreign: Celery, prompt: str
) -> None:
    """It fails instead of waiting for ever for a member that will not come."""
    hang, quick = (
        foreign.signature(
            "tasks.ask", args=[{"prompt": prompt, "chain": name}], queue="cloud", task_id=f"{name} {prompt}"
        )
        for name in ("hang", "quick")
    )
    result = chord([hang, quick], app=foreign)(foreign.signature("shop.count", queue="shop"))
    eventually(lambda: house.calls("silent", prompt), "the host is asked")

    client.cancel(f"hang {prompt}")

    with pytest.raises(ChordError, match="cancelled"):
        foreign.AsyncResult(result.id).get(timeout=30)


def test_a_task_that_is_not_there(foreign: Celery, prompt: str) -> None:
    """A name with a typo fails at once, instead of waiting for ever."""
    result = foreign.send_task("tasks.aks", [{"prompt": prompt}], queue="cloud")
    eventually(lambda: result.state == "FAILURE", "Celery says that there is no such task")
