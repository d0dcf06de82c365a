"""`staffel check` says everything, and its exit code says whether the file can be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staffel import cli

STAGE = "[stages.a]\nprovider = 'scripted'\n{}\n[chains.default]\nstages = ['a']\n{}\n"


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAFFEL_CONFIG", str(tmp_path / "staffel.toml"))


def written(tmp_path: Path, stage: str = "", chain: str = "") -> str:
    (tmp_path / "staffel.toml").write_text(STAGE.format(stage, chain))
    return str(tmp_path / "staffel.toml")


def test_a_note_is_a_line_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A window shorter than a call is somebody's choice, if an odd one."""
    written(tmp_path)
    assert cli.run(["check"]) == 0
    out, err = capsys.readouterr()
    (note,) = [line for line in out.splitlines() if line.startswith("  note:")]
    assert note.startswith("  note: stages.a.breaker.window: 10 s, but a call may take 60 s (timeout)")
    assert err == ""


def test_a_budget_without_a_price_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody would know when it is used up."""
    path = written(tmp_path, "usd_per_day = 1", "usd_per_day = 2")
    assert cli.run(["check"]) == 2
    out, err = capsys.readouterr()
    sentence = "no price is known for scripted at the address of stages.a; "
    sentence += "write price = { input = ..., output = ... } there"
    lines = [f"  {key}.usd_per_day: {sentence}" for key in ("stages.a", "chains.default")]
    assert (out, err.splitlines()) == ("", [f"{path} cannot be used:", *lines])


def test_a_budget_without_a_price_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As every other mistake."""
    written(tmp_path, "usd_per_day = 1")
    assert cli.run(["check", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["sound"], [row["key"] for row in found["problems"]]) == (False, ["stages.a.usd_per_day"])


@pytest.mark.parametrize("stage", ["price = { input = 1, output = 2 }", "local = true"])
def test_a_budget_with_a_price_is_sound(tmp_path: Path, stage: str) -> None:
    """Its own, or none to pay."""
    written(tmp_path, f"usd_per_day = 1\n{stage}", "usd_per_day = 2")
    assert cli.run(["check"]) == 0
