"""When the model is in memory, and who may use it: one request at a time, and as long as `keep_alive` says.

As Ollama's scheduler has it (server/sched.go): a request's keep_alive replaces the model's, one without leaves it; the
clock starts when nobody uses the model or waits for it; other load-time options load it anew once all before are done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter_ns

from staffel.local_model.errors import LocalModelError, RequestRefused
from staffel.local_model.loading import Loading
from staffel.local_model.model import Model

STAY = 300.0  # seconds; Ollama's default of keep_alive
_FOR_EVER = timedelta(days=106751)  # the longest time that Go can say, which is what Ollama shows


@dataclass(frozen=True, slots=True)
class Held:
    """The model, for the holder alone. `ready_ns` is a `perf_counter_ns`: when it was loaded, or the holder came."""

    model: Model
    loading: Loading
    ready_ns: int


@dataclass(frozen=True, slots=True)
class Resident:
    loading: Loading
    size: int
    expires_at: str


class Residence:
    def __init__(self, file: Path) -> None:
        self._file = file
        # First come, first served; who is cancelled while waiting is out of the queue.
        self._place = asyncio.Lock()
        self._model: Model | None = None
        self._loading = Loading(num_ctx=0)
        self._ready_ns = 0
        self._users = 0
        self._stay = STAY
        self._timer: asyncio.TimerHandle | None = None
        self._expires: datetime | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._steady = asyncio.Event()
        self._steady.set()

    @asynccontextmanager
    async def hold(self, loading: Loading, stay: float | None) -> AsyncIterator[Held]:
        """The model to oneself, loaded so, when all who came before are done; `stay` is seconds, None says nothing.

        Being cancelled during the load throws the load away. Raises RequestRefused if it cannot be loaded.
        """
        arrived = perf_counter_ns()
        in_use = self._has(loading)
        if in_use:
            self._stay_for(stay)
        self._users += 1
        self._stop_clock()
        try:
            async with self._place:
                model = self._model
                if model is None or not self._has(loading):
                    model = await self._load(loading, stay)
                elif not in_use:  # loaded meanwhile, for somebody before
                    self._stay_for(stay)
                yield Held(model, self._loading, max(arrived, self._ready_ns))
        finally:
            self._users -= 1
            self._rest()

    async def start(self, loading: Loading) -> None:
        """The first load, for as long as a request that says nothing. Raises LocalModelError."""
        self._model, self._loading = await Model.load(self._file, loading), loading
        self._rest()

    async def load(self, loading: Loading, stay: float | None) -> None:
        """Have it loaded. At once if it is, whoever uses it. Raises as `hold` does."""
        if not self._has(loading):
            async with self.hold(loading, stay):
                return
        self._stay_for(stay)
        self._rest()

    def unload(self) -> None:
        """Once nobody uses it or waits for it; returns at once."""
        self._stay = 0.0
        self._rest()

    async def resident(self) -> Resident | None:
        """What is in memory; waits for a load under way, as Ollama's `/api/ps` does."""
        await self._steady.wait()
        if self._model is None or not self._model.alive:
            return None
        expires = self._expires or _after(self._stay)
        return Resident(self._loading, self._model.size, expires.isoformat().replace("+00:00", "Z"))

    async def close(self) -> None:
        self._stop_clock()
        await self._drop()

    def _has(self, loading: Loading) -> bool:
        return self._model is not None and self._model.alive and self._loading.fits(loading)

    def _stay_for(self, seconds: float | None) -> None:
        if seconds is not None:
            self._stay = seconds

    async def _load(self, loading: Loading, stay: float | None) -> Model:
        self._steady.clear()
        self._stay = STAY if stay is None else stay
        try:
            await self._drop()
            self._model = await Model.load(self._file, loading)
        except LocalModelError as error:
            raise RequestRefused(500, f"llama-server process has terminated: {error}") from error
        finally:
            self._steady.set()
        self._loading, self._ready_ns = loading, perf_counter_ns()
        return self._model

    async def _drop(self) -> None:
        """Waits also for those on their way out: two models at once may not fit into memory."""
        self._expire()
        if self._leaving:  # who asks may go meanwhile: the old one ends all the same
            await asyncio.wait(self._leaving)

    def _rest(self) -> None:
        """Start the clock, if nobody is there."""
        self._stop_clock()
        if self._users or self._model is None:
            return
        if self._stay <= 0:
            self._expire()
            return
        self._expires = _after(self._stay)
        if math.isfinite(self._stay):
            self._timer = asyncio.get_running_loop().call_later(self._stay, self._expire)

    def _expire(self) -> None:
        model, self._model, self._expires = self._model, None, None
        if model is not None:
            leaving = asyncio.get_running_loop().create_task(model.close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _after(seconds: float) -> datetime:
    return datetime.now(UTC) + (timedelta(seconds=seconds) if math.isfinite(seconds) else _FOR_EVER)
