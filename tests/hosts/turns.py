"""One at a time, first come, first served; who leaves while waiting is out of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def one(self, wait: Callable[[float | None], Awaitable[None]]) -> AsyncIterator[None]:
        """`wait` sleeps for ever with None and raises ClientGone when the client closes; so does this."""
        turn = asyncio.ensure_future(self._lock.acquire())
        gone = asyncio.ensure_future(wait(None))
        try:
            await asyncio.wait([turn, gone], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                gone.result()
            yield
        finally:
            gone.cancel()
            await asyncio.wait([gone])
            if turn.cancel():
                await asyncio.wait([turn])
            else:
                self._lock.release()
