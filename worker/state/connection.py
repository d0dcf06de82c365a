"""How a worker reaches Redis."""

from __future__ import annotations

from redis import Redis as SyncRedis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

AWAY = (RedisError, OSError)
"""What is raised where Redis does not answer."""

_CONNECTIONS = 16
_TIMEOUT_S = 3.0


def connect(url: str) -> Redis:
    """A pool of a few connections for one event loop; a call waits for one rather than opening hundreds.

    Closing the client closes them.
    """
    pool = BlockingConnectionPool.from_url(
        url, max_connections=_CONNECTIONS, timeout=10, decode_responses=True, socket_timeout=5,
        socket_connect_timeout=_TIMEOUT_S, client_name="staffel-worker",
    )  # fmt: skip
    return Redis.from_pool(pool)


def connect_sync(url: str) -> SyncRedis:
    """For callers that block: times out after a few seconds instead of hanging."""
    return SyncRedis.from_url(url, decode_responses=True, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)


def answers(url: str) -> bool:
    """Whether a Redis answers there, within 3 s; nothing answers at what is no URL of a Redis."""
    try:
        client = connect_sync(url)
    except ValueError:
        return False
    try:
        return bool(client.ping())
    except AWAY:
        return False
    finally:
        client.close()
