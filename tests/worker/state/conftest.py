"""Both members of the shared state, and a watch over what stays behind in Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from staffel_wire import keys
from tests.nodes import Valkey
from tests.worker.state.books import Book, MemoryBook, RedisBook

FOR_EVER = {keys.CATALOGUE}
"""Keys that may stay: there is one of each, however many jobs there are."""


@pytest.fixture(scope="session")
def redis_url(valkey: Valkey) -> str:
    """A database of the embedded server that nobody else uses."""
    return valkey.another().url


@pytest.fixture
def no_leaked_keys(redis_url: str) -> Iterator[Redis]:
    """An empty database, and after the test no key of ours without an end."""
    with Redis.from_url(redis_url, decode_responses=True, socket_timeout=10) as redis:
        redis.flushdb()
        yield redis
        leaked = [name for name in redis.scan_iter("*staffel:*") if redis.ttl(name) < 0 and name not in FOR_EVER]
        redis.flushdb()
    assert leaked == [], "keys without a time to live"


@pytest.fixture
def redis_book(no_leaked_keys: Redis, redis_url: str) -> Iterator[RedisBook]:
    book = RedisBook(redis_url)
    yield book
    book.close()


@pytest.fixture(params=["memory", "redis"])
def book(request: pytest.FixtureRequest) -> Book:
    """The contract holds for whichever it is."""
    if request.param == "redis":
        redis_book: RedisBook = request.getfixturevalue("redis_book")
        return redis_book
    return MemoryBook()
