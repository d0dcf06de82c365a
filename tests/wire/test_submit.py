"""What a new job's record is written from."""

from __future__ import annotations

from typing import Any

import pytest

from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import parse
from staffel_wire.submit import fields, submitting, tokens_in

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"prompt": "Why?"}, 1),
        ({"prompt": "Why??"}, 2),
        ({"prompt": "\N{EURO SIGN}" * 4}, 3),
        ({"prompt": "Why?", "system": "Be so brief."}, 4),
        ({"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]}, 2),
        ({"prompt": "Why?", "images": [PNG, PNG]}, 2001),
        ({"prompt": "Why?", "response_schema": {"type": "object"}}, 6),
    ],
)
def test_what_goes_in_is_estimated_by_its_length(fields: dict[str, Any], tokens: int) -> None:
    """Every text that a stage is sent, by its bytes, and the pictures by their number."""
    assert tokens_in(parse(fields)) == tokens


def test_what_comes_out_is_what_the_caller_allows() -> None:
    """Empty where the stage alone sets the limit."""
    entry = Entry(("a",), "cloud", 30)
    for most, told in ((None, ""), (50, "50")):
        given = {"prompt": "Why?"} if most is None else {"prompt": "Why?", "max_output_tokens": most}
        found = fields(parse(given), entry)
        assert (found["tokens_in"], found["tokens_out"]) == ("1", told)


def test_a_request_in_another_hurry_asks_the_same() -> None:
    """Under one idempotency key: it would be refused for asking something else."""

    def digest(**more: object) -> object:
        request = parse({"prompt": "Why?", "idempotency_key": "k", **more})
        return submitting("j", request, Entry(("a",), "cloud", 30), Catalogue({}), "")[1][9]

    assert digest(priority="batch", deadline=3) == digest()
    assert digest(seed=1) != digest()


def test_a_batch_job_enters_by_the_batch_queue() -> None:
    """And its record says that it is one, wherever it goes from there."""
    request = parse({"prompt": "Why?", "priority": "batch"})
    entry = Entry(("a",), "ollama.gpu2", 30, request.priority)
    names, _ = submitting("j", request, entry, Catalogue({}), "")
    assert names[2] == "ollama.gpu2.batch"
    assert (fields(request, entry)["lane"], fields(request, entry)["priority"]) == ("ollama.gpu2", "batch")
