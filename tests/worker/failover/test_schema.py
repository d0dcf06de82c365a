"""An answer is held against its schema by ourselves, and neither of them can do harm."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from worker.failover.schema import meets

NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("text", "schema", "valid"),
    [
        ("3", NUMBER, True),
        (" 3\n", NUMBER, True),
        ("\u00a03\u3000", NUMBER, True),
        ('"3"', NUMBER, False),
        ("", NUMBER, False),
        ("3 4", NUMBER, False),
        ("NaN", NUMBER, False),
        ("-Infinity", {}, False),
        ('{"a": NaN}', {}, False),
        ("9" * 5000, NUMBER, False),
        ("1e999", NUMBER, False),
        ('"\\ud800"', {"type": "string"}, False),
        ("[" * 100_000, {}, False),
        ("[" * 500 + "]" * 500, {"items": {"$ref": "#"}}, True),
        ("null", {}, True),
        ("3", {"type": "objct"}, False),
        ("3", {"$ref": "#/nowhere"}, False),
        ('{"a": {"b": 3}}', {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"required": ["b"]}}}, True),
        ('{"a": {"c": 3}}', {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"required": ["b"]}}}, False),
        ("[[[3]]]", {"anyOf": [{"type": "number"}, {"type": "array", "items": {"$ref": "#"}}]}, True),
    ],
)  # fmt: skip
def test_only_json_that_is_valid_meets_a_schema(text: str, schema: dict[str, Any], valid: bool) -> None:
    """Python's `NaN` is no JSON. Whatever cannot be checked is not valid, and nothing raises."""
    assert meets(text, schema) is valid


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "^(a|b|ab)*c$", "(.*a){20}$"])
def test_a_pattern_takes_no_longer_than_its_text(pattern: str) -> None:
    """A loop in a worker process is shared by all its calls: `(a+)+$` may not stop it."""
    began = time.process_time()
    assert meets(f'"{"a" * 1_000_000}!"', {"pattern": pattern}) is False
    assert time.process_time() - began < 2


@pytest.mark.parametrize("pattern", ["(?=a)(a+)+$", r"(a+)\1$"])
def test_a_pattern_that_has_to_go_back_is_none(pattern: str) -> None:
    """`(?=a)(a+)+$` took 22 s for a text of 100 kB with a limit of 100,000 steps."""
    assert meets('"aa"', {"pattern": pattern}) is False


def test_a_reference_fetches_nothing(tmp_path: Path) -> None:
    """A schema is a stranger's: it can make this house read neither a file nor an address."""
    held = tmp_path / "held.json"
    held.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asked: list[bool] = []
        listening.settimeout(1)

        def accept() -> None:
            try:
                listening.accept()
                asked.append(True)
            except TimeoutError:
                pass

        thread = threading.Thread(target=accept)
        thread.start()
        for url in (f"http://127.0.0.1:{listening.getsockname()[1]}/x", held.as_uri()):
            assert meets("3", {"$ref": url}) is False
            assert meets("3", {"$schema": url}) is False
        thread.join()
    assert asked == []
