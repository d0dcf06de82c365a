"""What each provider cannot do without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from config.stages import StageTable, address_of

_VERSIONS = {
    "anthropic": (re.compile(r"\d{4}-\d\d-\d\d"), "2023-06-01"),
    "gemini": (re.compile(r"v\d[a-z0-9]*"), "v1beta"),
    "openai": (re.compile(r"\d{4}-\d\d-\d\d(-preview)?|v1|preview|latest"), "2024-10-21"),
}


def incomplete(table: StageTable) -> Iterator[tuple[str, str]]:
    """The keys that this provider cannot do without and that are not there or not right, each with what to write."""
    if table.provider == "scripted":
        return
    if not table.model:
        yield "model", "missing; write the model's name as the provider spells it"
    if address_of(table.base_url) is None:
        yield "base_url", 'must be an address such as "https://api.example.com/v1"'
        return
    if (wanted := _wrong_version(table)) is not None:
        yield "api_version", wanted
    parts = urlsplit(table.base_url)
    if parts.username is not None or parts.query or parts.fragment:
        yield "base_url", "must hold no user, key or query; keys go into the variable of api_key_env"


def _wrong_version(table: StageTable) -> str | None:
    """What to write instead of this `api_version`; a host would call every request wrong."""
    example = _VERSIONS.get(table.provider)
    if table.api_version is None:
        return None
    if example is None:
        return f"{table.provider} has no versions; leave it out"
    sound, like = example
    return None if sound.fullmatch(table.api_version) else f'must be a version such as "{like}"'
