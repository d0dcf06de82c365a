"""A response schema as Anthropic takes it: every object closed, nothing in it that its grammar does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.providers.schema_tree import BY_NAME, is_local, is_recursive, schemas

_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs",
        "definitions", "title", "description", "default", "format", "minItems",
    }
)  # fmt: skip
"""Source: Anthropic's page on structured outputs ("JSON schema limitations"). No bounds on numbers or lengths."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_DEPTH = 50


def closed_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with `additionalProperties: false` where it says nothing of it; None if Anthropic would refuse it.

    Whatever meets the closed one meets the schema itself, by which the answer is judged.
    """
    fits = all(isinstance(part, Mapping) and depth <= _DEPTH and _fits(part) for part, depth in schemas(schema))
    return _closed(schema) if fits and not is_recursive(schema) else None


def _fits(schema: Mapping[str, Any]) -> bool:
    return (
        _KEYWORDS.issuperset(schema)
        and schema.get("additionalProperties", False) is False
        and schema.get("format", "date") in _FORMATS
        and schema.get("minItems", 0) in (0, 1)
        and is_local(schema)
    )


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(schema)
    if schema.get("type") == "object" or "properties" in schema:
        found.setdefault("additionalProperties", False)
    for name in found.keys() & set(BY_NAME):
        found[name] = {key: _closed(part) for key, part in found[name].items()}
    if "items" in found:
        found["items"] = _closed(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [_closed(part) for part in found["anyOf"]]
    return found
