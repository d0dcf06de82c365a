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
        "throttled": Played("openai", "status:429"),
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
        "hopeless": ("broken", "throttled"),
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


def write_config(
    path: Path,
    host: Host,
    stages: Mapping[str, Played] = STAGES,
    chains: Mapping[str, Sequence[str]] = CHAINS,
) -> Mapping[str, str]:
    """Write the file; returns the base URL of each stage."""
    urls, lines = {}, list[str]()
    for name, played in stages.items():
        urls[name] = getattr(host, played.provider)(played.script)
        table = {"provider": played.provider, "base_url": urls[name], "model": f"model-of-{name}", **played.keys}
        lines += [f"[stages.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    for name, plan in chains.items():
        lines += [f"[chains.{name}]", f"stages = {json.dumps(plan)}", "deadline = 60"]
    path.write_text("\n".join(lines) + "\n")
    return urls
