"""The Lua beside this file, each script with what it uses in front."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "lua"
_USES = re.compile(r"^-- Uses (?P<names>[a-z_, ]+)\.$", re.MULTILINE)


@cache
def source(name: str, folder: Path = HERE) -> str:
    """The whole text of one script: `common`, what its line `-- Uses gates, leases.` names, and itself."""
    text = (folder / f"{name}.lua").read_text()
    used = _USES.search(text)
    names = ["common", *(used["names"].split(", ") if used else ())]
    return "".join(_part(part, folder) for part in names) + text


def _part(name: str, folder: Path) -> str:
    beside = folder / f"{name}.lua"
    return (beside if beside.exists() else HERE / f"{name}.lua").read_text()
