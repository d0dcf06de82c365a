"""Signs of life: a worker's heartbeat in Redis, an answer of Flower's."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis
from redis.exceptions import RedisError

from staffel_wire import keys

_PATIENCE_S = 2.0


class Beats:
    """The heartbeats of one Redis, on one connection."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(
            url, decode_responses=True, single_connection_client=True, socket_timeout=_PATIENCE_S,
            socket_connect_timeout=_PATIENCE_S, client_name="staffel-up",
        )  # fmt: skip

    async def has(self, lane: str, pid: int) -> bool:
        """Whether this very process serves the lane: another's beat, dead since a moment, does not count."""
        try:
            members = [str(name) for name in await self._redis.zrange(keys.WORKERS, 0, -1)]
        except (RedisError, OSError):
            return False
        return any(name.startswith(f"{lane}/") and f"/{pid}-" in name for name in members)

    async def close(self) -> None:
        await self._redis.aclose()


async def http_answers(address: str, port: int) -> bool:
    """Whether a web server answers there, whatever it says."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(b"GET /healthcheck HTTP/1.0\r\n\r\n")
                return (await reader.read(5)) == b"HTTP/"
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
