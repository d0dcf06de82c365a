"""What all workers know of the lanes, as a person may see it: who waits, how fast it goes, when it will be empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue
from staffel_wire.pace import Now, Pace, eta, now_of, pace_of, until_end
from staffel_wire.record import iso, rounded

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What one look finds of a lane: who waits in its two queues, the microseconds at which the first of each came, the
    messages there, its pace, what its owner says, and the processes that serve it.
    """

    now_ms: int
    interactive: int
    batch: int
    first_us: tuple[int, ...]
    in_queue: int
    pace: Pace
    now: Now
    workers: tuple[str, ...]


def names_of(catalogue: Catalogue) -> list[str]:
    """Every lane that a stage runs on, in the order of the stages."""
    return list(dict.fromkeys(offer.lane for offer in catalogue.offers().values()))


def lists_of(lane: str) -> list[str]:
    """Where the messages of a lane's two queues are."""
    return [name for queue in keys.queues(lane) for name in keys.messages(queue)]


def facts_of(lane: str, reply: Sequence[Any], living: Sequence[str], now_ms: int) -> Facts:
    """As `stages.lua` replies it."""
    interactive, batch, *tickets, in_queue, pace, said = reply
    first = tuple(int(ticket.split(" ", 2)[1]) for ticket in tickets if ticket)
    workers = tuple(member for member in living if member.partition("/")[0] == lane)
    return Facts(now_ms, interactive, batch, first, in_queue, pace_of(pace), now_of(said), workers)


def as_object(lane: str, facts: Facts) -> dict[str, Any]:
    """One lane, as `staffel stages --json` shows it. Seconds; None where nothing is known, or nothing is to be told.

    `stage` is there for whoever picks a stage out of the lines by its name.
    """
    pace, now, lengths = facts.pace, facts.now, facts.pace.lengths()
    mean = sum(lengths) / len(lengths) if lengths else None
    waiting = facts.interactive + facts.batch
    running = now.running_s(facts.now_ms)
    told = until_end(lengths, now.prepared + waiting, running)
    oldest = min(facts.first_us, default=None)
    standby = [member for member in facts.workers if member != now.owner] if now.owner else []
    return {
        "kind": "lane",
        "stage": None,
        "lane": lane,
        "waiting": waiting,
        "interactive": facts.interactive,
        "batch": facts.batch,
        "in_queue": facts.in_queue,
        "oldest_s": None if oldest is None else round(max(0.0, facts.now_ms / 1000 - oldest / 1_000_000), 3),
        "in_hand": now.in_hand,
        "running_since": None if now.since_ms is None else iso(now.since_ms / 1000),
        "running_s": rounded(running),
        "calls_seen": len(lengths),
        "call_s": rounded(mean),
        "calls_per_minute": rounded(_MINUTE_S / mean if mean else None),
        "tokens_per_second": rounded(pace.tokens_per_second()),
        **eta(told),
        "busy_share": round(pace.busy_share(facts.now_ms, now.since_ms), 3) if lengths or running else None,
        "owner": now.owner,
        "standby": standby,
        "workers": list(facts.workers),
        "at": iso(facts.now_ms / 1000),
    }
