"""What a worker says of its configuration: for clients that plan, and for a person who looks at the stages."""

from __future__ import annotations

from config.settings import Settings
from config.stages import Stage, identity
from staffel_wire.catalogue import Catalogue, Known, Offer, Plan


def catalogue(settings: Settings) -> Catalogue:
    """Names, lanes, windows, limits; no endpoint and no key."""
    stages, general = settings.stages, settings.general
    chains = {
        chain.name: Plan(tuple(_offer(stages[name]) for name in chain.plan), chain.deadline)
        for chain in settings.chains.values()
    }
    known = {name: knowledge(stage) for name, stage in stages.items()}
    return Catalogue(
        chains, general.max_request_bytes, general.answer_ttl, general.ledger_ttl, general.dead_ttl,
        general.idempotency_ttl, general.cloud_slots, known,
    )  # fmt: skip


def knowledge(stage: Stage) -> Known:
    limits = stage.limits
    return Known(
        model=stage.model,
        identity=identity(stage),
        window_ms=round(stage.breaker.window * 1000),
        max_in_flight=limits.max_in_flight,
        requests_per_minute=limits.requests_per_minute,
        tokens_per_minute=limits.tokens_per_minute,
        burst=limits.burst,
        group=stage.limit_group,
        usd_per_day=stage.usd_per_day,
    )


def _offer(stage: Stage) -> Offer:
    return Offer(stage.name, stage.lane, stage.local, stage.num_ctx if stage.provider == "ollama" else None)
