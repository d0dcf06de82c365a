"""The Lua beside this file, each script with what all of them share in front."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "lua"


@cache
def source(name: str, folder: Path = HERE) -> str:
    """The whole text of one script."""
    return (HERE / "common.lua").read_text() + (folder / f"{name}.lua").read_text()
