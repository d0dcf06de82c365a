"""What is wrong with a configuration, all of it at once, each under its key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator


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


_SENTENCES = (
    ("missing", "missing; it must be given"),
    ("bool_", "must be true or false"),
    ("float_", "must be a number"),
    ("int_", "must be a whole number"),
    ("string_type", 'must be text, in "quotes"'),
    ("list_", 'must be a list such as ["one", "two"]'),
    ("too_short", "must hold at least one"),
    ("dict_", "must be a table"),
    ("model_", "must be a table"),
    ("date_", "must be a date such as 2027-04-14"),
)
"""What to write, by the beginning of pydantic's name for the mistake; it says the others well enough."""


class Table(BaseModel):
    """A table of the file: no key but its own, and no switch where a value belongs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and kind is not bool:
            if isinstance(kind, type) and issubclass(kind, Table):
                raise ValueError("must be a table")
            raise ValueError("must be a value, not true or false")  # pydantic would read 1 or 0
        return value


def checked(model: type[BaseModel], table: object, path: str, beside: Iterable[str] = ()) -> tuple[Any, list[Problem]]:
    """The table as that model, or None and what is wrong with it; keys `beside` are read by somebody else."""
    if not isinstance(table, Mapping):
        return None, [Problem(path, "must be a table")]
    try:
        return model.model_validate(dict(table)), []
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return None, [_problem(model, path, item, list(beside)) for item in found]


def salvaged(model: type[BaseModel], table: object, path: str, problems: Iterable[Problem], **instead: str) -> Any:  # noqa: ANN401 - the model's own type
    """The table without the keys that are wrong, so that the rest of it is checked too; None where nothing is left."""
    if not isinstance(table, Mapping):
        return None
    wrong = {problem.path.removeprefix(f"{path}.").partition(".")[0] for problem in problems}
    sound = {key: value for key, value in table.items() if key not in wrong}
    return checked(model, {**instead, **sound}, path)[0]


def _problem(model: type[BaseModel], path: str, item: Any, beside: list[str]) -> Problem:  # noqa: ANN401 - pydantic's own error record
    where = ".".join([path, *(str(part) for part in item["loc"])]).lstrip(".")
    if item["type"] == "extra_forbidden":
        return Problem(where, _unknown(str(item["loc"][-1]), [*_keys(model, item["loc"][:-1]), *beside]))
    return Problem(where, sentence(item["type"], item["msg"]))


def sentence(kind: str, message: str) -> str:
    """What to write instead, for pydantic's name and words for a mistake."""
    known = next((text for start, text in _SENTENCES if kind.startswith(start)), None)
    text = known or message.removeprefix("Value error, ").replace("Input should be", "must be")
    return text[0].lower() + text[1:]


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
