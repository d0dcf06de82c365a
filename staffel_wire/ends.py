"""How the end of a job is kept, and the scripts with which whoever is no worker ends one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffel_wire import keys


class Kept(Protocol):
    """Seconds for which an answer, a ledger and a dead letter are kept; no dead letters where that is 0."""

    @property
    def answer_ttl(self) -> int: ...
    @property
    def ledger_ttl(self) -> int: ...
    @property
    def dead_ttl(self) -> int: ...


def cancelling(
    job: str, kept: Kept, *, running: bool = True, now_ms: int | None = None
) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of cancel.lua; with `running` false a call under way is left alone."""
    names = [keys.job(job), keys.attempts(job), keys.WORKERS, keys.PARKED, keys.OPEN, keys.DEAD]
    names += [keys.revoked(job), keys.WAITING]
    return names, [*_given(kept), "" if now_ms is None else now_ms, int(running), keys.REVOKED_TTL_S]


def polling(jobs: Sequence[str], kept: Kept, now_ms: int | None = None) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of poll.lua."""
    names = [name for job in jobs for name in (keys.job(job), keys.attempts(job))]
    return [keys.WORKERS, keys.OPEN, keys.DEAD, keys.WAITING, *names], [*_given(kept), "" if now_ms is None else now_ms]


def _given(kept: Kept) -> list[str | int]:
    return [keys.WORKER_DEAD_AFTER_MS, kept.answer_ttl, kept.ledger_ttl, kept.dead_ttl]
