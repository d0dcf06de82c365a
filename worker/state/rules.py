"""What the scripts must know of a configuration, written into Redis once instead of sent with each call."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from config.file import General
from config.limits import Breaker
from config.stages import CLOUD, Chain, Stage, identity
from staffel_wire import keys
from staffel_wire.pace import BUSY_PART_MS, BUSY_PARTS, KEPT_CALLS
from staffel_wire.stages import DAY_MS, KEPT_MS, PARTS
from staffel_wire.submit import LOOKS_MS
from worker.failover.attempt import Reason
from worker.failover.state import (
    BACK_OFF_S,
    LOUD_S,
    MOST_BACK_OFF_S,
    MOST_DROPPED,
    ON_ITS_WAY_S,
    PROBE_AFTER_S,
    REFUSALS,
    REMEMBERED_S,
    UNFIT,
)
from worker.state.lane_lease import LEASE_S, host_s

Prices = Callable[[Stage], tuple[float, float] | None]
"""USD per 1M tokens, input and output, of a stage; None where they are not known."""

_FIRST = 10
"""KEYS of Lua count from 1, and nine come before those of the stages."""

SENT_AGAIN_MS = 45_000
"""A parked job that was sent on and that no worker has claimed since is sent again after this, if its lane's queue is
empty: its message is lost then.
"""

LONGEST_MS = 30 * DAY_MS
"""No job waits for longer: what is closed for more is so until a person changes it."""

LATER_MS = 1_000
"""When something may be free that nobody knows of: a place, or a probe that another one makes."""

SHARED = frozenset({Reason.AUTH, Reason.QUOTA})
"""Permanent faults of an account, and so of every stage behind it."""

MOST_THROTTLED = 30
"""A stage that has throttled one job so often is not tried again by it: its ledger, and what it asks, have an end."""

LOOKS_AGAIN_MS = 600_000
"""A parked job walks its plan anew after this, whether its line moves or not."""

MOST_SENT = 100
"""So many jobs are sent on to a stage at once, as far as its limits have room."""

MOST_UNLIMITED = 10
"""So many where there are no limits, ten times a second: a host that has throttled is not flooded as it opens."""

ENOUGH_CALLS = 5
"""From fewer calls of a lane nobody judges how long a job would wait for its turn there."""

_USD_NANO = 1_000_000_000
_PER_TOKEN = 1_000
"""USD per 1M tokens, as billionths of a USD per token."""


class Rules:
    """The rules of one configuration: the fields of their hash, and the keys that all scripts get, in one order."""

    def __init__(
        self, stages: Mapping[str, Stage], chains: Mapping[str, Chain], general: General, prices: Prices
    ) -> None:
        self._places: dict[str, int] = {}
        fields = {name: _line(stage) + _dump(self._stage(stage, stages, prices)) for name, stage in stages.items()}
        fields["*"] = _dump(self._all(stages, chains, general))
        self.fields: Mapping[str, str] = fields
        self.digest = hashlib.blake2b(_dump(fields).encode(), digest_size=8).hexdigest()
        self.key = keys.rules(self.digest)
        self.keys = (
            keys.WORKERS, keys.GATES, self.key, keys.PARKED, keys.OPEN, keys.DEAD, keys.WAITING, keys.PACE, keys.LANES,
            *self._places,
        )  # fmt: skip
        """KEYS of every script but those of a job, which come last."""

    def _place(self, key: str) -> int:
        return self._places.setdefault(key, len(self._places) + _FIRST)

    def _stage(self, stage: Stage, stages: Mapping[str, Stage], prices: Prices) -> dict[str, Any]:
        group, limits = stage.limit_group, stage.limits
        most, rpm, tpm = limits.max_in_flight, limits.requests_per_minute, limits.tokens_per_minute
        price = prices(stage) or (0.0, 0.0)
        found: dict[str, Any] = {
            "timeout_ms": _ms(stage.timeout),
            "max_out": stage.max_output_tokens, "nano_in": price[0] * _PER_TOKEN, "nano_out": price[1] * _PER_TOKEN,
            "breaker": _breaker(stage.breaker), "burst_us": math.floor(limits.burst * 1_000_000),
            "hash": self._place(keys.stage(stage.name)), "probe": self._place(keys.probe(stage.name)),
            "line": self._place(keys.line(stage.name)), "queues": list(map(self._place, keys.queues(stage.lane))),
            "places": self._place(keys.group_in_flight(group) if group else keys.in_flight(stage.name)),
            "most": most, "rpm": rpm, "tpm": tpm,
            "mates": [mate.name for mate in stages.values() if mate is stage or (group and mate.limit_group == group)],
        }  # fmt: skip
        if stage.lane != CLOUD:
            found["host"], found["host_ms"] = self._place(keys.lane(stage.lane)), _ms(host_s(stage))
            if stage.provider == "ollama":
                found["probe_ms"] = _ms(stage.longest + PROBE_AFTER_S)
        if stage.on_unknown == "skip":
            found["skips_unknown"] = True
        if stage.usd_per_day is not None:
            found["budget"] = nano_usd(stage.usd_per_day)
        if rpm is not None or tpm is not None:
            found["account"] = self._place(keys.group(group) if group else keys.stage(stage.name))
        return {key: value for key, value in found.items() if value is not None}

    def _all(self, stages: Mapping[str, Stage], chains: Mapping[str, Chain], general: General) -> dict[str, Any]:
        return {
            "names": list(stages),
            "lines": [self._place(keys.line(name)) for name in stages],
            "reserves": {
                name: {"ms": round(stage.reserve * 1000), "home": stage.local}
                for name, stage in stages.items() if stage.reserve
            },
            "chains": {
                name: {"key": self._place(keys.chain(name)), "budget": nano_usd(chain.usd_per_day)}
                for name, chain in chains.items() if chain.usd_per_day is not None
            },
            "calls_of": {
                lane: [self._place(key) for key in places_of(lane, stages.values())]
                for lane in {stage.lane for stage in stages.values()} - {CLOUD}
            },
            "dead_after": keys.WORKER_DEAD_AFTER_MS, "answer_ttl": general.answer_ttl,
            "ledger_ttl": general.ledger_ttl, "dead_ttl": general.dead_ttl,
            "max_deliveries": general.max_deliveries, "unfit": sorted(UNFIT), "refusals": REFUSALS,
            "most_dropped": MOST_DROPPED, "loud_ms": _ms(LOUD_S), "believed_ms": _ms(REMEMBERED_S),
            "back_off_ms": _ms(BACK_OFF_S), "most_back_off_ms": _ms(MOST_BACK_OFF_S),
            "probe_after_ms": _ms(PROBE_AFTER_S), "on_its_way_ms": _ms(ON_ITS_WAY_S), "day_ms": DAY_MS,
            "kept_ms": KEPT_MS, "sent_again_ms": SENT_AGAIN_MS,
            "looks_again_ms": LOOKS_AGAIN_MS, "looks_ms": LOOKS_MS, "later_ms": LATER_MS, "longest_ms": LONGEST_MS,
            "most_throttled": MOST_THROTTLED,
            "parts": PARTS, "shared": dict.fromkeys(SHARED, True),
            "most_sent": MOST_SENT, "most_unlimited": MOST_UNLIMITED, "lease_ms": _ms(LEASE_S),
            "pace": {"calls": KEPT_CALLS, "part_ms": BUSY_PART_MS, "parts": BUSY_PARTS, "enough": ENOUGH_CALLS},
        }  # fmt: skip


def places_of(lane: str, stages: Iterable[Stage]) -> list[str]:
    """The keys under which the calls of a lane's stages hold their places."""
    found = [
        keys.group_in_flight(stage.limit_group) if stage.limit_group else keys.in_flight(stage.name)
        for stage in stages
        if stage.lane == lane
    ]
    return list(dict.fromkeys(found))


def _line(stage: Stage) -> str:
    """What a script needs to pass a stage over, readable without a look at its JSON; the model as JSON itself."""
    model = json.dumps(stage.model)
    return f"{identity(stage)} {stage.lane} {stage.local:d} {stage.takes.images:d} {model}\n"


def _breaker(rule: Breaker) -> dict[str, float]:
    return {
        "failure_ratio": rule.failure_ratio, "window_ms": _ms(rule.window), "min_calls": rule.min_calls,
        "consecutive_failures": rule.consecutive_failures, "open_ms": _ms(rule.open_for),
        "open_growth": rule.open_growth, "open_max_ms": _ms(rule.open_max), "permanent_ms": _ms(rule.permanent_for),
    }  # fmt: skip


def nano_usd(usd: float) -> int:
    """Money as it is counted: in billionths of a USD."""
    return round(usd * _USD_NANO)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
