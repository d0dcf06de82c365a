"""A file to read, and an environment that holds nothing of whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from config.file import Read, load
from config.problems import ConfigError

Reading = Callable[..., Read]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("STAFFEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    """Read this text as the file; the keyword arguments are the environment in which keys are looked up."""

    def reading(text: str, **environ: str) -> Read:
        path = tmp_path / "staffel.toml"
        path.write_text(text)
        return load(path, {}, environ)

    return reading


@pytest.fixture
def problems(read: Reading) -> Callable[..., dict[str, str]]:
    """What is wrong with this text: the key's path to the sentence."""

    def finding(text: str, **environ: str) -> dict[str, str]:
        with pytest.raises(ConfigError) as caught:
            read(text, **environ)
        found = {problem.path: problem.text for problem in caught.value.problems}
        assert len(found) == len(caught.value.problems), "one sentence a key"
        return found

    return finding
