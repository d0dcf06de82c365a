"""What the workers can do, as they publish it: a client without the file plans with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from staffel_wire import keys
from staffel_wire.errors import Invalid
from staffel_wire.request import MAX_REQUEST_BYTES, Priority, Request, cleaned


@dataclass(frozen=True, slots=True)
class Offer:
    """One stage as a client sees it; `window` in tokens, None where it is not known."""

    stage: str
    lane: str
    local: bool
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One chain: its stages in order, and the deadline (s) of a request that names none."""

    offers: tuple[Offer, ...]
    deadline: float


@dataclass(frozen=True, slots=True)
class Known:
    """What a person who looks at a stage must know of its configuration; None: without limit, or not known.

    `identity` tells a host and model from another one under the same name; `burst` in seconds, `window_ms` is the
    breaker's; `group` is the `limit_group`.
    """

    model: str = ""
    identity: str = ""
    window_ms: int | None = None
    max_in_flight: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    burst: float = 6.0
    group: str | None = None
    usd_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a new job goes: the flat plan it will walk, its first lane, its deadline (s), its place in the lane."""

    plan: tuple[str, ...]
    lane: str
    deadline: float
    priority: Priority = "interactive"

    @property
    def queue(self) -> str:
        return keys.queue(self.lane, self.priority)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All chains; lifetimes in seconds; `slots` is how many requests the widest lane of a worker runs at once.

    `known`: of each stage by its name; an older worker writes none.
    """

    chains: Mapping[str, Plan]
    max_request_bytes: int = MAX_REQUEST_BYTES
    answer_ttl: int = 86_400
    ledger_ttl: int = 7 * 86_400
    dead_ttl: int = 7 * 86_400
    idempotency_ttl: int = 86_400
    slots: int = 200
    known: Mapping[str, Known] = field(default_factory=dict)

    def offers(self) -> dict[str, Offer]:
        """Every stage once, in the order of the plans, `default` first."""
        names = sorted(self.chains, key=lambda name: (name != "default", name))
        return {offer.stage: offer for name in names for offer in self.chains[name].offers}

    def entry(self, request: Request) -> Entry:
        """The plan of this request; raises `Invalid` for a chain that is not there or has no stage in the house."""
        chain = self.chains.get(request.chain)
        if chain is None:
            known = ", ".join(sorted(self.chains))
            raise Invalid(f"chain: there is no {request.chain[:60]!r}; there are {known}")
        first = next((offer for offer in chain.offers if offer.local or not request.local_only), None)
        if first is None:
            raise Invalid(f"local_only: no stage of {request.chain!r} is in the house (local = true)")
        names = tuple(offer.stage for offer in chain.offers)
        stages = {offer.stage for plan in self.chains.values() for offer in plan.offers}
        if strange := sorted(set(request.params) - stages):
            known = ", ".join(sorted(stages))
            raise Invalid(f"params.{cleaned(strange[0])}: there is no such stage; there are {known}")
        return Entry(names, first.lane, request.deadline or chain.deadline, request.priority)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)


def from_json(text: str) -> Catalogue:
    """The catalogue as a worker wrote it; what a newer worker added is passed over."""
    data = json.loads(text)
    chains = {
        name: Plan(tuple(Offer(**_understood(offer, Offer)) for offer in plan["offers"]), plan["deadline"])
        for name, plan in data.pop("chains").items()
    }
    known = {name: Known(**_understood(traits, Known)) for name, traits in data.pop("known", {}).items()}
    return Catalogue(chains, **_understood(data, Catalogue), known=known)


def _understood(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in kind.__slots__}  # type: ignore[attr-defined]
