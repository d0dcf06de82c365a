"""The request's door: it lets in what can be walked, and refuses the rest with one line."""

from __future__ import annotations

import json
import time
import traceback
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staffel_wire.errors import Invalid
from staffel_wire.request import NOT_YET, Request, parse

PROMPT = {"prompt": "Why?"}
FIELDS = (
    "chain, deadline, idempotency_key, images, label, local_only, max_output_tokens, messages, params, priority, "
    "prompt, reasoning, response_schema, seed, stop, system, temperature"
)
NO_NAME = "not a field of a message; there are content, role"
SURROGATE = "holds a lone surrogate (half a character), which is no text; decode it first"


def refusal(fields: object, **options: int) -> str:
    with pytest.raises(Invalid) as caught:
        parse(fields, **options)
    line = str(caught.value)
    assert "\n" not in line, "one line"
    assert caught.value.exit_code == 2
    return line


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (None, "a request is an object with a prompt, not a NoneType"),
        ([PROMPT], "a request is an object with a prompt, not a list"),
        (b"Why?", "a request is an object with a prompt, not a bytes"),
        ({}, "give a prompt or messages"),
        ({"messages": []}, "give a prompt or messages"),
        ("", "the prompt is empty"),
        ({"prompt": " \n\t"}, "the prompt is empty"),
        ({"messages": [{"role": "user", "content": " "}]}, "the messages are empty"),
        ({"messages": [{"role": "system", "content": "Be kind."}]}, "the messages are empty"),
        ({**PROMPT, "messages": [{"role": "user", "content": "Why?"}]}, "give a prompt or messages, not both"),
        ({"prompt": 7}, "prompt: should be a valid string"),
        ({"messages": "Why?"}, "messages: should be a valid list"),
        ({"messages": ["Why?"]}, "messages.0: should be a valid dictionary"),
        ({"messages": [{"content": "Why?"}]}, "messages.0.role: missing"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: missing"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages.0.role: should be 'system', 'user' or 'assistant'"),
        ({"messages": [{"role": "user", "content": [1]}]}, "messages.0.content: should be a valid string"),
        ({"messages": [{"name": "A", "role": "user", "content": "Why?"}]}, f"messages.0.name: {NO_NAME}"),
        ({**PROMPT, "promt": "x"}, f"promt: not a field of a request; there are {FIELDS}"),
        ({**PROMPT, "chain": ""}, "chain: string should have at least 1 character"),
        ({**PROMPT, "deadline": -1}, "deadline: should be greater than 0"),
        ({**PROMPT, "deadline": 0}, "deadline: should be greater than 0"),
        ({**PROMPT, "deadline": "5"}, "deadline: should be a valid number"),
        ({**PROMPT, "deadline": True}, "deadline: should be a valid number"),
        ({**PROMPT, "deadline": float("nan")}, "deadline: should be a finite number"),
        ({**PROMPT, "deadline": 1e9}, "deadline: should be less than or equal to 2592000"),
        ({**PROMPT, "max_output_tokens": 0}, "max_output_tokens: should be greater than or equal to 1"),
        ({**PROMPT, "max_output_tokens": 1.5}, "max_output_tokens: should be a valid integer"),
        ({**PROMPT, "temperature": 2.1}, "temperature: should be less than or equal to 2"),
        ({**PROMPT, "reasoning": "max"}, "reasoning: should be 'none', 'low', 'medium' or 'high'"),
        ({**PROMPT, "stop": "end"}, "stop: should be a valid list"),
        ({**PROMPT, "seed": -1}, "seed: should be greater than or equal to 0"),
        ({**PROMPT, "local_only": 1}, "local_only: should be a valid boolean"),
        ({**PROMPT, "priority": "urgent"}, "priority: should be 'interactive' or 'batch'"),
        ({**PROMPT, "label": "x" * 201}, "label: string should have at most 200 characters"),
        ({**PROMPT, "params": {"primary": 3}}, "params.primary: should be a valid dictionary"),
        ({**PROMPT, "params": []}, "params: should be a valid dictionary"),
        ({**PROMPT, 7: 7}, "7: keys should be strings"),
        ({"prompt": 7, "deadline": -1, "seed": "x"}, "prompt: should be a valid string (and 2 more)"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_one_line(fields: object, line: str) -> None:
    """Each names the field and what it should be."""
    assert refusal(fields) == line


@pytest.mark.parametrize("field", sorted(NOT_YET))
@pytest.mark.parametrize("value", [None, True, {}])
def test_a_field_that_is_not_supported_yet_is_refused_by_name(field: str, value: object) -> None:
    """Whatever it holds: one that was ignored would be a lie."""
    assert refusal({**PROMPT, field: value}) == f"{field}: not supported yet; leave it out"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ("a\ud800", "prompt"),
        ({"prompt": "\udfff"}, "prompt"),
        ({**PROMPT, "system": "\ud800"}, "system"),
        ({**PROMPT, "chain": "\ud800"}, "chain"),
        ({**PROMPT, "label": "\ud800"}, "label"),
        ({**PROMPT, "stop": ["a", "\ud800"]}, "stop.1"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages.0.content"),
        ({**PROMPT, "params": {"p": {"a": [{"b": "\ud800"}]}}}, "params.p.a.0.b"),
        ({**PROMPT, "params": {"p": {"\ud800": 1}}}, "params.p.?"),
        ({**PROMPT, "\ud800": 1}, "?"),
        ({**PROMPT, "unknown": "\ud800"}, "unknown"),
        ({**PROMPT, "response_schema": {"title": "\ud800"}}, "response_schema.title"),
        ({**PROMPT, "images": ["\ud800"]}, "images.0"),
        ({**PROMPT, "params": {"p\n\x1b[2J": {"a": "\ud800"}}}, "params.p??[2J.a"),
        ({**PROMPT, "params": {"k" * 100: {"a": "\ud800"}}}, "params." + "k" * 53),
    ],
)
def test_a_lone_surrogate_is_refused_wherever_it_stands(fields: object, place: str) -> None:
    """No host and no Redis takes half a character. The place once came with the caller's own line breaks in it."""
    assert refusal(fields) == f"{place}: {SURROGATE}"


def test_a_whole_character_beyond_the_first_plane_is_text() -> None:
    """JSON writes it as two halves."""
    assert parse(json.loads(r'{"prompt": "\ud83d\ude00"}')).prompt == "😀"


NESTED: Any = 1
for _ in range(2000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), {1, 2}, b"bytes", object(), 10**5000, NESTED, json.loads('{"a": NaN}')],
    ids=["nan", "infinity", "set", "bytes", "object", "digits", "nested", "nan of JSON"],
)
def test_params_are_what_json_can_hold(value: object) -> None:
    """NaN went on as null and a set as a list; a number of 5000 digits was taken, and no worker could read it."""
    assert refusal({**PROMPT, "params": {"p": {"a": value}}}) == "params: only what JSON can hold"


def test_a_seed_is_a_number_that_every_host_can_hold() -> None:
    """One of 5000 digits was taken, and no worker could read the record."""
    assert parse({**PROMPT, "seed": 2**63 - 1}).seed == 2**63 - 1
    assert refusal({**PROMPT, "seed": 10**5000}) == "seed: should be less than 9223372036854775808"


def test_a_request_over_the_limit_is_refused_with_both_sizes() -> None:
    """Bytes of UTF-8 as JSON, not characters."""
    fits = len('{"prompt":""}')
    assert parse("x" * 87, max_bytes=100).prompt == "x" * 87
    assert fits + 87 == 100
    line = "the request is 101 bytes long; at most 100 are taken (max_request_bytes)"
    assert refusal("x" * 88, max_bytes=100) == refusal("é" * 44, max_bytes=100) == line
    assert refusal("x" * 4_000_000).startswith("the request is 4,000,013 bytes long; at most 4,000,000 are taken")


def test_a_long_key_above_many_values_is_checked_in_no_time() -> None:
    """The place of each value was written out on the way: 15 s for one request of 1.2 MB."""
    began = time.process_time()
    parse({**PROMPT, "params": {"p": {"k" * 1_000_000: {str(number): 1 for number in range(20_000)}}}})
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "fields",
    [
        {**PROMPT, "deadline": "CANARY"},
        {**PROMPT, "chain": ["CANARY"]},
        {**PROMPT, "label": "CANARY" * 100},
        {**PROMPT, "reasoning": "CANARY"},
        {**PROMPT, "params": "CANARY"},
        {**PROMPT, "params": {"p": {"a": {"CANARY"}}}},
        {**PROMPT, "params": {"p": "CANARY"}},
        {**PROMPT, "stream": "CANARY"},
        {**PROMPT, "images": ["CANARY"]},
        {**PROMPT, "images": "CANARY"},
        {**PROMPT, "images": [{"CANARY": "CANARY"}]},
        {**PROMPT, "response_schema": "CANARY"},
        {**PROMPT, "response_schema": {"type": "CANARY"}},
        {**PROMPT, "response_schema": {"$ref": "CANARY"}},
        {**PROMPT, "response_schema": {"pattern": "(CANARY"}},
        {**PROMPT, "response_schema": {"properties": {"a CANARY": {"type": "CANARY"}}}},
        {**PROMPT, "unknown": "CANARY"},
        {"prompt": ["CANARY"]},
        {"prompt": "CANARY\ud800"},
        {"prompt": "CANARY", "messages": [{"role": "user", "content": "CANARY"}]},
        {"messages": "CANARY"},
        {"messages": [{"role": "CANARY", "content": "CANARY"}]},
        {"messages": [{"content": "CANARY"}]},
        {"messages": [{"role": "user", "content": {"text": "CANARY"}}]},
        ["CANARY"],
        {"system": "CANARY"},
    ],
)
def test_a_refusal_never_quotes_the_callers_text(fields: object) -> None:
    """It is logged by whoever called, and the text is their customer's."""
    with pytest.raises(Invalid) as caught:
        parse(fields)
    assert "CANARY" not in f"{caught.value} {caught.value!r} {caught.value.args}"
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["a\nb\x1b[31m" * 50, "\u202e", "x" * 1000, "our secret merger"])
def test_a_callers_own_key_is_shown_short_and_printable(key: str) -> None:
    """A typo must be seen; a terminal must not obey it, and a prompt that was sent as a key is not quoted."""
    shown = refusal({**PROMPT, key: 1}).partition(": not a field")[0]
    assert shown == "a name with other characters"


def test_a_plain_text_is_a_prompt() -> None:
    """As in `ask.delay("Why?")`."""
    assert parse("Why?") == parse(PROMPT)
    assert parse("Why?").conversation() == [{"role": "user", "content": "Why?"}]


def test_the_system_text_goes_before_the_messages() -> None:
    """Also before one that the messages begin with."""
    messages = [{"role": "system", "content": "b"}, {"role": "user", "content": "c"}]
    assert parse({"system": "a", "messages": messages}).conversation() == [
        {"role": "system", "content": "a"},
        *messages,
    ]
    assert parse({"system": "a", "prompt": "b"}).conversation()[0] == {"role": "system", "content": "a"}


def held(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        inner | st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3)
    )


JSON = held(held(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters())))
NAMES = st.sampled_from([*Request.model_fields, *sorted(NOT_YET)])
MESSAGE = st.dictionaries(st.sampled_from(["role", "content", "x"]), st.sampled_from(["system", "user", "Why?"]) | JSON)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(JSON | st.dictionaries(NAMES, JSON | st.just("Why?") | st.lists(MESSAGE, max_size=3), max_size=5))
def test_any_json_is_a_request_or_is_refused(fields: object) -> None:
    """Nothing else is ever raised, and what is taken is read again by the worker as it was."""
    try:
        request = parse(fields)
    except Invalid:
        return
    stored = request.model_dump_json(exclude_defaults=True)
    assert parse(json.loads(stored)) == request
    assert all(message["content"].encode() is not None for message in request.conversation())
