"""One event loop per worker process, and the engine on it. The only place that picks concrete classes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from config.settings import Settings
from config.stages import CLOUD
from staffel_wire import keys
from worker.asked import as_request
from worker.attempt_lines import alarm_line, log_attempt
from worker.cancels import Cancels
from worker.drain import Abandoned, Unbroken, Walks
from worker.failover.attempt import Attempt
from worker.failover.chain import End, Engine, Stop
from worker.failover.provider import Provider
from worker.failover.state import Displaced, Visit
from worker.failover.turns import AtOnce
from worker.housekeeping import Housekeeping
from worker.machine import new_member
from worker.post import Post
from worker.prices import cost, per_million
from worker.probing import Probing
from worker.providers.all import providers
from worker.providers.ollama_host import Hosts
from worker.published import catalogue
from worker.reconciler import Send
from worker.report import Consumer, Report
from worker.state.connection import AWAY, connect
from worker.state.patient import PAUSE_S, Patient, patiently
from worker.state.redis import RedisState, pulse_name
from worker.telling import Telling
from worker.warmth import Warmth

_log = logging.getLogger("staffel")
T = TypeVar("T")

PULSE_S = 2.0
"""How long one heartbeat may take before the next one is tried: several fit into the time of a death."""

LEAVES_S = 2.0
"""How long a process that ends may take to say so, where Redis is slow or away."""

FORCED_S = 5.0
"""How long a stuck process that has handed its jobs back may take to end in order."""

EX_STUCK = 70
"""The exit code of a worker that lived and took nothing: EX_SOFTWARE."""


class Runtime:
    """What a worker process has once: loop, engine, connections, and the walks under way."""

    def __init__(
        self, settings: Settings, lane: str, worker: str, send: Send, tell: Callable[[Mapping[str, Any]], None], *,
        end: Callable[[], None],
    ) -> None:  # fmt: skip
        """`tell` makes an event of an alarm, `send` sends a parked job on; they may block, and have other threads.

        `end` tells Celery's main loop to end the process.
        """
        self._tell, self._end = tell, end
        self._telling: set[asyncio.Task[None]] = set()
        self.settings, self.lane, self.worker = settings, lane, worker
        self.member = new_member(lane, worker)
        self._loop = asyncio.new_event_loop()
        self._stops: dict[str, Stop] = {}
        self._draining: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._loops: list[concurrent.futures.Future[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="staffel-loop")
        self._catalogue = catalogue(settings).to_json()
        self._redis = connect(settings.redis_url)
        self._state = RedisState(
            self._redis, settings.stages, settings.general, settings.chains, per_million,
            pulse=connect(settings.redis_url, connections=1, timeout=PULSE_S, name=pulse_name(self.member)),
        )  # fmt: skip
        self.telling = Telling(self._state.open, self._on_loop)
        self._walks = Walks(self._hand_back)
        asked = providers(settings.stages.values())
        self._post = self._posted(asked)
        waits = self._post.baton.waits if self._post else lambda _job: False
        self._cancels = Cancels(self._redis, settings.general, self._stops, waits)
        self._engine = Engine(
            Unbroken(Patient(self._state), self._walks), settings.stages, asked,
            as_request, log_attempt, self._alarmed, lambda _job: None, cost,
            self._post.baton if self._post else AtOnce(),
        )  # fmt: skip
        self._housekeeping = Housekeeping(
            self._state, self.member, self._stops, self._publish_if_lost, send, post=self._post
        )
        self._report = Report(self._redis, self.member, worker, self._stuck)

    def _posted(self, asked: Mapping[str, Provider]) -> Post | None:
        """This process's part in its lane, if that runs one request at a time."""
        if self.lane == CLOUD:
            return None
        stages = {name: stage for name, stage in self.settings.stages.items() if stage.lane == self.lane}
        warm = Warmth(list(stages.values()), Hosts())
        post = Post(
            self.lane, list(stages.values()), warm, interrupt=self._walks.interrupt,
            is_there=lambda member: self._state.is_there(member, self.member),
            beat=lambda: self._housekeeping.beat(),  # noqa: PLW0108 - it is made later
        )  # fmt: skip
        post.meanwhile(Probing(stages, asked, self._state.probes(self.lane), warm, self.member).run)
        return post

    async def _hand_back(self, job: str) -> None:
        unasked = self._post is not None and self._post.baton.was_unasked(job)
        await self._state.hand_back(job, self.member, called=not unasked)

    def start(self) -> None:
        """Start the loop, say what this worker can do and that it lives."""
        self._thread.start()
        self._on_loop(self._publish()).result(timeout=10)
        self._loops = [self._on_loop(loop) for loop in (self._housekeeping.run(), self._report.run())]

    def stop(self) -> None:
        """Say that this process has ended; as often as one likes."""
        with suppress(TimeoutError):
            self._on_loop(self._leave()).result(timeout=2 * LEAVES_S)
        self.telling.wait(LEAVES_S)

    async def _leave(self) -> None:
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave_once())
        await asyncio.shield(self._leaving)

    async def _leave_once(self) -> None:
        """The last beat is heard before, and none comes after."""
        self._housekeeping.over.set()
        self._report.over.set()
        try:
            async with asyncio.timeout(LEAVES_S):
                await asyncio.gather(*map(asyncio.wrap_future, self._loops))
                rests_ms = await self._post.left() if self._post else 0
                await self._state.leave(self.member, self.lane if self._post else None, rests_ms)
                await self._report.forget()
        except (*AWAY, TimeoutError):
            _log.warning("Redis is away: others learn by its silence that this worker has ended")

    # --- the end

    def attend(self, consumer: Consumer) -> None:
        """Tell of this consumer, keep what it holds, have it stand by where its lane is another's; in its thread."""
        self._report.consumer = consumer
        if self._post is not None:
            self._post.attend(consumer)

    @property
    def is_closed(self) -> bool:
        """Whether this process begins no job any more."""
        return self._walks.closed

    def gave_back(self, job: str) -> bool:
        """Whether the job's message is to go back to its queue."""
        return job in self._walks.abandoned

    def drain(self, seconds: float) -> None:
        """Begin nothing more, give the walks under way so long, then hand the rest to other workers.

        Returns at once, also in a signal handler; a second one with no seconds hurries.
        """
        self._loop.call_soon_threadsafe(self._begin_draining, seconds)

    def _begin_draining(self, seconds: float) -> None:
        if seconds <= 0:
            self._walks.hurry()
        if self._draining is None:
            self._walks.closed = True
            if self._post is not None:
                self._post.retire()
            self._draining = asyncio.ensure_future(self._drain(seconds))
        if self._report.consumer is not None:
            self._report.consumer.wake()

    async def _drain(self, seconds: float) -> None:
        if len(self._walks):
            _log.info("this worker ends: %d jobs under way have %g s, others take the rest", len(self._walks), seconds)
        await self._walks.drain(seconds)
        await self._leave()

    def _stuck(self, _reason: str) -> None:
        """End this process in order, or by force where its main loop does not hear of it."""
        self._end()
        self._begin_draining(self.settings.general.drain)
        self._forcing = asyncio.ensure_future(self._force())

    async def _force(self) -> None:
        if self._draining is not None:
            await self._draining
        await asyncio.sleep(FORCED_S)
        _log.error("the main loop does not end: this process does")
        logging.shutdown()
        os._exit(EX_STUCK)

    def walk(self, job: str, begins: Callable[[], None]) -> End:
        """Walk one job to its end, a handoff, or nothing; blocks the calling thread, never the loop.

        `begins` is called in this thread while the first call is under way. Raises `Abandoned` if the process ends
        before.
        """
        stop = Stop()
        ending = self._on_loop(self._walks.run(job, self._walk(job, stop)))
        either: list[concurrent.futures.Future[Any]] = [ending, stop.begun]
        concurrent.futures.wait(either, return_when=concurrent.futures.FIRST_COMPLETED)
        if not ending.done():
            begins()
        return ending.result()

    def park(self, job: str, signature: str) -> bool:
        """Keep what will be sent when the job goes on; False where it has ended or goes on already.

        Blocks as `walk` does, for as long as Redis is away, and raises `Abandoned` as well.
        """
        parking = patiently(lambda: self._state.park(job, signature))
        return self._on_loop(self._walks.run(job, parking, begins=False)).result()

    def _alarmed(self, job: str, attempt: Attempt) -> None:
        """One ERROR line and one event: this fault of a stage needs a person."""
        _log.error("%s", alarm_line(job, attempt))
        fields = {"job": job, "stage": attempt.stage, "model": attempt.model, "reason": attempt.reason,
                  "status": attempt.status, "detail": attempt.detail}  # fmt: skip
        telling = asyncio.ensure_future(asyncio.to_thread(self._tell, fields))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _walk(self, job: str, stop: Stop) -> End:
        """A second delivery may run beside the first: who has claimed the job last is the one to cancel."""
        visit = Visit(job, self.lane, self.member, self.worker)
        self._stops.setdefault(job, stop)
        stop.claimed.add_done_callback(lambda _: self._stops.update({job: stop}))
        try:
            end = await self._engine.walk(visit, stop)
            if isinstance(end, Displaced):
                raise asyncio.CancelledError  # as a walk that is broken off: it is handed back
            return end
        except Exception as error:  # noqa: BLE001 - whatever it is, the job must not wait for its deadline
            # Not what it says: that may be the prompt.
            _log.error("job %s: its walk broke off (%s); it will be tried again", job, type(error).__name__)
            if self._stops.get(job) is stop:
                await self._give_up(job)
            raise Abandoned from None
        finally:
            if self._stops.get(job) is stop:
                del self._stops[job]

    async def _give_up(self, job: str) -> None:
        """As if its worker had died: a job that no walk survives ends as poison."""
        try:
            await patiently(lambda: self._state.hand_back(job, self.member, died=True))
        except AWAY as error:
            _log.error("job %s could not be given back (%s)", job, type(error).__name__)

    def cancel(self, job: str, *, running: bool = True) -> None:
        """Mark the job's record and close its call if it runs here; returns before that is done.

        With `running` false a call under way is left alone, as Celery's plain revoke does.
        """
        self._on_loop(self._cancels.cancel(job, running=running))

    def pause(self, job: str) -> None:
        """Block for a moment before a job is begun; raises `Abandoned` where the process ends before that."""
        self._on_loop(self._walks.run(job, asyncio.sleep(PAUSE_S))).result()

    def heed_revoke(self, job: str) -> None:
        """Cancel a job that was revoked before it had a record; blocks and raises as `park` does."""
        self._on_loop(self._walks.run(job, self._cancels.heed(job), begins=False)).result()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _publish(self) -> None:
        await self._state.prepare()
        await self._redis.set(keys.CATALOGUE, self._catalogue)
        await self._state.beat(self.member, [])

    async def _publish_if_lost(self) -> None:
        """A Redis that lost its data would else know the workers by their beats, but not what they can do."""
        await self._redis.set(keys.CATALOGUE, self._catalogue, nx=True)
