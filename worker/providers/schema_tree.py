"""The schemas within a JSON schema, and how they lead to one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

BY_NAME = ("properties", "$defs", "definitions")
"""Keywords that hold schemas by name."""

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def schemas(schema: object) -> Iterator[tuple[object, int]]:
    """Every schema within this one, itself first, with its depth; where one should stand, whatever does.

    Only below the keywords that some host takes: a schema with others is refused for them.
    """
    stack = [(schema, 0)]
    while stack:
        part, depth = stack.pop()
        yield part, depth
        if isinstance(part, Mapping):
            stack += [(inner, depth + 1) for inner in _inner(part)]


def _inner(schema: Mapping[str, Any]) -> Iterator[object]:
    for name, part in schema.items():
        if name in BY_NAME:
            yield from part.values() if isinstance(part, Mapping) else (part,)
        elif name in _LISTS:
            yield from part if isinstance(part, list) else (part,)
        elif name == "items" or (name == "additionalProperties" and part is not False):
            yield part


def is_local(schema: Mapping[str, Any]) -> bool:
    """Whether what it refers to stands in the same document."""
    return str(schema.get("$ref", "#")).startswith("#")


def is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether any of its references leads back to itself."""
    leads = {ref: set(_references(_found(schema, ref))) for ref in set(_references(schema))}
    try:
        TopologicalSorter(leads).prepare()
    except CycleError:
        return True
    return False


def _found(schema: object, ref: str) -> object:
    """What stands at this place, `#/$defs/N`; None where nothing does."""
    for step in ref.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            schema = schema[int(name)]
        else:
            schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema if ref.partition("/")[0] == "#" else None


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
