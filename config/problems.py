"""What is wrong with a configuration, all of it at once, each under its key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the key's path, and what to write instead."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class ConfigError(Exception):
    """The configuration cannot be used; holds every problem found."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join([f"{source} cannot be used:", *(f"  {problem}" for problem in self.problems)]))


def checked(model: type[BaseModel], table: object, path: str) -> tuple[Any, list[Problem]]:
    """The table as that model, or None and what is wrong with it."""
    if not isinstance(table, Mapping):
        return None, [Problem(path, "must be a table")]
    try:
        return model.model_validate(dict(table)), []
    except ValidationError as error:
        return None, [_problem(model, path, item) for item in error.errors(include_url=False, include_input=False)]


def _problem(model: type[BaseModel], path: str, item: Any) -> Problem:  # noqa: ANN401 - pydantic's own error record
    where = ".".join([path, *(str(part) for part in item["loc"])])
    if item["type"] == "extra_forbidden":
        return Problem(where, _unknown(str(item["loc"][-1]), _keys(model, item["loc"][:-1])))
    if item["type"] == "missing":
        return Problem(where, "missing; it must be given")
    text = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return Problem(where, text[0].lower() + text[1:])


def _keys(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    for part in loc:
        inner = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        options = [inner, *getattr(inner, "__args__", ())]
        model = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), model)
    return list(model.model_fields)


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f"is no key here; did you mean {close[0]}?" if close else f"is no key here; there are {', '.join(known)}"


def no_such(name: str, known: Iterable[str]) -> str:
    """The sentence for a name that leads nowhere."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    return f"there is no {name!r}; " + (f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}")
