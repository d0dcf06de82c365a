"""Many documents through few places: each becomes a job as soon as the queue has room for it."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from config.stages import CLOUD
from staffel import documents
from staffel.batch.folder import SummaryFolder
from staffel.batch.sources import Source
from staffel.batch.summaries import Row, Status, row_of
from staffel.batch.window import too_long
from staffel.client import Client
from staffel.documents.parsers import Unreadable
from staffel.errors import Invalid, StaffelError
from staffel_wire.catalogue import Offer

PLACES_PER_SLOT = 4
"""Jobs in the queue at once, for each request that the lanes run at once: enough that no lane runs dry."""

READERS = 4
"""Documents that are read, and held in memory, at once."""

_NO_MATTER = frozenset({"deadline", "priority"})
_WORD = re.compile(r"\S+")

Ask = Callable[[str], dict[str, Any]]
"""A document's text -> the request for its summary."""


def places(offers: Sequence[Offer], lanes: Iterable[str], slots: int) -> int:
    """How many jobs may be in the queue at once: four times what the lanes of this plan, where served, run at once.

    `slots` is the width of the cloud lane; every other lane runs one request at a time.
    """
    served = {offer.lane for offer in offers}.intersection(lanes)
    return PLACES_PER_SLOT * max(1, sum(slots if lane == CLOUD else 1 for lane in served))


def kind_of(ask: Ask) -> str:
    """What is asked about every document alike: instruction, chain, options; not what changes no answer."""
    return json.dumps({name: value for name, value in ask("").items() if name not in _NO_MATTER}, sort_keys=True)


def job_of(digest: str, kind: str) -> str:
    """The id of a text's job, the same in every run: it is joined while it runs, and its answer is not paid twice."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"staffel:summary:{kind}:{digest}"))


async def ended(client: Client, job: str) -> Mapping[str, Any]:
    """The object of a job when it has ended, however it did. Raises `Unavailable`."""
    try:
        try:
            return (await client.wait(job)).shown
        except StaffelError as error:
            if error.job is None:
                raise
            return await client.show(job)
    except Invalid as error:
        return {
            "job": job, "status": Status.LOST, "why": str(error), "text": None, "stage": None, "truncated": False,
            "cost_usd": None, "queued_s": 0.0, "duration_s": 0.0, "attempts": [],
        }  # fmt: skip


def _raise_lost_cancel() -> None:
    """Raise the cancel that a write to Redis may have swallowed: Python 3.11's `wait_for` does (cpython#86296)."""
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError


@dataclass(frozen=True, slots=True)
class _Read:
    """A document that needs a job, and its row so far."""

    digest: str
    row: Row
    request: Mapping[str, Any]


class Batch:
    """Documents on their way to rows; `tell` hears of each row as it ends.

    A few coroutines read, and one or two wait for each document in the queue: thousands of documents cost no more
    than the places. When it is cancelled nothing more is submitted, and what is in the queue goes on.
    """

    def __init__(
        self,
        client: Client,
        found: Sequence[Source],
        ask: Ask,
        *,
        places: int,
        window: int | None,
        tell: Callable[[Row], None],
        folder: SummaryFolder | None = None,
    ) -> None:
        self.total = len(found)
        self._client, self._ask, self._window, self._tell, self._folder = client, ask, window, tell, folder
        self._files = folder.files((source.path, source.place) for source in found) if folder else {}
        self._todo = iter(enumerate(found))
        self._kind = kind_of(ask)
        self._places = asyncio.Semaphore(places)
        self._door = asyncio.Lock()
        self._ends: dict[str, asyncio.Task[Mapping[str, Any]]] = {}
        self._in_queue: dict[str, None] = {}
        self._rows: dict[int, Row] = {}

    async def run(self) -> list[Row]:
        """The rows in the order of the documents. Raises `Unavailable` when Redis goes away meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(READERS):
                    group.create_task(self._read_on(group))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return [self._rows[number] for number in range(self.total)]

    @property
    def done(self) -> int:
        return len(self._rows)

    @property
    def in_queue(self) -> int:
        """Jobs that were submitted or joined and have not ended yet."""
        return len(self._in_queue)

    async def unserved(self) -> str | None:
        """The lane on which the oldest job waits, if no living worker serves it."""
        oldest = next(iter(self._in_queue), None)
        if oldest is None:
            return None
        seen = await self._client.watch(oldest)
        return seen.lane if seen.status == "queued" and not seen.served else None

    async def _read_on(self, group: asyncio.TaskGroup) -> None:
        for number, source in self._todo:
            found = await asyncio.to_thread(self._look, source)
            if isinstance(found, Row):
                self._end(number, found)
            else:
                await self._hand_in(group, number, source, found)

    def _look(self, source: Source) -> Row | _Read:
        """Read a document; its row where it needs no job. Blocks."""
        row = Row(str(source.path), source.name, Status.UNREADABLE)
        try:
            document = documents.read(source.path)
        except Unreadable as error:
            return replace(row, reason=str(error))
        row = replace(row, words=sum(1 for _ in _WORD.finditer(document.text)))
        if self._folder and (kept := self._folder.kept(row, self._files[source.path], document.digest)):
            return kept
        request = self._ask(document.text)
        if why := too_long(request, self._window):
            return replace(row, status=Status.TOO_LONG, reason=why)
        return _Read(document.digest, row, request)

    async def _hand_in(self, group: asyncio.TaskGroup, number: int, source: Source, found: _Read) -> None:
        """Wait for a place, submit, and leave the rest to others: so no more texts are in memory than readers."""
        await self._places.acquire()
        job = job_of(found.digest, self._kind)
        async with self._door:  # two copies of a text are one job
            if job not in self._ends:
                try:
                    await self._client.submit(found.request, job=job, again=True)
                except Invalid as error:
                    self._places.release()
                    self._end(number, replace(found.row, status=Status.REFUSED, reason=str(error)))
                    return
                self._in_queue[job] = None
                _raise_lost_cancel()
                self._ends[job] = group.create_task(self._until_end(job))
        group.create_task(self._finish(number, source, replace(found.row, job=job), found.digest))

    async def _until_end(self, job: str) -> Mapping[str, Any]:
        shown = await ended(self._client, job)
        del self._in_queue[job]
        return shown

    async def _finish(self, number: int, source: Source, row: Row, digest: str) -> None:
        row = row_of(row, await self._ends[str(row.job)])
        self._places.release()
        if self._folder and row.answered:
            row = self._folder.keep(row, self._files[source.path], digest)
        self._end(number, row)

    def _end(self, number: int, row: Row) -> None:
        self._rows[number] = row
        self._tell(row)
