"""One connection to Redis, shared by everything that a client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from staffel.errors import Unavailable
from staffel_wire.scripts import source
from staffel_wire.url import shown_url, trouble

_TIMEOUT_S = 3.0
"""What any call may take, the wait for its turn and a second attempt included."""


class Connection:
    """Commands one after the other on a single connection, opened at the first one."""

    def __init__(self, url: str) -> None:
        self.shown = shown_url(url)
        self.met = False
        """Whether Redis ever answered here."""
        try:
            # No socket timeout: redis-py would wrap each write in wait_for(), which on Python 3.11 swallows a
            # cancel that comes at the same moment (cpython#86296). The clock is `_my_turn`'s.
            self._redis = Redis.from_url(
                url, decode_responses=True, single_connection_client=True, socket_timeout=None,
                socket_connect_timeout=_TIMEOUT_S, client_name="staffel-client",
                retry=Retry(NoBackoff(), 1),
            )  # fmt: skip
            # What stands after a `?` is looked at only when there is a connection to be made.
            self._redis.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, AttributeError, RedisError):  # their texts may quote the password
            raise Unavailable(f"{self.shown} is no Redis URL; write redis://HOST:PORT/0") from None
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
            self.met = True
        except (RedisError, OSError) as error:
            raise Unavailable(trouble(self.shown, error)) from None

    async def close(self) -> None:
        await self._redis.aclose()
