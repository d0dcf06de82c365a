"""How a worker reaches Redis."""

from __future__ import annotations

from redis import Redis as SyncRedis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - Redis's own, which is no OSError
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004
)
from redis.retry import Retry

from staffel_wire.url import shown_url
from staffel_wire.url import trouble as line_of_trouble

AWAY = (RedisError, OSError)
"""What is raised where Redis does not answer."""

_GONE = (
    ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, MasterDownError, OSError,
)  # fmt: skip
_TAKES_NO_WRITES = frozenset({"MISCONF", "NOREPLICAS", "BUSY"})
"""Its disk is full, its replicas are away, it runs somebody's long script: redis-py has no class for these."""

_CONNECTIONS = 16
_TIMEOUT_S = 3.0
_BLOCKING_S = 2.0


def comes_back(error: BaseException) -> bool:
    """Whether Redis is only away for now: not there, starting, full or taking no writes; else it has refused a step."""
    return isinstance(error, _GONE) or str(error).partition(" ")[0] in _TAKES_NO_WRITES


def connect(url: str, connections: int = _CONNECTIONS, timeout: float = 5.0, name: str = "staffel-worker") -> Redis:
    """A pool of a few connections for one event loop; a step waits for one rather than opening hundreds, and `timeout`
    (s) for its reply.

    Closing the client closes them.
    """
    pool = BlockingConnectionPool.from_url(
        url, max_connections=connections, timeout=10, decode_responses=True, socket_timeout=timeout,
        socket_connect_timeout=min(_TIMEOUT_S, timeout), client_name=name,
    )  # fmt: skip
    return Redis.from_pool(pool)


def connect_sync(url: str, *, retries: int = 1) -> SyncRedis:
    """For callers that block: times out after some seconds instead of hanging; one retry finds a Redis that is back."""
    return SyncRedis.from_url(
        url, decode_responses=True, socket_timeout=_BLOCKING_S, socket_connect_timeout=_BLOCKING_S,
        retry=Retry(NoBackoff(), retries),
    )  # fmt: skip


def trouble(url: str) -> str | None:
    """The line that says what is wrong with the Redis there, within 2 s or so; None where it answers."""
    try:
        with connect_sync(url, retries=0) as client:
            client.ping()
    except AWAY as error:
        return line_of_trouble(shown_url(url), error)
    except (ValueError, TypeError):  # TypeError: an option in its query that no connection has
        return f"{shown_url(url)} is no Redis URL; write redis://HOST:PORT/0"
    return None
