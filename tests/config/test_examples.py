"""The files that people start from load as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import fields
from datetime import date
from pathlib import Path

import pytest

import config
from config.file import Read, load
from config.limits import Breaker, Limits
from config.stages import StageTable
from worker.prices import unpriced

SHIPPED = Path(config.__file__).with_name("staffel.toml")

DESIGN = """
[stages.primary]
provider = "openai"
base_url = "https://api.openai.com/v1"
model = "gpt-4.1"
api_key_env = "OPENAI_API_KEY"
timeout = 20
connect_timeout = 3
first_token_timeout = 10
idle_timeout = 5
max_in_flight = 100
requests_per_minute = 500
tokens_per_minute = 200_000
price = { input = 2.00, output = 8.00 }
retires_on = 2027-04-14
params = { }
limit_group = "openai-account"
[stages.primary.breaker]
failure_ratio = 0.5
window = 10
min_calls = 5
open_for = 30

[stages.backup]
provider = "openai"
base_url = "https://api.example.com/v1"
model = "other"
api_key_env = "BACKUP_API_KEY"

[stages.local]
provider = "ollama"
base_url = "http://127.0.0.1:11434"
model = "qwen3-coder:30b"
lane = "ollama"
local = true
num_ctx = 8192
keep_alive = "30m"
timeout = 60
reserve = 10

[chains.default]
stages = ["primary", "backup", "local"]
deadline = 90
"""


def _uncommented() -> str:
    lines = SHIPPED.read_text().splitlines()
    return "\n".join(line.removeprefix("# ") if " = " in line or line.startswith("# [") else line for line in lines)


def test_the_file_that_init_writes_is_sound() -> None:
    """As it is written, with no variable set."""
    found = load(SHIPPED, {}, {})
    assert (found.chains["default"].plan, found.notes) == (("local",), ())


def test_the_file_that_init_writes_is_sound_with_its_comments_taken_out(tmp_path: Path) -> None:
    """Whoever takes the # away before a line of it gets a key that exists, with a value that is right."""
    path = tmp_path / "staffel.toml"
    path.write_text(_uncommented().replace('stages = ["local"]', 'stages = ["primary", "local"]'))
    found = load(path, {}, {"OPENAI_API_KEY": "k"})
    assert (found.chains["default"].plan, found.notes) == (("primary", "local"), ())
    assert not unpriced(found.stages, found.chains)


def test_the_file_that_init_writes_explains_every_key_of_when_a_stage_is_asked() -> None:
    """With the value that holds anyway, where there is one; only a window is written, as long as some calls."""
    tables = tomllib.loads(_uncommented())
    local, primary, chain = tables["stages"]["local"], tables["stages"]["primary"], tables["chains"]["default"]
    assert set(local["breaker"]) == set(Breaker.model_fields)
    defaults = {key: getattr(Breaker(), key) for key in Breaker.model_fields if key not in {"window", "slow_call"}}
    assert {key: local["breaker"][key] for key in defaults} == defaults
    assert {field.name for field in fields(Limits)} | {"limit_group", "usd_per_day"} <= set(primary)
    assert "usd_per_day" in chain


def test_the_written_example_of_every_key_loads(read: Callable[..., Read]) -> None:
    """The defaults that the example states are the ones that hold, and an Ollama stage has its lane unasked."""
    found = read(DESIGN, OPENAI_API_KEY="k", BACKUP_API_KEY="k")
    primary, local = found.stages["primary"], found.stages["local"]
    assert found.chains["default"].plan == ("primary", "backup", "local")
    assert (primary.timeout, primary.first_token_timeout, primary.idle_timeout) == (20, 10, 5)
    assert (primary.lane, local.lane, local.local, local.reserve) == ("cloud", "ollama", True, 10)
    assert primary.price is not None
    assert (primary.price.input, primary.price.output) == (2, 8)
    table = StageTable(provider="openai", breaker={}, retires_on="2027-04-14")  # type: ignore[arg-type]
    assert table.breaker is not None
    assert (table.breaker.failure_ratio, table.breaker.window, table.breaker.min_calls) == (0.5, 10, 5)
    assert (table.breaker.open_for, table.connect_timeout, table.retires_on) == (30, 3, date(2027, 4, 14))


def test_the_written_example_has_the_notes_that_it_deserves(read: Callable[..., Read]) -> None:
    """Its windows are shorter than its calls, and its date is not looked at; what it says of limits holds."""
    notes = read(DESIGN, OPENAI_API_KEY="k", BACKUP_API_KEY="k").notes
    windows = {f"stages.{name}.breaker.window" for name in ("primary", "backup", "local")}
    assert {note.path for note in notes} == {"stages.primary.retires_on", *windows}


def test_what_a_stage_takes_is_all_but_what_the_file_takes_away() -> None:
    """An omitted flag changes nothing; a version may be written as the date that it looks like."""
    table = StageTable(provider="anthropic", takes={"temperature": False}, api_version=date(2026, 10, 21))  # type: ignore[arg-type]
    assert (table.takes.temperature, table.takes.images, table.takes.response_schema) == (False, True, True)
    assert (table.api_version, table.stream, table.max_reply_bytes) == ("2026-10-21", True, 8_000_000)


@pytest.mark.parametrize(
    ("provider", "version"), [("anthropic", "2026-10-21"), ("gemini", "v1"), ("openai", "2025-01-01-preview")]
)
def test_a_version_of_the_providers_is_taken(read: Callable[..., Read], provider: str, version: str) -> None:
    """It goes to the host as it is."""
    stage = f'provider = "{provider}"\nbase_url = "https://h/v1"\nmodel = "m"\napi_version = "{version}"'
    found = read(f'[stages.a]\n{stage}\n[chains.default]\nstages = ["a"]')
    assert found.stages["a"].api_version == version
