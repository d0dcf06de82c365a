"""What a worker says of its configuration."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from config.file import General
from config.limits import Breaker, Limits
from config.settings import Settings
from config.stages import Chain, Stage, identity
from staffel_wire.catalogue import Known, Offer, Plan
from worker.published import catalogue

PRIMARY = Stage(
    "primary", "openai", "https://secret.example/v1", "gpt", SecretStr("sk-1"), breaker=Breaker(window=2.5),
    limits=Limits(3, 60, 6000, 10.0), limit_group="account", usd_per_day=5.0,
)  # fmt: skip
LOCAL = Stage("local", "ollama", "http://127.0.0.1:11434", "qwen", lane="ollama", local=True, num_ctx=8192)


def test_the_catalogue_has_what_a_client_plans_with_and_what_a_person_looks_at() -> None:
    """Neither an address nor a key: whoever may read Redis shall have neither from here."""
    stages = {"primary": PRIMARY, "local": LOCAL}
    chains = {"default": Chain("default", ("primary", "local"), 30.0)}
    found = catalogue(Settings("redis://h/0", Path(), General(), stages, chains))
    offers = (Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True, window=8192))
    assert found.chains == {"default": Plan(offers, 30.0)}
    assert found.known == {
        "primary": Known("gpt", identity(PRIMARY), 2500, 3, 60, 6000, 10.0, "account", 5.0),
        "local": Known("qwen", identity(LOCAL), 10_000),
    }
    assert "secret.example" not in found.to_json()
    assert "sk-1" not in found.to_json()
