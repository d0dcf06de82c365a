"""Response schemas as hosts want them: strict, closed, or in words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from worker.providers.closed_schema import closed_schema
from worker.providers.response_format import is_strict, json_schema
from worker.providers.schema_prompt import told_in_prompt

INTEGER = {"type": "integer"}
CLOSED = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"], "additionalProperties": False}
LIST = {"type": "array", "items": CLOSED}


def around(schema: Any) -> dict[str, Any]:
    """An object with this in it."""
    return {**CLOSED, "properties": {"n": schema}}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (around(CLOSED), True),
        (around(LIST), True),
        (around({"anyOf": [CLOSED, {"type": "null"}]}), True),
        (around({"enum": ["a", "b"]}), True),
        ({**around({"$ref": "#/$defs/N"}), "$defs": {"N": CLOSED}}, True),
        ({**CLOSED, "properties": {}, "required": []}, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "required": ["n", "m"]}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}, False),
        ({"type": "object"}, False),
        (around({"type": ["object", "null"]}), False),
        (around({"type": "array", "items": {"type": "object"}}), False),
        (around({"type": "array", "items": True}), False),
        (around({"type": "array", "items": False}), False),
        (around({}), False),
        (around(True), False),
        (around({"type": "string", "minLength": 1}), False),
        (around({"type": "string", "format": "uri-template"}), False),
        (around({"$ref": "https://example.com/schema"}), False),
        ({**CLOSED, "$schema": "https://json-schema.org/draft/2020-12/schema"}, False),
        ({**CLOSED, "allOf": [CLOSED]}, False),
        ({**CLOSED, "anyOf": [CLOSED]}, False),
        ({**around({"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "object"}}}, False),
        ({**CLOSED, "properties": "none"}, False),
        ({**CLOSED, "required": "n"}, False),
    ],
)
def test_strict_is_only_said_of_what_lies_in_the_strict_subset(schema: Any, strict: bool) -> None:
    """Any other schema is refused with 400 then, which would be taken for the caller's fault."""
    assert json_schema(schema)["json_schema"]["strict"] is strict


def test_a_schema_that_nests_too_deep_is_not_strict() -> None:
    """Ten levels are OpenAI's bound; a thousand would be one of ours."""
    deep: Any = INTEGER
    for _ in range(1000):
        deep = around(deep)
    assert not is_strict(deep)
    assert closed_schema(deep) is None


def test_a_long_chain_of_definitions_takes_no_time() -> None:
    """It was walked anew for each of its links: one megabyte of them would hold the worker for minutes."""
    links = 20_000
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(links)}
    chain[f"d{links}"] = INTEGER
    begun = time.monotonic()
    assert closed_schema({**around({"$ref": "#/$defs/d0"}), "$defs": chain}) is not None
    chain[f"d{links}"] = {"$ref": "#/$defs/d0"}
    assert closed_schema({**around({"$ref": "#/$defs/d0"}), "$defs": chain}) is None
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (CLOSED, CLOSED),
        ({"type": "object", "properties": {"n": INTEGER}}, {**CLOSED, "required": None}),
        (LIST, LIST),
        (around({"type": "object"}), around({"type": "object", "additionalProperties": False})),
        (around({"type": "array", "items": {"type": "object"}}), ...),
        (around({"anyOf": [{"type": "object"}, INTEGER]}), ...),
        ({**around({"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "object"}}}, ...),
        ({**CLOSED, "additionalProperties": INTEGER}, None),
        (around({"type": "integer", "minimum": 0}), None),
        (around({"type": "array", "items": INTEGER, "minItems": 2}), None),
        (around({"type": "array", "items": {"not": {}}}), None),
        (around({"type": "array", "items": False}), None),
        (around({"anyOf": [INTEGER, {"type": "string", "pattern": "a"}]}), None),
        ({**around({"$ref": "#/$defs/N"}), "$defs": {"N": around({"$ref": "#/$defs/N"})}}, None),
        (around({"$ref": "#"}), None),
        (around({"type": "array", "items": {"$ref": "#/properties/n"}}), None),
        (around({"anyOf": [INTEGER, {"type": "array", "items": {"$ref": "#/properties/n/anyOf/1"}}]}), None),
        (around(True), None),
        ({**CLOSED, "properties": "none"}, None),
        ({**CLOSED, "anyOf": "none"}, None),
        ({**CLOSED, "$defs": 7}, None),
    ],
)
def test_a_schema_is_closed_for_anthropic_or_not_sent(schema: Any, closed: Any) -> None:
    """It refuses open objects, bounds and circles, with a 400 that would be taken for the caller's fault."""
    found = closed_schema(schema)
    if closed is ...:
        assert found is not None
        assert json.dumps(found).count('"additionalProperties": false') == 2
    elif closed is None:
        assert found is None
    else:
        assert found == {name: value for name, value in closed.items() if value is not None}


def test_a_schema_in_words_joins_the_system_message_that_is_there() -> None:
    """Chat templates refuse a second one, or one that stands anywhere but first."""
    user = {"role": "user", "content": "Why?"}
    (system, same) = told_in_prompt([{"role": "system", "content": "Be kind."}, user], {"title": "Größe"})
    assert same == user
    assert system["content"].startswith("Be kind.\n\n")
    assert '{"title":"Größe"}' in system["content"]
    assert [message["role"] for message in told_in_prompt([user], INTEGER)] == ["system", "user"]
