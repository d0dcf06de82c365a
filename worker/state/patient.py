"""A shared state that waits while the one beneath it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from worker.failover.attempt import Attempt
from worker.failover.state import GOES_ON, Admission, Permit, Settled, Settlement, State, Visit
from worker.state.connection import AWAY

T = TypeVar("T")


class Patient:
    """Asks again every `pause_s`, for `wait_s` at most, and then raises what the state raised.

    What a call has brought is paid for and must not be lost with the connection. A settle that was carried out and
    whose reply was lost changes nothing the second time.
    """

    def __init__(self, state: State, wait_s: float = 300.0, pause_s: float = 0.25) -> None:
        self._state, self._wait, self._pause = state, wait_s, pause_s

    async def admit(self, visit: Visit) -> Admission:
        return await self._patiently(lambda: self._state.admit(visit))

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        return await self._patiently(lambda: self._state.settle(permit, attempt, settlement))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        now = asyncio.get_running_loop().time
        end = now() + self._wait
        while True:
            try:
                return await ask()
            except AWAY:
                if now() > end:
                    raise
            await asyncio.sleep(self._pause)
