"""Variables that go on top of the file, and which of them a mistake came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from config.problems import Problem


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The two tables as one, the second on top; a variable's `_` also finds a name's `-`."""
    result = dict(under)
    for key, value in over.items():
        name = _spelled(key, under)
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def blamed(problem: Problem, file: Mapping[str, Any], overrides: Mapping[str, Any]) -> Problem:
    """The problem with the variable that it came from, where the file has no part in it."""
    below: Any = file
    here: Any = overrides
    variable = "STAFFEL"
    for part in problem.path.split("."):
        key = next((key for key in here if part in {key, _spelled(key, below)}), None)
        if key is None:
            return problem
        below, here = (below.get(part) if isinstance(below, Mapping) else None), here[key]
        variable += f"_{key}" if variable == "STAFFEL" else f"__{key}"
        if not isinstance(here, Mapping):
            break
    if isinstance(here, Mapping):
        if below is not None:
            return problem
        variable += "".join(f"__{key}" for key in _first_path(here))
    return replace(problem, text=f"{problem.text} (set by {variable.upper()})")


def _spelled(key: str, names: object) -> str:
    """The name that a variable's part means."""
    if not isinstance(names, Mapping) or key in names:
        return key
    return next((name for name in names if name.replace("-", "_").lower() == key), key)


def _first_path(table: Mapping[str, Any]) -> list[str]:
    for key, value in table.items():
        return [key, *(_first_path(value) if isinstance(value, Mapping) else [])]
    return []
