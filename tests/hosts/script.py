"""The little language of behaviours: `status:500,ok:text=Hello` becomes two steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_COUNTS = frozenset({"input", "output"})
_ANSWER = frozenset({"text", "echo", "every", "load", "finish", "type"}) | _COUNTS
_ERROR = frozenset({"status", "code", "type", "message", "param", "retry-delay", "quota", "quote"})
_REFUSAL = _ERROR | {"list", "html", "body", "drip", "every", "mb"}

#: Which parameters each behaviour takes, besides `delay` and headers; what they do stands in the package's docstring.
KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "ok": _ANSWER,
        "thinking": _ANSWER,
        "length": _ANSWER,
        "length-empty": frozenset({"thinking"}),
        "empty": frozenset(),
        "repeat": _ANSWER - {"echo"} | {"times"},
        "no-end": _ANSWER,
        "no-done": _ANSWER - {"load", "type"},
        "late-error": _ANSWER - {"load"} | _ERROR | {"past"},
        "late-cut": _ANSWER - {"load", "type"} | {"past", "reset"},
        "status": _REFUSAL,
        "quote": _REFUSAL,
        "error-200": _ERROR | {"list"},
        "error-in-stream": _ERROR | {"after"},
        "null-choices": _COUNTS | {"block"},
        "empty-candidates": _COUNTS | {"block"},
        "redirect": frozenset({"to", "status"}),
        "silent": frozenset(),
        "head-only": frozenset(),
        "head-drip": frozenset({"every"}),
        "stall": frozenset({"after"}),
        "drip": frozenset({"every"}),
        "whitespace": frozenset({"every"}),
        "role-only": frozenset({"every"}),
        "blanks": frozenset({"every"}),
        "cut": frozenset({"after", "reset"}),
        "cut-head": frozenset({"reset"}),
        "short": _ANSWER - {"every", "load", "type"},
        "bad-chunks": frozenset({"after"}),
        "not-http": frozenset(),
        "unreadable": frozenset({"garbage", "shape"}),
        "big": frozenset({"mb", "line"}),
        "gzip": _ANSWER - {"every", "load", "type"} | {"mb", "garbage"},
        "long-header": _ANSWER | {"kb"},
    }
)
_NUMBERS = frozenset({"delay", "every", "load", "after", "mb", "kb", "times", "input", "output", "status"})
_HEADER = re.compile(r"(retry-after|x-)[a-z-]*")


@dataclass(frozen=True, slots=True)
class Step:
    """What one call meets; a flag is a parameter with an empty value."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def has(self, parameter: str) -> bool:
        return parameter in self.parameters

    def text(self, parameter: str, default: str) -> str:
        return self.parameters.get(parameter, default)

    def number(self, parameter: str, default: float) -> float:
        return float(self.parameters.get(parameter, default))

    def count(self, parameter: str, default: int) -> int:
        return int(self.number(parameter, default))

    def headers(self) -> dict[str, str]:
        """The parameters that are response headers."""
        return {name: value for name, value in self.parameters.items() if _HEADER.fullmatch(name)}


def literal(text: str) -> str:
    """The text as a parameter's value, so that its commas and colons mean nothing."""
    return re.sub(r"([\\,:])", r"\\\1", text)


def read_script(text: str) -> tuple[Step, ...]:
    """Raises ValueError that says what is wrong and what there is instead."""
    return tuple(_read_step(part) for part in _split(text, ","))


def _read_step(text: str) -> Step:
    name, *parts = (_plain(part) for part in _split(text.lstrip(), ":"))
    if name not in KNOWN:
        raise ValueError(f"no behaviour {name!r}; there are: {', '.join(KNOWN)}")
    parameters = dict(_read_parameter(name, part) for part in parts)
    if name == "status" and "status" not in parameters:
        raise ValueError("status needs a number: status:500")
    return Step(name, parameters)


def _read_parameter(behaviour: str, text: str) -> tuple[str, str]:
    key, _, value = ("status", "=", text) if text.isdigit() else text.partition("=")
    allowed = KNOWN[behaviour] | {"delay"}
    if key not in allowed and not _HEADER.fullmatch(key):
        raise ValueError(f"{behaviour} has no parameter {key!r}; it takes: {', '.join(sorted(allowed))}")
    if key in _NUMBERS and not re.fullmatch(r"\d+(\.\d+)?", value):
        raise ValueError(f"{behaviour}:{key} needs a number, not {value!r}")
    return key, value


def _split(text: str, mark: str) -> list[str]:
    parts = [""]
    for token in re.findall(r"\\.|.", text, flags=re.DOTALL):
        if token == mark:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
