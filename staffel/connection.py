"""One connection to Redis, shared by everything that a client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoScriptError, RedisError, ResponseError

from staffel.errors import Unavailable
from staffel_wire.scripts import source
from staffel_wire.url import shown_url

_TIMEOUT_S = 3.0
"""What any call may take, the wait for its turn and a second attempt included."""


class Connection:
    """Commands one after the other on a single connection, opened at the first one."""

    def __init__(self, url: str) -> None:
        self.shown = shown_url(url)
        try:
            # No socket timeout: redis-py would wrap each write in wait_for(), which on Python 3.11 swallows a
            # cancel that comes at the same moment (cpython#86296). The clock is `_my_turn`'s.
            self._redis = Redis.from_url(
                url, decode_responses=True, single_connection_client=True, socket_timeout=None,
                socket_connect_timeout=_TIMEOUT_S, client_name="staffel-client",
                retry=Retry(NoBackoff(), 1),
            )  # fmt: skip
        except ValueError as error:
            raise Unavailable(f"{self.shown} is no Redis URL ({error}); write redis://HOST:PORT/0") from None
        self._turn = asyncio.Lock()
        self._digests: dict[str, str] = {}

    async def script(self, name: str, names: Sequence[str], arguments: Sequence[str | int]) -> Any:  # noqa: ANN401
        """Run one of our scripts; raises `Unavailable` where Redis does not answer in time."""
        async with self._my_turn():
            if name not in self._digests:
                self._digests[name] = await self._redis.script_load(source(name))
            try:
                return await self._redis.evalsha(self._digests[name], len(names), *names, *arguments)
            except NoScriptError:  # Redis was restarted
                return await self._redis.eval(source(name), len(names), *names, *arguments)

    async def get(self, name: str) -> str | None:
        async with self._my_turn():
            found = await self._redis.get(name)
            return None if found is None else str(found)

    @asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_TIMEOUT_S), self._turn:
                yield
        except (RedisError, OSError) as error:
            raise self._away(error) from None

    def _away(self, error: Exception) -> Unavailable:
        if isinstance(error, AuthenticationError):
            return Unavailable(f"Redis at {self.shown} refuses the password; mend STAFFEL_REDIS_URL")
        if isinstance(error, ResponseError):  # the rest of its text may quote what it was sent
            return Unavailable(f"Redis at {self.shown} refuses: {str(error).partition(',')[0][:80]}")
        return Unavailable(f"Redis does not answer at {self.shown}: start it, or set STAFFEL_REDIS_URL")

    async def close(self) -> None:
        await self._redis.aclose()
