"""A caller's schema is checked at the door: sound, standing alone, and cheap to check against."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from pydantic import BaseModel

from staffel_wire.errors import Invalid
from staffel_wire.request import parse
from staffel_wire.schema import DEEPEST

NOWHERE = "a reference in it leads nowhere, or its $schema is not a draft from 4 to 2020-12"
INSIDE = "a reference must stay inside the schema (#/$defs/...)"
BACK = "look-around and back-references are not taken"
HOLDS = "only what JSON can hold"


class Person(BaseModel):
    name: str
    age: int | None = None
    children: list[Person] = []


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"items": found}
    return found


def doubled(definitions: int) -> dict[str, Any]:
    """Each definition refers twice to the one before it."""
    twice = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, definitions)}
    return {"$ref": f"#/$defs/d{definitions - 1}", "$defs": {"d0": {"type": "string"}, **twice}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"pattern": {"type": "string", "pattern": "^[a-z]+$"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$id": "https://example.com/person", "type": "object"},
        {"type": "array", "items": {"$ref": "#"}},
        {"$defs": {"a": {"$anchor": "one"}}, "$ref": "#one"},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"const": {"$ref": "https://example.com/x"}},
        {"type": "object", "x-order": ["a"], "nullable": True},
        Person.model_json_schema(),
        nested(DEEPEST - 2),
        doubled(10),
    ],
    ids=lambda schema: json.dumps(schema)[:40],
)
def test_a_sound_schema_is_taken_as_it_is(schema: dict[str, Any]) -> None:
    """Any draft from 4 on; words that are unknown to it are left alone."""
    request = parse({"prompt": "Who?", "response_schema": schema})
    assert request.response_schema == schema
    stored = request.model_dump_json(exclude_defaults=True)
    assert parse(json.loads(stored)) == request


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ([], "should be a valid dictionary"),
        ("{}", "should be a valid dictionary"),
        (True, "should be a valid dictionary"),
        ({"type": "objct"}, "not a JSON schema at type"),
        ({"required": "name"}, "not a JSON schema at required"),
        ({"properties": {"name": {"type": "objct"}}}, "not a JSON schema at properties.name.type"),
        ({"properties": {"pattern": {"type": "objct"}}}, "not a JSON schema at properties.pattern.type"),
        ({"properties": {"our secret merger": {"type": "CANARY"}}}, "not a JSON schema at properties.?.type"),
        ({"properties": {"a\nb\x1b[2J": {"type": 7}}}, "not a JSON schema at properties.?.type"),
        ({"items": {"pattern": "("}}, f"a pattern that cannot be used at items.pattern; {BACK}"),
        ({"pattern": "(?=CANARY)(a+)+$"}, f"a pattern that cannot be used at pattern; {BACK}"),
        ({"patternProperties": {"(?!a)b": {}}}, f"a pattern that cannot be used at patternProperties.?; {BACK}"),
        ({"pattern": "^(?:(?:a{1,1000}){1,1000}){1,100}$"}, f"a pattern that cannot be used at pattern; {BACK}"),
        ({"$ref": "https://example.com/CANARY"}, INSIDE),
        ({"$ref": "file:///etc/passwd"}, INSIDE),
        ({"$ref": "other.json"}, INSIDE),
        ({"anyOf": [{"items": {"$dynamicRef": "https://example.com/x"}}]}, INSIDE),
        ({"properties": {"a": {"$id": "https://example.com/x"}}}, "only the whole schema may have an $id"),
        ({"$ref": "#/$defs/CANARY"}, NOWHERE),
        ({"$schema": "https://example.com/CANARY"}, NOWHERE),
        ({"enum": [float("nan")]}, HOLDS),
        ({"enum": [{1, 2}]}, HOLDS),
        ({"enum": [b"CANARY"]}, HOLDS),
        ({"properties": {1: {}}}, HOLDS),
        ({"const": 10**5000}, HOLDS),
        (nested(DEEPEST), f"nested too deeply; at most {DEEPEST} levels are taken"),
        (nested(3000), f"nested too deeply; at most {DEEPEST} levels are taken"),
        (doubled(60), "its references unfold to more than 10,000 parts"),
    ],
    ids=lambda value: json.dumps(value, default=str, skipkeys=True)[:40] if not isinstance(value, dict) else "",
)
def test_what_is_no_schema_is_refused_with_one_line(schema: object, line: str) -> None:
    """It says where, and quotes nothing that was written there."""
    with pytest.raises(Invalid) as caught:
        parse({"prompt": "Who?", "response_schema": schema})
    assert str(caught.value) == f"response_schema: {line}"


def test_a_large_schema_is_checked_in_no_time() -> None:
    """Its parts are counted once each, not once for each way to them."""
    wide = {"properties": {f"p{n}": {"type": "string", "enum": ["a", "b"]} for n in range(4_000)}}
    began = time.process_time()
    parse({"prompt": "Who?", "response_schema": wide})
    with pytest.raises(Invalid):
        parse({"prompt": "Who?", "response_schema": doubled(5000)})
    assert time.process_time() - began < 5


def test_a_client_loads_the_validator_only_for_a_schema() -> None:
    """It costs an app 60 ms at its start."""
    code = """
import sys
import staffel.client
from staffel_wire.request import parse
parse({"prompt": "Why?"})
assert "jsonschema_rs" not in sys.modules
parse({"prompt": "Why?", "response_schema": {}})
assert "jsonschema_rs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
