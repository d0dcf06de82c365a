"""What a new job's record is written from."""

from __future__ import annotations

from typing import Any

import pytest

from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import parse
from staffel_wire.submit import arguments, tokens_in

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
    """Empty where the stage alone sets the limit; both stand right before the time, which is the last."""
    entry, catalogue = Entry(("a",), "cloud", 30), Catalogue({})
    assert arguments(parse({"prompt": "Why?"}), entry, catalogue, "")[-3:] == ["1", "", ""]
    assert arguments(parse({"prompt": "Why?", "max_output_tokens": 50}), entry, catalogue, "")[-3:] == ["1", "50", ""]
