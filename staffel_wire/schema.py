"""A caller's JSON schema: a stranger's program, so it is checked before it runs and bounded while it does.

No reference leaves it. Patterns run on an engine that is linear in the text: with look-around and back-references,
`(?=a)(a+)+$` took 22 s for a text of 100 kB under a limit of 100,000 steps back (measured, jsonschema-rs 0.61).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import Validator

DEEPEST = 64
"""A schema's objects and lists may be nested this deep; jsonschema-rs itself gives up at some 250."""

MOST_STEPS = 10_000
"""Parts of a schema, counted again at each reference to them: 30 definitions that each refer twice to the next are a
thousand million checks."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_DATA = frozenset({"const", "enum", "default", "examples"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERN_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z_$][\w$-]{0,39}", re.ASCII)

UNSOUND: tuple[type[Exception], ...] = (ValueError, TypeError, RecursionError, OverflowError, MemoryError)
"""What compiling and checking raise; jsonschema-rs derives its errors of a schema from `ValueError`."""


def trouble(schema: Mapping[str, Any]) -> str | None:
    """Why this is no schema that an answer can be held against, in a few words without its values; None if it is."""
    try:
        if _too_deep(schema, DEEPEST):
            return f"nested too deeply; at most {DEEPEST} levels are taken"
        json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
        if (found := _reference(schema)) is not None:
            return found
        if _Steps(schema).count() > MOST_STEPS:
            return f"its references unfold to more than {MOST_STEPS:,} parts"
        compiled(schema)
    except UNSOUND as error:
        return _told(error)
    return None


def compiled(schema: Mapping[str, Any]) -> Validator:
    """The schema's validator; raises one of `UNSOUND`. It fetches nothing, from the network or from files."""
    import jsonschema_rs  # noqa: PLC0415 - 3 MB that a client needs only where there is a schema

    try:
        return jsonschema_rs.validator_for(
            dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES)
        )
    except jsonschema_rs.ReferencingError as error:  # which is no ValueError
        raise ValueError(str(error)) from None


def _told(error: Exception) -> str:
    path = getattr(error, "instance_path", None)
    if path is None:
        return "only what JSON can hold"
    kind = type(getattr(error, "kind", None)).__name__
    if "Referencing" in kind:
        return "a reference in it leads nowhere, or its $schema is not a draft from 4 to 2020-12"
    place = f" at {shown_path(path)}" if path else ""
    if kind.endswith("_Format") or kind == "Format":
        return f"a pattern that cannot be used{place}; look-around and back-references are not taken"
    return f"not a JSON schema{place}"


def shown_path(path: Sequence[str | int]) -> str:
    """Where in a schema; a name that is not like one of a field may be anybody's text, and is not shown."""
    return ".".join(str(part) if isinstance(part, int) or _NAME.fullmatch(part) else "?" for part in path[:12])


def _too_deep(value: object, left: int) -> bool:
    if isinstance(value, Mapping):
        return left == 0 or any(_too_deep(item, left - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return left == 0 or any(_too_deep(item, left - 1) for item in value)
    return False


def _parts(schema: object) -> Iterator[object]:
    """The schemas right inside this one; what is data and not schema is left out."""
    if isinstance(schema, list | tuple):
        yield from schema
    elif isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, Mapping):
                yield from value.values()
            elif key not in _DATA and isinstance(value, Mapping | list | tuple):
                yield value


def _reference(schema: object, *, root: bool = True) -> str | None:
    """Why a reference in this schema cannot be taken; None where all stay inside it."""
    if isinstance(schema, Mapping):
        targets = [schema[name] for name in _REFERENCES if isinstance(schema.get(name), str)]
        if any(not target.startswith("#") for target in targets):
            return "a reference must stay inside the schema (#/$defs/...)"
        if not root and isinstance(schema.get("$id"), str):
            return "only the whole schema may have an $id"
    return next((found for part in _parts(schema) if (found := _reference(part, root=False))), None)


class _Steps:
    """How many parts a check may visit: references are unfolded, but for those that lead back to where they stand.

    (jsonschema-rs remembers what it found behind a reference that leads back; not behind any other.)
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._known: dict[int, int] = {}
        self._anchors = dict(_anchors(schema))

    def count(self) -> int:
        return self._of(self._schema)

    def _of(self, part: object) -> int:
        if not isinstance(part, Mapping | list | tuple):
            return 0
        if id(part) in self._known:
            return self._known[id(part)]
        self._known[id(part)] = 1  # while it is being counted: whoever meets it meets it on a way back
        inner = sum(self._of(found) for found in (*_parts(part), *self._targets(part)))
        self._known[id(part)] = min(1 + inner, MOST_STEPS + 1)
        return self._known[id(part)]

    def _targets(self, part: object) -> Iterator[object]:
        if isinstance(part, Mapping):
            for name in _REFERENCES:
                if isinstance(target := part.get(name), str):
                    yield self._anchors.get(target) or _pointed(self._schema, target)


def _anchors(schema: object) -> Iterator[tuple[str, object]]:
    if isinstance(schema, Mapping):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(name), str):
                yield f"#{anchor}", schema
    for part in _parts(schema):
        yield from _anchors(part)


def _pointed(schema: object, pointer: str) -> object:
    """What `#/$defs/name` means (RFC 6901); None where there is nothing."""
    from urllib.parse import unquote  # noqa: PLC0415

    found = schema
    for step in unquote(pointer).removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list | tuple) and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            return None
    return found
