"""A shared state that waits while the one beneath it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from worker.failover.attempt import Attempt
from worker.failover.state import GOES_ON, Admission, Permit, Settled, Settlement, State, Visit
from worker.state.connection import AWAY, comes_back

WAIT_S = 300.0
"""How long a step is asked again that Redis refuses: workers of two versions may meet for the time of a deploy."""

PAUSE_S = 0.25
"""How long before what failed since Redis was away is asked once more."""

T = TypeVar("T")


class Patient:
    """Asks again for as long as the state is away: what a call has brought is paid for, and waits here in memory.

    A settle that was carried out and whose reply was lost changes nothing the second time. `wait_s` bounds what is
    asked again of a state that is there and refuses; then its own error is raised.
    """

    def __init__(self, state: State, wait_s: float = WAIT_S) -> None:
        self._state, self._wait = state, wait_s

    async def admit(self, visit: Visit) -> Admission:
        return await patiently(lambda: self._state.admit(visit), self._wait)

    async def settle(self, permit: Permit, attempt: Attempt, settlement: Settlement = GOES_ON) -> Settled:
        return await patiently(lambda: self._state.settle(permit, attempt, settlement), self._wait)


async def patiently(ask: Callable[[], Awaitable[T]], wait_s: float = WAIT_S) -> T:
    """What the question brings in the end; raises what it raised only where it was refused for `wait_s`."""
    now = asyncio.get_running_loop().time
    refused: float | None = None
    while True:
        try:
            return await ask()
        except AWAY as error:
            refused = None if comes_back(error) else refused or now()
            if refused is not None and now() - refused > wait_s:
                raise
        await asyncio.sleep(PAUSE_S)
