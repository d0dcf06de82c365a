"""A response schema as Anthropic takes it: every object closed, nothing in it that its grammar does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs",
        "definitions", "title", "description", "default", "format", "minItems",
    }
)  # fmt: skip
"""Source: Anthropic's page on structured outputs ("JSON schema limitations"). No bounds on numbers or lengths."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_DEFINITIONS = ("$defs", "definitions")
_DEPTH = 50


def closed_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with `additionalProperties: false` where it says nothing of it; None if Anthropic would refuse it.

    Whatever meets the closed one meets the schema itself, by which the answer is judged.
    """
    if _turns_in_circles(schema):
        return None
    return _closed(schema, 0)


def _closed(schema: object, depth: int) -> dict[str, Any] | None:
    if not isinstance(schema, Mapping) or depth > _DEPTH or not _fits(schema):
        return None
    found = dict(schema)
    if schema.get("type") == "object" or "properties" in schema:
        found.setdefault("additionalProperties", False)
    for name in ("properties", *_DEFINITIONS):
        if name in schema:
            parts = {key: _closed(part, depth + 1) for key, part in schema[name].items()}
            if None in parts.values():
                return None
            found[name] = parts
    if "items" in schema:
        found["items"] = _closed(schema["items"], depth + 1)
    if "anyOf" in schema:
        found["anyOf"] = [_closed(part, depth + 1) for part in schema["anyOf"]]
    return None if found.get("items", ()) is None or None in found.get("anyOf", ()) else found


def _fits(schema: Mapping[str, Any]) -> bool:
    return (
        _KEYWORDS.issuperset(schema)
        and all(isinstance(schema.get(name, {}), Mapping) for name in ("properties", *_DEFINITIONS))
        and isinstance(schema.get("anyOf", []), list)
        and schema.get("additionalProperties", False) is False
        and schema.get("format", "date") in _FORMATS
        and schema.get("minItems", 0) in (0, 1)
        and str(schema.get("$ref", "#")).startswith("#")
    )


def _turns_in_circles(schema: Mapping[str, Any]) -> bool:
    """Whether a definition leads back to itself, or to the root."""
    leads = {
        f"#/{name}/{key}": set(_references(part))
        for name in _DEFINITIONS
        if isinstance(schema.get(name), Mapping)
        for key, part in schema[name].items()
    }
    while leads:
        ends = [ref for ref, onward in leads.items() if not onward & leads.keys()]
        if not ends:
            return True
        leads = {ref: onward for ref, onward in leads.items() if ref not in ends}
    return "#" in _references(schema)


def _references(found: object) -> Iterator[str]:
    stack = [found]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            stack += part.values()
        elif isinstance(part, list):
            stack += part
