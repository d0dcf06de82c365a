"""What a worker process tells of its own consumption, every two seconds, and what comes of it when it is stuck."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from redis.asyncio import Redis

from staffel_wire import keys
from staffel_wire.scripts import source
from worker.post import Server
from worker.state.connection import AWAY
from worker.state.redis import SCRIPTS
from worker.watch import Consumption, Mode, Watch

EVERY_S = 2.0
"""Also how often held messages are refreshed: often enough for the shortest visibility timeout, 10 s."""

TTL_S = 60

_log = logging.getLogger("staffel")


class Consumer(Server, Protocol):
    """The worker's side of the broker, as another thread may ask it."""

    unacked_index: str

    def look(self) -> Consumption: ...

    def held(self) -> Sequence[str]:
        """The tags of all messages that are not acknowledged yet."""
        ...

    def queues(self) -> Sequence[str]:
        """The lists of Redis in which messages wait for it."""
        ...

    def told_time(self, server_s: float) -> None:
        """The server's clock says so many epoch seconds."""
        ...

    def wake(self) -> None:
        """Let the main loop look at once whether it shall end."""
        ...


class Report:
    """One per process, on its event loop."""

    def __init__(self, redis: Redis, member: str, name: str, stuck: Callable[[str], None]) -> None:
        """`stuck` hears once that this process takes nothing although it should."""
        self._redis, self._member, self._name, self._stuck = redis, member, name, stuck
        self._script = redis.register_script(source("consumption", SCRIPTS))
        self._watch, self._told = Watch(), ""
        self.consumer: Consumer | None = None
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Until it is `over`; the messages of a process that drains are still held."""
        while not self.over.is_set():
            if self.consumer is not None:
                try:
                    await self._say(self.consumer)
                except AWAY:
                    self._watch.away()
                except Exception as error:  # noqa: BLE001 - without it messages would be given out again
                    _log.error("this worker cannot tell of its work (%s); it is tried again", type(error).__name__)
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self.over.wait()

    async def forget(self) -> None:
        """This process has ended."""
        await self._redis.delete(keys.worker(self._member))

    async def _say(self, consumer: Consumer) -> None:
        seen = consumer.look()
        words: list[str | int] = [
            "lane", self._member.partition("/")[0], "name", self._name, "mode", seen.mode, "slots", seen.slots,
            "busy", seen.busy, "taken", seen.taken, "stuck", self._told,
        ]  # fmt: skip
        now_ms, waiting = await self._script(
            keys=[keys.worker(self._member), consumer.unacked_index, *consumer.queues()],
            args=[TTL_S, len(words), *words, *consumer.held()],
        )
        consumer.told_time(now_ms / 1000)
        self._judge(consumer.look(), waiting)

    def _judge(self, seen: Consumption, waiting: int) -> None:
        told = self._watch.judge(seen, waiting, asyncio.get_running_loop().time())
        if told and not self._told:
            on_purpose = seen.mode is Mode.CANCELLED
            _log.error("this worker takes nothing: %s%s", told, "" if on_purpose else "; it ends, to be started anew")
            if not on_purpose:
                self._stuck(told)
        self._told = told
