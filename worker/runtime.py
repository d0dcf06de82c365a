"""One event loop per worker process, and the engine on it. The only place that picks concrete classes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from config.settings import Settings
from config.stages import Stage
from staffel_wire import keys
from staffel_wire.images import media_type
from staffel_wire.request import parse
from staffel_wire.scripts import source
from worker.failover.attempt import Attempt, Reason
from worker.failover.chain import End, Engine, Stop
from worker.failover.provider import Provider
from worker.failover.request import Image, Request
from worker.failover.state import Visit
from worker.housekeeping import Housekeeping, Send
from worker.prices import cost, per_million, warm
from worker.providers.adapter import Adapter
from worker.providers.anthropic import Anthropic
from worker.providers.gemini import Gemini
from worker.providers.ollama import Ollama
from worker.providers.openai import OpenAI
from worker.providers.scripted import Scripted
from worker.published import catalogue
from worker.state.connection import AWAY, connect
from worker.state.patient import Patient, patiently
from worker.state.redis import RedisState

_log = logging.getLogger("staffel")
T = TypeVar("T")


class Abandoned(Exception):
    """The process ends at once; the job is another worker's now."""


class Runtime:
    """What a worker process has once: loop, engine, connections, and the walks under way."""

    def __init__(
        self, settings: Settings, lane: str, worker: str, send: Send, tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """`tell` makes an event of an alarm, `send` sends a parked job on; they may block, and have other threads."""
        self._tell = tell
        self._telling: set[asyncio.Task[None]] = set()
        self.settings, self.lane, self.worker = settings, lane, worker
        self.member = f"{lane}/{'_'.join(worker.split())}/{os.getpid()}-{secrets.token_hex(4)}"  # a lease's first word
        self._loop = asyncio.new_event_loop()
        self._stops: dict[str, Stop] = {}
        self._walks: set[asyncio.Task[Any]] = set()
        self._ended = False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="staffel-loop")
        self._catalogue = catalogue(settings).to_json()
        self._keeping: concurrent.futures.Future[None] | None = None
        self._redis = connect(settings.redis_url)
        self._state = RedisState(self._redis, settings.stages, settings.general, settings.chains, per_million)
        self._cancel = self._redis.register_script(source("cancel"))
        self._engine = Engine(
            Patient(self._state), settings.stages, providers(settings.stages.values()), as_request, log_attempt,
            self._alarmed, lambda _job: None, cost,
        )  # fmt: skip
        self._housekeeping = Housekeeping(self._state, self.member, self._stops, self._publish_if_lost, send)

    def start(self) -> None:
        """Start the loop, say what this worker can do and that it lives."""
        self._thread.start()
        self._on_loop(self._publish()).result(timeout=10)
        self._keeping = self._on_loop(self._housekeeping.run())

    def stop(self) -> None:
        """Say that this process ends."""
        self._ended = True
        try:
            if self._keeping is not None:
                self._loop.call_soon_threadsafe(self._housekeeping.over.set)
                self._keeping.result(timeout=5)
            self._on_loop(self._state.leave(self.member)).result(timeout=5)
        except (*AWAY, TimeoutError):
            _log.warning("Redis is away: others learn by its silence that this worker has ended")

    def abandon(self) -> None:
        """End at once: this process owns no job any more, and its calls are closed without being settled."""
        if not self._ended:
            self.stop()
        self._on_loop(self._abandon()).result(timeout=5)

    async def _abandon(self) -> None:
        for walk in self._walks:
            walk.cancel()

    def walk(self, job: str) -> End:
        """Walk one job to its end, a handoff, or nothing; blocks the calling thread, never the loop.

        Raises `Abandoned` if the process ends before.
        """
        return self._answer_of(self._walk(job))

    def park(self, job: str, signature: str) -> bool:
        """Keep what will be sent when the job goes on; False where it has ended or goes on already.

        Blocks as `walk` does, for as long as Redis is away, and raises `Abandoned` as well.
        """
        return self._answer_of(self._abandonable(patiently(lambda: self._state.park(job, signature))))

    def _answer_of(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._on_loop(work).result()
        except concurrent.futures.CancelledError:
            raise Abandoned from None

    async def _abandonable(self, work: Awaitable[T]) -> T:
        task = cast("asyncio.Task[T]", asyncio.current_task())
        self._walks.add(task)
        task.add_done_callback(self._walks.discard)
        return await work

    def _alarmed(self, job: str, attempt: Attempt) -> None:
        """One ERROR line and one event: this fault of a stage needs a person."""
        _log.error("%s", alarm_line(job, attempt))
        fields = {"job": job, "stage": attempt.stage, "model": attempt.model, "reason": attempt.reason,
                  "status": attempt.status, "detail": attempt.detail}  # fmt: skip
        telling = asyncio.ensure_future(asyncio.to_thread(self._tell, fields))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _walk(self, job: str) -> End:
        visit = Visit(job, self.lane, self.member, self.worker)
        if job in self._stops:  # a second delivery while the first one runs here
            return await self._abandonable(self._engine.walk(visit, Stop()))
        stop = self._stops[job] = Stop()
        try:
            return await self._abandonable(self._engine.walk(visit, stop))
        finally:
            del self._stops[job]

    def cancel(self, job: str, *, running: bool = True) -> None:
        """Mark the job's record and close its call if it runs here; returns before that is done.

        With `running` false a call under way is left alone, as Celery's plain revoke does.
        """
        self._on_loop(self._cancel_job(job, running=running))

    async def _cancel_job(self, job: str, *, running: bool) -> None:
        if job in self._stops:
            if not running:
                return
            self._stops[job].ask()
        general = self.settings.general
        ttls: list[str | int] = [general.answer_ttl, general.ledger_ttl]
        arguments = [keys.WORKER_DEAD_AFTER_MS, *ttls, "", int(running)]
        names = [keys.job(job), keys.attempts(job), keys.WORKERS, keys.PARKED]
        try:
            await self._cancel(keys=names, args=arguments)
        except AWAY:
            _log.warning("job %s: the cancel could not be written down, Redis is away", job)

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _publish(self) -> None:
        await self._state.prepare()
        await self._redis.set(keys.CATALOGUE, self._catalogue)
        await self._state.beat(self.member, [])

    async def _publish_if_lost(self) -> None:
        """A Redis that lost its data would else know the workers by their beats, but not what they can do."""
        await self._redis.set(keys.CATALOGUE, self._catalogue, nx=True)


def providers(stages: Iterable[Stage]) -> Mapping[str, Provider]:
    """One of each, ready for these stages: certificates and prices are read before the first call, not in its time."""
    adapters: dict[str, Adapter] = {
        "openai": OpenAI(),
        "anthropic": Anthropic(),
        "gemini": Gemini(),
        "ollama": Ollama(),
    }
    for stage in stages:
        if stage.provider in adapters:
            adapters[stage.provider].prepare(stage)
        warm([stage])
    return {**adapters, "scripted": Scripted()}


def as_request(fields: Mapping[str, Any]) -> Request:
    """The engine's request of what the door took."""
    door = parse(dict(fields), max_bytes=2**31)
    return Request(
        messages=door.conversation(),
        max_output_tokens=door.max_output_tokens,
        temperature=door.temperature,
        reasoning=door.reasoning,
        stop=door.stop,
        seed=door.seed,
        params=door.params,
        response_schema=door.response_schema,
        images=tuple(Image(media_type(picture), picture) for picture in door.images),
    )


def alarm_line(job: str, attempt: Attempt) -> str:
    """What a person on duty must know of a stage that will not get better by itself."""
    status = f" {attempt.status}" if attempt.status not in {None, 200} else ""
    said = f": {attempt.detail}" if attempt.detail else ""
    key = f"{_LOOK_AT[attempt.reason]}; " if attempt.reason in _LOOK_AT else ""
    return f"stage {attempt.stage} ({attempt.model}) needs a look: {attempt.reason}{status}{said} ({key}job {job})"


_LOOK_AT: Mapping[Reason | None, str] = MappingProxyType(
    {
        Reason.AUTH: "api_key_env",
        Reason.MODEL_MISSING: "model",
        Reason.MISROUTED: "base_url, api_version",
        Reason.UNSUPPORTED: "a field is left out for a day; takes or params may leave it out for good",
        Reason.BAD_REQUEST: "it called so many requests in a row wrong that others are asked instead",
    }
)
"""Where a person should look, by the key of the stage's table."""


def log_attempt(job: str, attempt: Attempt) -> None:
    """One line an attempt: what a person on duty needs, and nothing that a customer wrote."""
    _log.info(
        "job %s %d/%d %s %s%s %.2f s",
        job, attempt.n, attempt.of, attempt.stage, attempt.outcome,
        f" {attempt.reason}" + (f" {attempt.status}" if attempt.status not in {None, 200} else "")
        if attempt.reason else "",
        attempt.duration_s,
    )  # fmt: skip
