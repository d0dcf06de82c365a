"""The dead letters as a client reaches them: `client.dead`."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from staffel.connection import Connection
from staffel.job_id import checked
from staffel_wire import dead
from staffel_wire.catalogue import Catalogue
from staffel_wire.dead import DeadLetter

MOST_LISTED = 100

T = TypeVar("T")


class _Catalogued(Protocol):
    def __call__(self, *, fresh: bool = False, needed: bool = True) -> Awaitable[Catalogue]: ...


class _Runs(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class DeadLetters:
    """Jobs that ended exhausted or expired and still have their request. Raises `Invalid` for a job that is none."""

    def __init__(self, connection: Connection, catalogue: _Catalogued) -> None:
        self._connection, self._catalogue = connection, catalogue

    async def list(self, limit: int = MOST_LISTED) -> tuple[DeadLetter, ...]:
        """The newest first, at most `limit`; what nothing is left of is passed over."""
        found: tuple[DeadLetter, ...] = ()
        before, passed = "+inf", 0
        while len(found) < limit:
            before, jobs = await self._ids(before, passed)
            if not jobs:
                break
            replies = await self._connection.script("dead", *dead.looking(jobs, "brief"))
            some = tuple(dead.listed(job, one) for job, one in zip(jobs, replies, strict=True) if _is_one(one))
            passed += len(some)
            found += some
        return found[:limit]

    async def show(self, job: str, *, request: bool = False) -> dict[str, Any]:
        """The object of `Client.show`, with its chain, label, plan, `ended_at` and `kept_until`.

        Its `request`, which may be confidential, only if asked for.
        """
        names, given = dead.looking([checked(job)], "request" if request else "whole")
        (reply,) = await self._connection.script("dead", names, given)
        if not _is_one(reply):
            raise dead.none_such(job, reply)
        return dead.shown(job, reply)

    async def replay(self, job: str, from_stage: str | None = None, *, deadline: float | None = None) -> str:
        """Queue it again under the same id, which is returned; its attempts stay and are gone on with.

        It begins with `from_stage` of its plan, else with the first, and has `deadline` seconds, else as many as it was
        given before.
        """
        catalogue = await self._catalogue(fresh=True)
        names, given = dead.replaying(checked(job), from_stage, deadline, catalogue)
        state, said = await self._connection.script("replay", names, given)
        if state != "queued":
            raise dead.not_replayed(job, from_stage, state, said)
        return job

    async def drop(self, job: str) -> None:
        """Throw its request away; how it ended is known for as long as of any other job."""
        (state,) = await self._drop([checked(job)])
        if state != "dropped":
            raise dead.none_such(job, state)

    async def drop_all(self) -> int:
        """Throw away all that there are now; how many they were."""
        number, before = 0, "+inf"
        while True:
            before, jobs = await self._ids(before)
            if not jobs:
                return number
            number += (await self._drop(jobs)).count("dropped")

    async def _drop(self, jobs: Sequence[str]) -> Sequence[str]:
        catalogue = await self._catalogue(needed=False)
        return [
            str(state) for state in await self._connection.script("drop", *dead.dropping(jobs, catalogue.answer_ttl))
        ]

    async def _ids(self, before: str, passed: int = 0) -> tuple[str, Sequence[str]]:
        """A piece of the set, newest first, none scored higher than `before`: the first piece says what the others are
        not to pass, for new ones may come meanwhile.
        """
        found = await self._connection.script("dead", *dead.newest(before, passed))
        return (found[1] if found and before == "+inf" else before), found[::2]


class SyncDeadLetters:
    """`DeadLetters` without `await`."""

    def __init__(self, letters: DeadLetters, run: _Runs) -> None:
        self._letters, self._run = letters, run

    def list(self, limit: int = MOST_LISTED) -> tuple[DeadLetter, ...]:
        """See `DeadLetters.list`."""
        return self._run(self._letters.list(limit))

    def show(self, job: str, *, request: bool = False) -> dict[str, Any]:
        """See `DeadLetters.show`."""
        return self._run(self._letters.show(job, request=request))

    def replay(self, job: str, from_stage: str | None = None, *, deadline: float | None = None) -> str:
        """See `DeadLetters.replay`."""
        return self._run(self._letters.replay(job, from_stage, deadline=deadline))

    def drop(self, job: str) -> None:
        """See `DeadLetters.drop`."""
        self._run(self._letters.drop(job))

    def drop_all(self) -> int:
        """See `DeadLetters.drop_all`."""
        return self._run(self._letters.drop_all())


def _is_one(reply: object) -> bool:
    """dead.lua says of another job its status alone."""
    return not isinstance(reply, str)
