"""What all workers know of the stages, as a person may see it; and how a person switches one by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor
from typing import Any, Literal

from staffel_wire import keys, lanes
from staffel_wire.catalogue import Catalogue, Known
from staffel_wire.record import iso, pairs

DAY_MS = 86_400_000
MOST_OFF_MS = 365 * DAY_MS
"""A stage that is off until somebody switches it on is so at most for a year, since every key has a TTL."""

BEYOND_MS = DAY_MS
"""A gate is remembered so long beyond its end: an open breaker waits for its probe."""

KEPT_MS = 2 * DAY_MS
"""A stage's hash lives so long after its last write."""

PARTS = 20
"""A window is counted in so many parts (see worker/failover/breaker.py)."""

MINUTE_US = 60_000_000
_HAND = frozenset({"switched_off"})
_THROTTLE = frozenset({"throttled", "overloaded"})

Action = Literal["off", "on", "reset"]


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """Open, and its time is over: the next call is the probe."""
    THROTTLED = "throttled"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Triple:
    """One reason why a stage is not asked; `until` in server milliseconds."""

    reason: str
    until: int
    whose: str

    @property
    def state(self) -> State:
        if self.reason in _HAND:
            return State.OFF
        return State.THROTTLED if self.reason in _THROTTLE else State.OPEN


@dataclass(frozen=True, slots=True)
class Facts:
    """What one look finds of a stage; `probe` is whoever holds it, `OWNER JOB FENCE`, with the lease's end (ms).

    `account` is the hash of its buckets: its own, or its `limit_group`'s.
    """

    now_ms: int
    gate: str
    own: Mapping[str, str]
    probe: tuple[str, int] | None
    parked: int
    in_flight: int
    account: Mapping[str, str]


def looking(catalogue: Catalogue, now_ms: int | None = None) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of `stages.lua`, for all stages and lanes of the catalogue; `now_ms` is for tests only."""
    names, found = list(catalogue.offers()), [keys.WORKERS, keys.GATES, keys.WAITING, keys.PACE, keys.LANES]
    for name in names:
        group = catalogue.known.get(name, Known()).group
        found += [keys.stage(name), keys.probe(name), keys.line(name)]
        found += [keys.group_in_flight(group), keys.group(group)] if group else [keys.in_flight(name), keys.stage(name)]
    given = [keys.WORKER_DEAD_AFTER_MS, "" if now_ms is None else now_ms, len(names), *names]
    for lane in lanes.names_of(catalogue):
        found += lanes.lists_of(lane)
        given.append(lane)
    return found, given


def looked(catalogue: Catalogue, reply: Sequence[Any]) -> list[dict[str, Any]]:
    """The stages' objects of `staffel stages --json`, of what `stages.lua` has replied."""
    now, rows, *_ = reply
    found = []
    for offer, (gate, own, probe, parked, in_flight, account) in zip(catalogue.offers().values(), rows, strict=True):
        held = (str(probe[0]), floor(float(probe[1]))) if probe else None
        facts = Facts(now, gate, pairs(own), held, parked, in_flight, pairs(account))
        known = catalogue.known.get(offer.stage, Known())
        found.append({"kind": "stage", "stage": offer.stage, "lane": offer.lane, **as_object(facts, known)})
    return found


def looked_at_lanes(catalogue: Catalogue, reply: Sequence[Any]) -> list[dict[str, Any]]:
    """The lanes' objects, of the same reply."""
    now, _, rows, living = reply
    names = lanes.names_of(catalogue)
    return [
        lanes.as_object(lane, lanes.facts_of(lane, row, living, now)) for lane, row in zip(names, rows, strict=True)
    ]


def switching(
    stage: str, identity: str, action: Action, for_ms: int | None = None, now_ms: int | None = None
) -> tuple[list[str], list[str | int]]:
    """KEYS and ARGV of `switch.lua`; without `for_ms` a stage is off until it is switched on."""
    off_ms = MOST_OFF_MS if for_ms is None else min(for_ms, MOST_OFF_MS)
    given = "" if now_ms is None else now_ms
    names = [keys.GATES, keys.stage(stage), keys.probe(stage)]
    return names, [stage, identity, action, off_ms, BEYOND_MS, KEPT_MS, given]


def as_object(facts: Facts, known: Known) -> dict[str, Any]:
    """One stage; times in ISO 8601, UTC, by the server's clock, None where there is none."""
    found = triples(facts.gate, known.identity)
    state, closing = standing(found, facts.now_ms)
    # What was counted of another host or model under this name is not this one's.
    own = facts.own if known.identity in {"", facts.own.get("id", "")} else {}
    calls, failures = counted(own.get("window", ""), known.window_ms, facts.now_ms)
    return {
        "model": known.model,
        "state": state,
        "reason": closing.reason if closing else None,
        "until": instant(closing.until if closing and state is not State.HALF_OPEN else None),
        "next_probe": instant(_next_probe(found, state, facts)),
        "probe": _probe(facts.probe),
        "calls": calls,
        "failures": failures,
        "failures_in_a_row": int(own.get("row", 0)),
        "last_failure": own.get("last_failure"),
        "window_s": None if known.window_ms is None else known.window_ms / 1000,
        **_limits(facts, known),
        "parked": facts.parked,
        "spent_usd": _spent(facts),
        "usd_per_day": known.usd_per_day,
        "at": instant(facts.now_ms),
        "raw": {"gate": facts.gate, "hash": dict(facts.own)},
    }


def triples(gate: str, identity: str) -> list[Triple]:
    """The reasons of a gate that are this stage's; all of them where its identity is not known."""
    parts = [part.split() for part in gate.split(";") if len(part.split()) == 3]  # noqa: PLR2004 - a triple
    found = [Triple(reason, int(until), whose) for reason, until, whose in parts if until.isdecimal()]
    return [triple for triple in found if triple.whose in {"*", identity} or not identity]


def standing(found: Sequence[Triple], now_ms: int) -> tuple[State, Triple | None]:
    """What a stage is now, and the reason for which it is so: the hand's first, else the one that lasts longest."""
    closing = [triple for triple in found if triple.until > now_ms]
    first = max(closing, key=lambda triple: (triple.state is State.OFF, triple.until), default=None)
    if first is not None:
        return first.state, first
    due = next((triple for triple in found if triple.state is State.OPEN), None)
    return (State.HALF_OPEN, due) if due else (State.CLOSED, None)


def counted(window: str, window_ms: int | None, now_ms: int) -> tuple[int, int]:
    """Calls and failures of the parts `PART:CALLS:FAILURES` that are still in the window; all where it is unknown."""
    calls = failures = 0
    width = max(1, (window_ms or 0) // PARTS)
    for text in window.split():
        part, ended, failed = map(int, text.split(":"))
        if window_ms is None or part * width > now_ms - window_ms:
            calls, failures = calls + ended, failures + failed
    return calls, failures


def _next_probe(found: Sequence[Triple], state: State, facts: Facts) -> int | None:
    """When the next probe may be made, if nobody holds it: not before a limit ends too, never while it is off."""
    breaker = next((triple for triple in found if triple.state is State.OPEN), None)
    if breaker is None or state is State.OFF:
        return None
    held = facts.probe[1] if facts.probe else 0
    return max(facts.now_ms, held, *(triple.until for triple in found))


def _probe(lease: tuple[str, int] | None) -> dict[str, Any] | None:
    if lease is None:
        return None
    owner, _, rest = lease[0].partition(" ")
    # A job that is on its way has no worker yet.
    return {"worker": None if owner == "-" else owner, "job": rest.rpartition(" ")[0], "until": instant(lease[1])}


def _limits(facts: Facts, known: Known) -> dict[str, Any]:
    asked, tokens = known.requests_per_minute, known.tokens_per_minute
    burst_us = floor(known.burst * 1_000_000)
    one = ceil(MINUTE_US / asked) if asked else 1
    requests_us, room_us = max(burst_us, one), _room_us(facts, "requests_full_at", max(burst_us, one))
    tokens_us = _room_us(facts, "tokens_full_at", burst_us)
    return {
        "limit_group": known.group,
        "in_flight": facts.in_flight,
        "max_in_flight": known.max_in_flight,
        "requests_left": room_us // one if asked else None,
        "requests_burst": requests_us // one if asked else None,
        "requests_per_minute": asked,
        "tokens_left": tokens_us * tokens // MINUTE_US if tokens else None,
        "tokens_burst": burst_us * tokens // MINUTE_US if tokens else None,
        "tokens_per_minute": tokens,
    }


def _room_us(facts: Facts, name: str, capacity: int) -> int:
    """What a bucket holds, as the microseconds in which it would fill by so much."""
    spent = max(0, floor(float(facts.account.get(name, 0))) - facts.now_ms * 1000)
    return max(0, capacity - spent)


def _spent(facts: Facts) -> float:
    """USD since 00:00 UTC."""
    today = facts.now_ms < float(facts.own.get("spent_until", 0))
    return round(float(facts.own.get("spent_usd", 0)), 9) if today else 0.0


def instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms / 1000)
