"""A response schema in the words of OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.providers.schema_tree import is_local, schemas

NAME = "answer"
_DEPTH = 10
"""Levels that a strict schema may nest (OpenAI's guide to structured outputs)."""

_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs",
        "definitions", "title", "description", "pattern", "format", "multipleOf", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
    }
)  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_SAYS = ("type", "anyOf", "enum", "const", "$ref")


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`strict` only where the schema lies in the strict subset: any other one is refused with it."""
    strict = not schema.get("anyOf") and is_strict(schema)
    return {"type": "json_schema", "json_schema": {"name": NAME, "schema": dict(schema), "strict": strict}}


def is_strict(schema: object) -> bool:
    """Whether OpenAI takes it as strict: known keywords alone, every object closed and all of its fields required."""
    return all(
        isinstance(part, Mapping) and depth <= _DEPTH and _KEYWORDS.issuperset(part) and _fits(part)
        for part, depth in schemas(schema)
    )


def _fits(schema: Mapping[str, Any]) -> bool:
    says = any(word in schema for word in _SAYS)
    return says and schema.get("format", "date") in _FORMATS and is_local(schema) and _is_closed(schema)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    if kinds != "object" and "object" not in (kinds if isinstance(kinds, list) else ()) and "properties" not in schema:
        return True
    fields, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.get("additionalProperties") is False
        and isinstance(fields, Mapping)
        and isinstance(required, list)
        and all(name in required for name in fields)
        and len(required) == len(fields)
    )
