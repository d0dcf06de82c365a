"""Degenerate output: a model that says one thing again and again until it is stopped.

Reports: ollama#5641, #12142 (`GGGG`, `@@@@`), #18359 (`<unused50>`), #2577 (endless newlines after JSON).

The rule: an answer is degenerate if it ends in one unit of up to 700 characters, repeated with no change whatever until
the last character (what follows in 60 more, and blanks, does not matter), over at least

* 300 characters plus 8 units, where the unit is words or signs: `GGGG`, `<unk><unk>`, "the the the", `1. 1. 1.`, a
  sentence, a line, a paragraph;
* 1200 characters plus 40 units, where the unit is cells, as tables, matrices, lists to tick and forms repeat them;
* and, in both, a tenth of the answer's last 6000 characters, which are all that is looked at;

or if it ends in 300 blanks and newlines, of whatever kind, that are a tenth of the same.

So a word is repeated some 80 times, a sentence some 15 times, a paragraph of 500 characters 9 times, before it counts.
A line that differs in one digit, a refrain between verses and a ruler of 200 dashes are no repetition in this sense.
What cannot be told apart is a long repetition that was asked for ("write it a hundred times"): it counts as degenerate.
"""

from __future__ import annotations

import re

_LOOKED_AT = 6000
_SHARE = 10
_FREE, _TIMES = 300, 8
_FREE_OF_CELLS, _TIMES_OF_CELLS = 1200, 40

_AFTER = 60
"""Characters that may follow on a loop: a model that is stopped properly says goodbye."""

_WORD = re.compile(r"[^\W\d_]+")
_SEPARATOR = re.compile(r"[,;|\t\[\]]")


def is_degenerate(text: str) -> bool:
    """Whether this text ends in one unit repeated for too long; takes less than a millisecond however long it is."""
    tail = text[-_LOOKED_AT:]
    shown = tail.rstrip()
    if len(tail) - len(shown) >= max(_FREE, len(tail) // _SHARE):
        return True
    return _repeats(shown) or _repeats(shown[:-_AFTER].rstrip())


def _repeats(tail: str) -> bool:
    """Whether this text, which ends in no blank, ends in a loop."""
    least = len(tail) // _SHARE
    return any(
        _has_period(tail, period, max(least, _FREE + _TIMES * period))
        and _has_period(tail, period, max(least, _needed(tail[-period:])))
        for period in range(1, (len(tail) - _FREE) // _TIMES + 1)
    )


def _has_period(tail: str, period: int, length: int) -> bool:
    """Whether the last `length` characters are one unit of `period` characters, repeated."""
    return length <= len(tail) and tail[-length:-period] == tail[len(tail) - length + period :]


def _needed(unit: str) -> int:
    """How many characters this unit must cover."""
    if _is_cells(unit):
        return _FREE_OF_CELLS + _TIMES_OF_CELLS * len(unit)
    return _FREE + _TIMES * len(unit)


def _is_cells(unit: str) -> bool:
    """Whether equal copies of this unit make sense as data: digits, rows of a table, lines of a form.

    Words make it a sentence or a stutter, unless every one of them stands in a cell of its own, in a row of its own.
    """
    shown = "".join(unit.split())
    if all(character.isdigit() for character in shown):
        return True
    row = unit.rfind("\n") + 1
    words = _WORD.findall(unit[row:] + unit[:row])  # whole rows: the text may end in the middle of one
    separators, lines = len(_SEPARATOR.findall(unit)), unit.count("\n")
    if 2 * sum(map(len, words)) < len(shown):
        return separators + lines > 0
    return lines > 0 and separators > 0 and separators + lines >= len(words)
