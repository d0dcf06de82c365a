"""The stages and chains of a house, played by the scripted host, and the TOML file that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.hosts import Host


@dataclass(frozen=True, slots=True)
class Played:
    """One stage: its provider, what the host does with each call, and other keys of its table."""

    provider: str
    script: str
    keys: Mapping[str, object] = field(default_factory=dict)


KEY = "sk-canary-0123456789"
"""The API key of the stages that need one; no log, event, page or key of Redis may hold it."""

KEY_VARIABLE = "HOUSE_KEY"

ANSWER = "canary-of-the-answer"

_HOME: Mapping[str, object] = MappingProxyType({"local": True})

STAGES: Mapping[str, Played] = MappingProxyType(
    {
        "broken": Played("openai", "status:500"),
        "overloaded": Played("openai", "status:529"),
        "strict": Played("openai", "status:400"),
        "locked": Played("openai", "status:401"),
        "busy": Played("openai", "status:429:retry-after=3600"),
        "modern": Played(
            "openai", "status:400:code=unsupported_parameter:message=temperature is not supported,ok:echo"
        ),
        "silent": Played("openai", "silent", {"timeout": 60}),
        "impatient": Played("openai", "silent", {"timeout": 0.5}),
        "echo": Played("openai", "ok:echo", {"api_key_env": KEY_VARIABLE}),
        "leaky": Played("openai", "status:401:quote", {"api_key_env": KEY_VARIABLE}),
        "leaky-stream": Played("openai", "error-in-stream:quote", {"api_key_env": KEY_VARIABLE}),
        "tells": Played("ollama", f"ok:text={ANSWER}", _HOME),
        "slow-echo": Played("openai", "ok:echo:delay=0.5"),
        "slow": Played("openai", "ok:delay=1"),
        "two-seconds": Played("openai", "ok:delay=2"),
        "slow-broken": Played("openai", "status:500:delay=1"),
        "local": Played("ollama", "ok:text=from the lane", _HOME),
        "lane-slow": Played("ollama", "ok:delay=0.1", _HOME),
        "lane-silent": Played("ollama", "silent", {**_HOME, "timeout": 60}),
        "lane-echo": Played("ollama", "ok:echo", _HOME),
        "attic": Played("openai", "ok", {"lane": "attic"}),
    }
)

CHAINS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "default": ("broken", "local"),
        "quick": ("echo",),
        "echo-slowly": ("slow-echo",),
        "late": ("impatient", "echo"),
        "hang": ("silent", "echo"),
        "wide": ("two-seconds",),
        "slowly": ("slow",),
        "slowly-to-the-lane": ("slow-broken", "local"),
        "lane": ("lane-slow",),
        "lane-hang": ("lane-silent", "lane-echo"),
        "strict-first": ("strict", "echo"),
        "hopeless": ("broken", "overloaded"),
        "locked-first": ("locked", "echo"),
        "busy-first": ("busy", "echo"),
        "modern-first": ("modern", "tells"),
        "secrets": ("leaky", "leaky-stream", "tells"),
        "secrets-kept": ("leaky", "leaky-stream"),
        "nobody": ("attic",),
        "then-nobody": ("broken", "attic"),
    }
)
"""`default` fails with a 500 first, then goes to the lane."""


PATIENT: Mapping[str, object] = MappingProxyType(
    {
        "failure_ratio": 1,
        "min_calls": 1_000_000_000,
        "consecutive_failures": 1_000_000_000,
        "permanent_for": 0.001,
    }
)
"""The breaker of a stage that names none: it never trips, since tests share stages that fail on purpose."""

Chains = Mapping[str, Sequence[str] | Mapping[str, object]]
"""The plan of each chain, or its whole table, whose deadline is 60 s where it names none."""


def write_config(
    path: Path, host: Host, stages: Mapping[str, Played] = STAGES, chains: Chains = CHAINS
) -> Mapping[str, str]:
    """Write the file; returns the base URL of each stage."""
    urls, lines = {}, list[str]()
    for name, played in stages.items():
        urls[name] = getattr(host, played.provider)(played.script)
        own = {"provider": played.provider, "base_url": urls[name], "model": f"model-of-{name}"}
        names_one = any(key.partition(".")[0] == "breaker" for key in played.keys)
        lines += _table(f"stages.{name}", {**own, **({} if names_one else {"breaker": PATIENT}), **played.keys})
    for name, chain in chains.items():
        table = chain if isinstance(chain, Mapping) else {"stages": chain}
        lines += _table(f"chains.{name}", {"deadline": 60, **table})
    path.write_text("\n".join(lines) + "\n")
    return urls


def _table(name: str, keys: Mapping[str, object]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in keys.items())]


def _toml(value: object) -> str:
    """JSON is TOML but for its tables; an inline table stands on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
