"""One readable log of all children: what a person on duty needs of their lines, each under its short name."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType

import click

_CELERY = re.compile(r"\[[\d-]+ [\d:,]+: (?P<level>[A-Z]+)/[^\]]*\] (?P<text>.*)")
_TORNADO = re.compile(r"\[(?P<level>[DIWEC]) \d+ [\d:]+ [^\]]*\] (?P<text>.*)")
_LEVELS = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "C": "CRITICAL"}
_ERRORS = frozenset({"ERROR", "CRITICAL"})
_LAST_WORDS_S = 10.0
_COLOURS = ("cyan", "magenta", "blue", "green")

_NOISE = re.compile(
    r"Connected to |mingle: |\S+@\S+ ready\.$|Task \S+\[[^\]]+\] (received|ignored)$|Inspect method \w+ failed"
)
"""What Celery and Flower say of themselves; Flower looks for workers that may still be on their way."""

_PLAINER: Mapping[re.Pattern[str], str] = MappingProxyType(
    {
        re.compile(r"Task \S+\[(\S+)\] succeeded in \S+: (.*)"): r"job \1 answered: \2",
        re.compile(r"Task \S+\[(\S+)\] raised expected: \w+\((?P<quote>['\"])(.*)(?P=quote)\)"): r"job \1 \3",
    }
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a child. Without a level it is no log line: a banner, a traceback, the last words of a crash."""

    level: str
    text: str

    @property
    def is_shown(self) -> bool:
        return self.level not in {"", "DEBUG"} and not _NOISE.match(self.text)


class LastWords:
    """What a child said that may be why it died: an error it logged, else the last line that was no log line.

    Of a traceback that is the end; what follows a logged error belongs to it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard, self._text, self._is_logged = 0.0, "", False

    def hear(self, line: Line) -> None:
        is_error = line.level in _ERRORS
        is_plain = not line.level and bool(line.text) and not line.text[0].isspace()
        if is_error or (is_plain and not self._is_logged):
            self._heard, self._text = self._clock(), line.text
        if line.level:
            self._is_logged = is_error

    @property
    def text(self) -> str:
        """Empty when there are none, or when it lived on after them."""
        return self._text if self._clock() - self._heard < _LAST_WORDS_S else ""


def read(raw: bytes) -> Line:
    """A line as Celery or Flower wrote it, in plainer words where there are such."""
    text = raw.decode(errors="replace").rstrip()
    if found := _CELERY.match(text):
        said = found["text"]
        for pattern, plainer in _PLAINER.items():
            said = pattern.sub(plainer, said)
        return Line(found["level"], said)
    if found := _TORNADO.match(text):
        level = _LEVELS[found["level"]]
        # What Flower tells of itself is nothing to act on; what it warns of is.
        return Line("DEBUG" if level == "INFO" else level, found["text"])
    return Line("", text)


class Log:
    """Writes to stdout. Nobody reading it any more, or a full disk, ends no worker: the lines are lost then."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._width = max(map(len, self._names))
        self._colours = dict(zip(self._names, cycle(_COLOURS), strict=False)) if _is_coloured() else {}

    def say(self, name: str, text: str, level: str = "INFO") -> None:
        when = time.strftime("%H:%M:%S")
        shown = name.ljust(self._width)
        if colour := self._colours.get(name):
            shown = click.style(shown, fg=colour)
        mark = "" if level == "INFO" else f"{level}: "
        line = f"{when} {shown}  {mark}{text}\n".encode(errors="backslashreplace")
        try:
            while line and sys.stdout is not None:
                line = line[os.write(sys.stdout.fileno(), line) :]
        except OSError:
            return


def _is_coloured() -> bool:
    return "NO_COLOR" not in os.environ and sys.stdout is not None and sys.stdout.isatty()
