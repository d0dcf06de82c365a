"""When a call may go out: at once, or one after the other for all who ask the same host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from config.stages import Stage
from worker.failover.clocks import Reply

Ask = Callable[[float, bool], Coroutine[Any, Any, Reply]]
"""Makes the call; hears how long (s) the job has waited for its turn, and whether its model may have to be loaded."""

Work = Callable[[], Awaitable[Reply | None]]
"""Something to be done at a host beside the calls of jobs; its reply, where it has one."""

Needed = Callable[[], Awaitable[bool]]
"""Whether it is to be done, which is seen without a call."""

Idle = Callable[[Needed, Work], Awaitable[None]]
"""Does a piece of work while no job's call is under way, if it is needed then."""

NOT_ASKED = Reply(asked=False)
"""Its time was over before its turn came."""

AGAIN = Reply(asked=False, anew=True)
"""The call before it has failed: whether the stage may be asked is to be seen anew."""


class Turns(Protocol):
    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:
        """Make the call once it may be made; `NOT_ASKED` where that is not within so many seconds, or `AGAIN`."""
        ...

    def settled(self, job: str) -> None:
        """What came of this job's call is known to all workers, or there is none to come."""
        ...


class AtOnce:
    """A lane on which many run at once."""

    async def call(self, job: str, stage: Stage, within_s: float, ask: Ask) -> Reply:  # noqa: ARG002
        return await ask(0.0, False)  # noqa: FBT003 - an Ask's own

    def settled(self, job: str) -> None:
        pass


class Lease(Protocol):
    """This process's right to ask the lane's host, which others may have taken over meanwhile."""

    fence: int
    """The number of this process's term; 0 while the lane is not its own."""

    async def confirmed(self) -> bool:
        """Returns while it is certain, and waits where it is not; whether it had to wait."""
        ...

    async def lengthen(self) -> None:
        """Have it outlast a load and a call."""
        ...

    def shorten(self) -> None:
        """A call is enough again."""
        ...


class Warm(Protocol):
    """What is known of the models that the lane's host has loaded."""

    async def is_cold(self, stage: Stage) -> bool: ...

    def answered(self, stage: Stage) -> None: ...

    def unsure(self) -> None: ...
