"""The asynchronous client for web backends: one Redis connection, however many jobs wait.

It stands alone: no Celery, nothing of this project's config, worker or tasks, so it works beside an app's own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from staffel.answer import Answer, from_shown
from staffel.connection import Connection
from staffel.dead_letters import DeadLetters
from staffel.errors import Invalid, Unavailable
from staffel.job_id import checked as _id
from staffel.waiting import Seen, Waiting
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry, from_json
from staffel_wire.ends import cancelling, polling
from staffel_wire.message import envelope
from staffel_wire.position import looked, looking
from staffel_wire.record import ENDED, unanswered
from staffel_wire.request import Request, parse
from staffel_wire.submit import submitting, taken_by_another

_CATALOGUE_S = 10.0


class Client:
    """`Client(url)` or the URL of STAFFEL_REDIS_URL; never starts a server. Use it on one event loop.

    Raises `Invalid` for a request that cannot be taken, `Unavailable` where Redis does not answer (within 3 s), and
    from `ask` and `wait` the end of a job without an answer: `Exhausted`, `Refused`, `Expired`, `Cancelled`.
    """

    def __init__(self, url: str | None = None) -> None:
        found = url or os.environ.get("STAFFEL_REDIS_URL", "")
        if not found:
            raise Unavailable("no Redis: give Client a URL, or set STAFFEL_REDIS_URL")
        self._connection = Connection(found)
        self._waiting = Waiting(self._poll, lambda: self._connection.met)
        self._catalogue: tuple[float, Catalogue] | None = None
        self.dead = DeadLetters(self._connection, self.catalogue)
        """The jobs that ended without an answer and are kept whole."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; jobs under way go on."""
        self._waiting.stop()
        await self._connection.close()

    async def ask(self, request: str | Mapping[str, Any], *, cancel_with_me: bool = False, **fields: Any) -> Answer:  # noqa: ANN401 - a request's other fields
        """Submit and wait. Cancelling the coroutine cancels the wait alone, unless `cancel_with_me`."""
        job = fields.pop("job", None) or str(uuid.uuid4())
        try:
            return await self.wait(await self.submit(request, job=job, **fields))
        except asyncio.CancelledError:
            if cancel_with_me:
                await self._cancel_with_me(job)
            raise

    async def submit(
        self,
        request: str | Mapping[str, Any],
        *,
        job: str | None = None,
        again: bool = False,
        **fields: Any,  # noqa: ANN401 - a request's other fields
    ) -> str:
        """Write the job's record and queue it, in one step; returns its id.

        `job` chooses the id: one that is known already is joined, and with `again` asked anew if it ended unanswered.
        With an `idempotency_key` that another job of the same request has, that job's id is returned.
        """
        job = _id(job or str(uuid.uuid4()))
        parsed, entry, catalogue = await self._planned(request, fields)
        gone = ""
        while True:
            message = envelope(job, entry.queue)
            state, which = await self._connection.script(
                "submit", *submitting(job, parsed, entry, catalogue, message, again=again, gone=gone)
            )
            if state == "other":
                raise Invalid(taken_by_another(which))
            if state != "same":
                return job
            if (await self.watch(which)).status not in {"unknown", "cancelled"}:
                return str(which)
            gone = which  # its caller has given it up, or it is too long ago

    async def first_lane(self, request: str | Mapping[str, Any], **fields: Any) -> str:  # noqa: ANN401
        """The lane on which this request would wait first; raises `Invalid` if it cannot be taken."""
        _, entry, _ = await self._planned(request, fields)
        return entry.lane

    async def _planned(
        self, request: str | Mapping[str, Any], fields: Mapping[str, Any]
    ) -> tuple[Request, Entry, Catalogue]:
        whole = {**({"prompt": request} if isinstance(request, str) else _mapping(request)), **fields}
        if self._catalogue is None:
            parse(whole, sys.maxsize)  # what is wrong in itself needs no worker that says how long it may be
        catalogue = await self.catalogue()
        parsed = parse(whole, catalogue.max_request_bytes)
        if parsed.chain not in catalogue.chains:
            catalogue = await self.catalogue(fresh=True)
        return parsed, catalogue.entry(parsed), catalogue

    async def wait(self, job: str, *, cancel_with_me: bool = False) -> Answer:
        """Wait for a job's end; any number may wait, each for any job, and each gets it."""
        try:
            seen = await self._waiting.until(_id(job), lambda seen: seen.status in ENDED or seen.status == "unknown")
        except asyncio.CancelledError:
            if cancel_with_me:
                await self._cancel_with_me(job)
            raise
        if seen.status == "unknown":
            raise Invalid(f"there is no job {job}; it was never submitted here, or its time to live is over")
        shown = await self.show(job)
        if shown["status"] not in ENDED:  # somebody asked it anew in between
            return await self.wait(job, cancel_with_me=cancel_with_me)
        if shown["status"] != "answered":
            raise unanswered(shown)
        return from_shown(shown)

    async def show(self, job: str) -> dict[str, Any]:
        """The job as it stands, its attempts too; while it runs and after."""
        shown = looked(job, await self._connection.script("look", *looking(_id(job))))
        if shown["status"] == "unknown" and not shown["attempts"]:
            raise Invalid(f"there is no job {job}; it was never submitted here, or its time to live is over")
        return shown

    async def cancel(self, job: str) -> str:
        """Cancel a job: a waiting one never starts, a running one's call is closed; returns its state.

        The state is `cancelled`, `cancelling` (its worker is closing the call) or the end that it already had. Raises
        `Invalid` where there is none; a foreign message, whose job begins when it is taken, is not started then.
        """
        _id(job)
        catalogue = await self.catalogue(needed=False)
        state = await self._connection.script("cancel", *cancelling(job, catalogue))
        if state == "unknown":
            raise Invalid(f"there is no job {job}; a foreign message of it that still waits will not be started")
        return str(state)

    async def _cancel_with_me(self, job: str) -> None:
        """Cancel a job whose waiter is being cancelled itself; it may not even have been submitted."""
        with suppress(Unavailable, Invalid):
            await asyncio.shield(self.cancel(job))

    async def lanes(self) -> frozenset[str]:
        """The lanes that a living worker serves."""
        lanes, _ = await self._poll([])
        return lanes

    async def catalogue(self, *, fresh: bool = False, needed: bool = True) -> Catalogue:
        """What the workers can do, read again after some seconds; raises `Unavailable` if none ever started here."""
        now = asyncio.get_running_loop().time()
        if not fresh and self._catalogue is not None and now - self._catalogue[0] < _CATALOGUE_S:
            return self._catalogue[1]
        text = await self._connection.get(keys.CATALOGUE)
        if text is None:
            if not needed:
                return Catalogue({}, dead_ttl=0)  # nobody has said that what is asked may be kept
            raise Unavailable(
                f"no worker has started on {self._connection.shown} yet; start one: celery -A worker worker -Q cloud"
            )
        self._catalogue = (now, from_json(text))
        return self._catalogue[1]

    async def watch(self, job: str) -> Seen:
        """One look at a job's status and lane, shared with everyone who waits."""
        return await self._waiting.until(_id(job), lambda _: True)

    async def _poll(self, jobs: list[str]) -> tuple[frozenset[str], list[Seen]]:
        catalogue = await self.catalogue(needed=False)
        lanes, flat = await self._connection.script("poll", *polling(jobs, catalogue))
        alive = frozenset(lanes)
        seen = [Seen(status, lane, served=lane in alive) for status, lane in zip(flat[::2], flat[1::2], strict=True)]
        return alive, seen


def _mapping(request: object) -> Mapping[str, Any]:
    if not isinstance(request, Mapping):
        raise Invalid(f"a request is a prompt or an object with a prompt, not a {type(request).__name__}")
    return request
