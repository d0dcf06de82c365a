"""`staffel check` asks the hosts, says what to type, and waits for nobody."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staffel import cli
from staffel.commands import check_hosts
from tests.worker.ollama_house import House, house
from worker.providers import ollama_host

STAGE = "[stages.{}]\nprovider = 'ollama'\nbase_url = '{}'\nmodel = '{}'\ntimeout = 5\n{}\n"
Typed = Callable[..., tuple[list[dict[str, str]], list[str]]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """The notes about stage `local` at a host that is like this, and the stages whose hosts are away."""
    file = tmp_path / "staffel.toml"
    monkeypatch.setenv("STAFFEL_CONFIG", str(file))

    async def typed(fields: dict[str, Any], stage: Callable[[str], str], options: list[str]) -> str:
        async with house(**fields) as found:
            file.write_text(f"{stage(found.url)}[chains.default]\nstages = ['local']\n")
            assert await asyncio.to_thread(cli.run, ["check", *options]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    def checked(
        keys: str = "", path: str = "", model: str = "m", **fields: Any
    ) -> tuple[list[dict[str, str]], list[str]]:
        def stage(url: str) -> str:
            return STAGE.format("local", f"{url}{path}", model, keys)

        found = json.loads(asyncio.run(typed(fields, stage, ["--json"])))
        lines = asyncio.run(typed(fields, stage, [])).splitlines()
        said = [line.removeprefix("  note: ") for line in lines if line.startswith("  note: ")]
        assert said == [f"{note['key']}: {note['problem']}" for note in found["notes"]]
        return found["notes"], found["away"]

    return checked


def test_a_host_that_has_it_all_is_no_matter(check: Typed) -> None:
    """The model is there under any of its names, and its window is not too long."""
    assert check("num_ctx = 8192") == ([], [])


def test_a_model_that_is_not_pulled_is_told_with_what_to_type(check: Typed) -> None:
    """The first call would find it out, and close the stage for a quarter of an hour."""
    text = "m is not on its host; type there: ollama pull m"
    assert check(pulled=("n:latest", "m:8b")) == ([{"key": "stages.local.model", "problem": text}], [])


def test_a_window_beyond_the_models_is_told(check: Typed) -> None:
    """It is cut in silence, and nobody knows why long prompts do not fit."""
    text = "8193, but m was trained for 8192, and the host takes that without a word; write num_ctx = 8192"
    assert check("num_ctx = 8193") == ([{"key": "stages.local.num_ctx", "problem": text}], [])


@pytest.mark.parametrize(
    ("stage", "capabilities", "expected"),
    [
        ("takes = { images = true }", ("completion",),
         {"takes.images": "m cannot; write takes = { images = false }"}),
        ("takes = { reasoning = true }", ("completion", "vision"),
         {"takes.reasoning": "m cannot; write takes = { reasoning = false }"}),
        ("takes = { images = true, reasoning = true }", ("completion", "vision", "thinking"), {}),
        ("takes = { images = false }", ("completion",), {}),
        ("", ("completion",), {}),
        ("takes = { images = true }", (), {}),
        ("takes = { images = true }", ("embedding",),
         {"model": "m gives no answers (it can: embedding); name another"}),
    ],
)  # fmt: skip
def test_what_a_stage_is_said_to_take_and_its_model_cannot_is_told(
    check: Typed, stage: str, capabilities: tuple[str, ...], expected: dict[str, str]
) -> None:
    """Only what somebody wrote: what is refused costs one call and is known from then on. An old host does not say."""
    notes = [{"key": f"stages.local.{key}", "problem": text} for key, text in expected.items()]
    assert check(stage, capabilities=capabilities) == (notes, [])


def test_an_address_that_is_not_ollamas_is_told(check: Typed) -> None:
    """With the path of its OpenAI-compatible twin, as people copy it."""
    text = "the host does not know Ollama's API (status 404: 404 page not found); "
    text += "write the address before /api, with no /v1"
    assert check(path="/v1") == ([{"key": "stages.local.base_url", "problem": text}], [])


def test_a_model_of_ollamas_cloud_is_not_looked_for(check: Typed) -> None:
    """It is on nobody's disk, and its window is its own."""
    assert check("num_ctx = 99999", model="m:20b-cloud") == ([], [])
    (note,), _ = check(model="m:20b")
    assert note["key"] == "stages.local.model"


def test_hosts_are_asked_side_by_side_and_nobody_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten hosts that say nothing take as long as one."""
    monkeypatch.setattr(ollama_host, "LOOK_S", 0.5)
    file = tmp_path / "staffel.toml"
    monkeypatch.setenv("STAFFEL_CONFIG", str(file))
    names = [f"s{number}" for number in range(10)]

    async def typed(found: House) -> float:
        text = "".join(STAGE.format(name, found.url, "m", "") for name in names)
        gone = STAGE.format("gone", "http://127.0.0.1:9", "m", "")
        file.write_text(f"{text}{gone}[chains.default]\nstages = {[*names, 'gone']}\n")
        began = time.monotonic()
        assert await asyncio.to_thread(cli.run, ["check", "--json"]) == 0
        return time.monotonic() - began

    async def checking() -> float:
        async with house(hangs=True) as found:
            return await typed(found)

    assert asyncio.run(checking()) < len(names) * 0.5
    found = json.loads(capsys.readouterr().out)
    text = "the host does not say which models it has: no answer within 0.5 s"
    assert found["notes"] == [{"key": f"stages.{name}.base_url", "problem": text} for name in names]
    assert found["away"] == ["gone"]
    assert check_hosts.looked_at([]) == ([], [])
