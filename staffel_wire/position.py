"""Where a job stands that waits for its turn on a lane, and how a person is told so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from staffel_wire import keys
from staffel_wire.pace import Now, Pace, eta, now_of, pace_of, stand_before, until_end
from staffel_wire.record import as_object, pairs


@dataclass(frozen=True, slots=True)
class Standing:
    """What a place is told from: how many wait before the job in its queue, in all of that, and in the other one."""

    lane: str
    batch: bool
    before: int
    own: int
    others: int
    pace: Pace
    now: Now


def standing_of(reply: Sequence[Any]) -> Standing | None:
    """As `lanes.lua` replies it."""
    if not reply:
        return None
    lane, batch, before, own, others, pace, now = reply
    return Standing(lane, bool(batch), before, own, others, pace_of(pace), now_of(now))


def position(standing: Standing | None, now_ms: float) -> dict[str, Any] | None:
    """The `position` of a job's object; None where the job waits in no queue in which a place matters.

    `place` counts from 1, the next job to be called: those that the lane's worker has prepared come first. Seconds are
    until the job's own call has ended, None where nothing, and without a range where little, is known.
    """
    if standing is None:
        return None
    prepared = standing.now.prepared
    before = prepared + stand_before(standing.before, standing.others, batch=standing.batch)
    told = until_end(standing.pace.lengths(), before + 1, standing.now.running_s(now_ms))
    return {
        "lane": standing.lane,
        "place": before + 1,
        "of": prepared + standing.own + standing.others,
        **eta(told),
    }


def looking(job: str, now_ms: int | None = None) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of `look.lua`; `now_ms` is for tests only."""
    names = [keys.job(job), keys.attempts(job), keys.WAITING, keys.PACE, keys.LANES, keys.WORKERS]
    return names, [keys.WORKER_DEAD_AFTER_MS, "" if now_ms is None else now_ms]


def looked(job: str, reply: Sequence[Any]) -> dict[str, Any]:
    """The object of a job, of what `look.lua` has replied."""
    (record, ledger), now, standing = reply
    return as_object(job, pairs(record), pairs(ledger), now, position(standing_of(standing), now))
