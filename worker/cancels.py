"""Cancels that a worker hears of: the record is marked, and a call that runs here is closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from redis.asyncio import Redis

from config.file import General
from staffel_wire import keys
from staffel_wire.ends import cancelling
from staffel_wire.scripts import source
from worker.failover.chain import Stop
from worker.state.connection import AWAY
from worker.state.patient import patiently

_log = logging.getLogger("staffel")


class Cancels:
    """`stops` are the walks under way here; `waits` tells of one whether its call is still to be made."""

    def __init__(self, redis: Redis, general: General, stops: Mapping[str, Stop], waits: Callable[[str], bool]) -> None:
        self._redis, self._general, self._stops, self._waits = redis, general, stops, waits
        self._script = redis.register_script(source("cancel"))

    async def cancel(self, job: str, *, running: bool) -> None:
        if job in self._stops:
            running = running or self._waits(job)
            if not running:
                return
            self._stops[job].ask()
        names, arguments = cancelling(job, self._general, running=running)
        try:
            await self._script(keys=names, args=arguments)
        except AWAY:
            _log.warning("job %s: the cancel could not be written down, Redis is away", job)

    async def heed(self, job: str) -> None:
        """Cancel a job that was revoked before it had a record.

        The revoke is kept until it is a day old: whoever adopts the job after this worker's death must find it too.
        """
        names, arguments = cancelling(job, self._general)
        if await patiently(lambda: self._redis.get(keys.revoked(job))):
            await patiently(lambda: self._script(keys=names, args=arguments))
