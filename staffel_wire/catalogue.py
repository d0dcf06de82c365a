"""What the workers can do, as they publish it: a client without the file plans with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from staffel_wire.errors import Invalid
from staffel_wire.request import MAX_REQUEST_BYTES, Request, cleaned


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
class Entry:
    """Where a new job goes: the flat plan it will walk, its first lane, its deadline (s)."""

    plan: tuple[str, ...]
    lane: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All chains; lifetimes in seconds; `slots` is how many requests the widest lane of a worker runs at once."""

    chains: Mapping[str, Plan]
    max_request_bytes: int = MAX_REQUEST_BYTES
    answer_ttl: int = 86_400
    ledger_ttl: int = 7 * 86_400
    slots: int = 200

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
        return Entry(names, first.lane, request.deadline or chain.deadline)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)


def from_json(text: str) -> Catalogue:
    """The catalogue as a worker wrote it; what a newer worker added is passed over."""
    data = json.loads(text)
    chains = {
        name: Plan(tuple(Offer(**_known(offer, Offer)) for offer in plan["offers"]), plan["deadline"])
        for name, plan in data.pop("chains").items()
    }
    return Catalogue(chains, **_known(data, Catalogue))


def _known(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in kind.__slots__}  # type: ignore[attr-defined]
