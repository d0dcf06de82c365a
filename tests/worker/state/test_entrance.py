"""Where a job comes in on Celery's side."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from redis import Redis

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry, Offer, Plan
from staffel_wire.errors import Invalid, Unavailable
from staffel_wire.request import parse
from worker.state import entrance
from worker.state.entrance import enter

CATALOGUE = Catalogue({"default": Plan((Offer("a", "cloud", local=False),), 90.0)}, max_request_bytes=1000)


@pytest.fixture
def redis(no_leaked_keys: Redis) -> Redis:
    """A Redis on which a worker has started once."""
    no_leaked_keys.set(keys.CATALOGUE, CATALOGUE.to_json())
    return no_leaked_keys


@pytest.fixture
def url(redis_url: str) -> Iterator[str]:
    yield redis_url
    entrance._redis(redis_url).close()
    entrance._redis.cache_clear()


def test_the_record_is_there_before_any_message_is(redis: Redis, url: str) -> None:
    """Celery sends it afterwards: a message that is lost can be sent again, a record cannot."""
    assert enter(url, parse, "j", {"prompt": "Why?"}, None) == Entry(("a",), "cloud", 90.0)
    record = redis.hgetall(keys.job("j"))
    assert (record["status"], record["plan"], record["lane"]) == ("queued", '["a"]', "cloud")
    assert json.loads(record["request"]) == {"prompt": "Why?"}
    assert redis.exists("cloud") == 0
    assert 0 < redis.ttl(keys.job("j")) <= 90 + CATALOGUE.answer_ttl


def test_a_job_that_is_known_is_left_as_it_is(redis: Redis, url: str) -> None:
    """A foreign message may be delivered twice."""
    enter(url, parse, "j", {"prompt": "Why?"}, None)
    before = redis.hgetall(keys.job("j"))
    enter(url, parse, "j", {"prompt": "Who?"}, 5)
    assert redis.hgetall(keys.job("j")) == before


@pytest.mark.parametrize(
    ("fields", "expires", "deadline"),
    [({}, 5, 5), ({"deadline": 30}, 5, 5), ({"deadline": 3}, 5, 3), ({"deadline": 30}, None, 30), ({}, 200, 200)],
)
def test_a_callers_expiry_is_a_deadline(
    redis: Redis, url: str, fields: dict[str, float], expires: float | None, deadline: float
) -> None:
    """The shorter one of the two holds; only a deadline ends a job with a reason."""
    assert enter(url, parse, "j", {"prompt": "Why?", **fields}, expires).deadline == deadline
    record = redis.hgetall(keys.job("j"))
    assert int(record["deadline_at"]) - int(record["submitted_at"]) == deadline * 1000


@pytest.mark.parametrize("fields", [{}, {"prompt": ""}, {"prompt": "x" * 1000}, {"prompt": "Why?", "chain": "other"}])
def test_a_request_that_is_refused_leaves_no_job_behind(redis: Redis, url: str, fields: dict[str, str]) -> None:
    """Checked whole before anything is written, against the workers' own limit."""
    with pytest.raises(Invalid):
        enter(url, parse, "j", fields, None)
    assert redis.keys("*") == [keys.CATALOGUE]


def test_without_any_worker_ever_there_is_nothing_to_plan_with(no_leaked_keys: Redis, url: str) -> None:
    """It says what to start."""
    with pytest.raises(Unavailable, match="no worker has started here yet: celery -A worker worker -Q cloud"):
        enter(url, parse, "j", {"prompt": "Why?"}, None)
    assert no_leaked_keys.keys("*") == []


def test_a_redis_that_is_away_is_said_in_one_line(url: str) -> None:
    """Without the password that its URL holds."""
    away = "redis://:hidden@127.0.0.1:1/0"
    with pytest.raises(Unavailable) as caught:
        enter(away, parse, "j", {"prompt": "Why?"}, None)
    assert str(caught.value) == "Redis does not answer at redis://127.0.0.1:1/0: start it, or set STAFFEL_REDIS_URL"
    entrance._redis(away).close()
