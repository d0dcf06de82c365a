"""Everything that `staffel up` runs: started in order, kept running, stopped in the opposite order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from config.settings import Settings
from staffel.embedded import EmbeddedFailed
from staffel.supervisor import program
from staffel.supervisor.child import Child
from staffel.supervisor.log import Log
from staffel.supervisor.patience import RESTARTS, GaveUp, Patience
from staffel.supervisor.redis import VALKEY, Redis
from staffel.supervisor.signs import Beats
from staffel.supervisor.stop import Stop

UP = "up"
PAUSE_S = 3.0
"""Between the death of a child and its next start."""

_LOOK_S = 0.1
_SLOW_S = 30.0
_QUIET_S = 2.0
"""How long an orderly end may take before a person is told what it waits for."""

_HURRY_S = 5.0
"""What a worker needs to hand its jobs back: one that is killed leaves them until its silence is noticed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. `redis_url` is empty for the embedded server, `port` is 0 for no Flower."""

    settings: Settings
    config: Path
    redis_url: str
    port: int


class House:
    """One run of it; whoever runs it holds the lock of the state directory."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._log = Log([UP, *program.lanes(plan.settings), VALKEY, program.FLOWER])
        self._redis = Redis(plan.redis_url, plan.settings.state_dir, self._log)
        self._stop = Stop()
        self._children: list[Child] = []

    async def run(self) -> int:
        """Run until a signal, exit code 0, or until something cannot be kept running, 1.

        Raises `Unavailable` when there is no Redis to begin with.
        """
        with self._stop.listening():
            serving = asyncio.create_task(self._serve())
            asked = asyncio.create_task(self._stop.asked.wait())
            try:
                await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
                if not serving.done():
                    self._log.say(UP, "stopping")
                    serving.cancel()
                with suppress(asyncio.CancelledError):
                    return await serving
                return 0
            finally:
                self._stop.asked.set()
                await asked
                await self._end()

    # --- start

    async def _serve(self) -> int:
        """Returns 1 once something cannot be kept running."""
        await self._redis.start()
        beats = Beats(self._redis.url)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._redis.watch())
                await self._open(group, beats)
        except* GaveUp as faults:
            self._log.say(UP, f"{faults.exceptions[0]}; stopping everything", "ERROR")
        finally:
            await beats.close()
        return 1

    async def _open(self, group: asyncio.TaskGroup, beats: Beats) -> None:
        """Flower last: it looks for workers once, when it starts."""
        settings = self._plan.settings
        workers = [self._child(program.worker(lane, settings, beats)) for lane in program.lanes(settings)]
        self._log.say(UP, f"Redis is {self._redis.shown}; starting {', '.join(child.name for child in workers)}")
        for child in workers:
            group.create_task(self._keep(child))
        for child in workers:
            await child.ready.wait()
        if self._plan.port:
            flower = self._child(program.flower(self._plan.port))
            keeping = group.create_task(self._keep(flower))
            answers = group.create_task(flower.ready.wait())
            await asyncio.wait({keeping, answers}, return_when=asyncio.FIRST_COMPLETED)
            answers.cancel()
            self._announce(f"; Flower: http://{program.ADDRESS}:{self._plan.port}" if flower.ready.is_set() else "")
        else:
            self._announce("")

    def _child(self, what: program.Program) -> Child:
        settings = self._plan.settings
        variables = program.variables(self._redis.url, self._plan.config, settings.state_dir.absolute())
        self._children.append(Child(what, variables, settings.state_dir, self._log))
        return self._children[-1]

    def _announce(self, flower: str) -> None:
        self._log.say(UP, f"ready. Redis: {self._redis.shown}{flower}. Ctrl-C stops everything")
        self._log.say(UP, 'in another terminal: staffel ask "Why is the sky blue?"')

    # --- keep running

    async def _keep(self, child: Child) -> None:
        """Run a child, start it again when it dies; raises GaveUp if that does not help, unless it can be missed."""
        patience = Patience()
        while True:
            how = await self._life(child, again=patience.used > 0)
            if not patience.left():
                break
            count = f"{patience.used} of {RESTARTS}"
            self._log.say(child.name, f"died ({how}); starting it again in {PAUSE_S:g} s ({count})", "ERROR")
            await asyncio.sleep(PAUSE_S)
        if child.program.vital:
            raise GaveUp(f"{child.name} died again ({how})")
        self._log.say(child.name, f"died again ({how}); the others go on without it", "ERROR")

    async def _life(self, child: Child, *, again: bool) -> str:
        """From a child's start to its end; how it ended."""
        try:
            await child.start()
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        looking = asyncio.create_task(self._look(child, again=again))
        try:
            return await child.wait()
        finally:
            looking.cancel()

    async def _look(self, child: Child, *, again: bool) -> None:
        loop = asyncio.get_running_loop()
        slow = loop.call_later(_SLOW_S, self._log.say, child.name, f"is not ready after {_SLOW_S:g} s", "WARNING")
        try:
            while (pid := child.pid) is not None:
                if await child.program.ready(pid):
                    child.ready.set()
                    if again:
                        self._log.say(child.name, "is back")
                    return
                await asyncio.sleep(_LOOK_S)
        finally:
            slow.cancel()

    # --- stop

    async def _end(self) -> None:
        """Flower, the workers, Valkey: nothing is left when this returns. The workers drain at the same time."""
        alive = [child for child in self._children if child.pid is not None]
        for child in alive:
            child.terminate()
        for child in sorted(alive, key=lambda child: child.program.vital):
            await self._end_child(child)
        try:
            await self._redis.stop()
        except EmbeddedFailed as error:
            self._log.say(VALKEY, str(error), "ERROR")
        if self._children:
            self._log.say(UP, "everything has stopped")

    async def _end_child(self, child: Child) -> None:
        ended = asyncio.create_task(child.wait())
        hurried = asyncio.create_task(self._stop.hurried.wait())
        waits = (_QUIET_S, child.program.grace - _QUIET_S)
        for place, seconds in enumerate(waits):
            await asyncio.wait({ended, hurried}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() or hurried.done():
                break
            if place == 0:
                self._log.say(child.name, f"finishes its calls, for {waits[1]:g} s at most; Ctrl-C hurries")
        if hurried.done() and not ended.done() and child.program.vital:
            child.hurry()
            await asyncio.wait({ended}, timeout=_HURRY_S)
        hurried.cancel()
        if not ended.done():
            child.kill()
        await ended
        self._log.say(child.name, "stopped")
