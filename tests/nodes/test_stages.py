"""The file of a test house says what its tests mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.file import Read, load
from tests.hosts import Host
from tests.nodes.stages import CHAINS, KEY, KEY_VARIABLE, STAGES, Chains, Played, write_config


def house(folder: Path, host: Host, stages: Mapping[str, Played] = STAGES, chains: Chains = CHAINS) -> Read:
    path = folder / "staffel.toml"
    write_config(path, host, stages, chains)
    return load(path, {}, {KEY_VARIABLE: KEY})


def test_no_stage_that_fails_on_purpose_is_taken_for_dead(tmp_path: Path) -> None:
    """Many tests call the same ones, in any order."""
    with Host() as host:
        found = house(tmp_path, host)
    assert min(stage.breaker.consecutive_failures for stage in found.stages.values()) == 1_000_000_000
    assert {chain.deadline for chain in found.chains.values()} == {60}


def test_a_stage_may_have_a_breaker_and_a_chain_a_table_of_its_own(tmp_path: Path) -> None:
    """Whole, or by one key of it; with a table in a table and text that JSON would write in escapes."""
    stages = {
        "a": Played("openai", "ok", {"breaker": {"window": 1, "open_for": 2}}),
        "b": Played("openai", "ok", {"breaker.min_calls": 3, "price": {"input": 1, "output": 2}}),
        "c": Played("ollama", "ok", {"params": {"options": {"text": "ü 😀", "list": [1, {"a": True}]}}}),
    }
    chains: Chains = {"default": ("a", "b"), "dear": {"stages": ["b", "c"], "usd_per_day": 0.5, "deadline": 5}}
    with Host() as host:
        found = house(tmp_path, host, stages, chains)
    breakers = {name: stage.breaker for name, stage in found.stages.items()}
    assert (breakers["a"].window, breakers["a"].open_for, breakers["a"].min_calls) == (1, 2, 5)
    assert (breakers["b"].min_calls, breakers["b"].failure_ratio) == (3, 0.5)
    assert breakers["c"].failure_ratio == 1
    assert found.stages["c"].params == {"options": {"text": "ü 😀", "list": [1, {"a": True}]}}
    assert (found.chains["default"].deadline, found.chains["dear"].deadline) == (60, 5)
    assert found.chains["dear"].usd_per_day == 0.5
