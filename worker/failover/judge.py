"""What a reply is worth, and which field of a call a stage does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from worker.failover.attempt import Reason
from worker.failover.provider import Fault
from worker.failover.request import Request
from worker.failover.rules import RULES, Rule
from worker.failover.verdict import CONSEQUENCES, Consequences, Counts, FaultClass, Verdict

__all__ = [
    "CONSEQUENCES",
    "RULES",
    "Consequences",
    "Counts",
    "FaultClass",
    "Rule",
    "Verdict",
    "of_fault",
    "rejected_field",
    "rejected_whole",
]

_MOST = 2000
_QUOTED = re.compile(r"[\"'`]([\w.\[\]-]{1,120})[\"'`]|^([\w.\[\]-]{1,120}): ", re.MULTILINE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def of_fault(fault: Fault, protocol: str = "") -> Verdict:
    """The first rule that matches; the last one matches everything."""
    return next(rule.verdict for rule in RULES if rule.matches(fault, protocol))


def rejected_field(fault: Fault, optional: Mapping[str, Sequence[str]]) -> str | None:
    """The field of a call that the stage does not take; None if the host names none that the call can do without.

    `optional`: each such field, and the words for it. What the body itself points at counts first, then what it puts in
    quotes, then what it mentions; the longer word before the shorter one.
    """
    said = fault.words
    words = sorted(((word, name) for name, own in optional.items() for word in _all(name, own)), key=_longest)
    patterns = [(_pattern(word), name) for word, name in words]
    for named in (said.param, *_quoted(said.text[:_MOST])):
        steps = [re.sub(r"\[.*?\]", "", step) for step in named.split(".")]
        for pattern, name in patterns:
            if pattern.fullmatch(named) or any(pattern.fullmatch(step) for step in steps):
                return name
    for pattern, name in patterns:
        if re.search(rf"(?<![\w/-]){pattern.pattern}(?![\w/-]|:\w)", said.text[:_MOST], re.IGNORECASE):
            return name
    return _by_value(said.text[:_MOST], optional)


def rejected_whole(verdict: Verdict, request: Request) -> Verdict:
    """The verdict where no field is left that could be dropped: what was refused is needed, or is the stage's own."""
    needed = request.response_schema is not None or bool(request.images)
    return Verdict(Reason.CAPABILITY, FaultClass.NO_FIT) if needed else Verdict(verdict.reason, FaultClass.PERMANENT)


def _all(name: str, words: Sequence[str]) -> Iterator[str]:
    """The words for a field, and its own name: `generationConfig.seed` is spoken of as `seed` too."""
    path = name.partition("=")[0]
    yield from {*words, path, path.rpartition(".")[2]} - {""}


def _longest(word_and_name: tuple[str, str]) -> tuple[int, str]:
    word, name = word_and_name
    return -len(word), name


def _pattern(word: str) -> re.Pattern[str]:
    """The word in any of its spellings: `stop_sequences`, `stopSequences`, "stop sequences"."""
    parts = _PARTS.findall(word) or [word]
    return re.compile(r"[\s_.-]?".join(map(re.escape, parts)), re.IGNORECASE)


def _quoted(text: str) -> Iterator[str]:
    for found in _QUOTED.finditer(text):
        yield found[1] or found[2]


def _by_value(text: str, optional: Mapping[str, Sequence[str]]) -> str | None:
    """The field whose value the host quotes without a word for it: "'none' is not supported with this model"."""
    quoted = {word.lower() for word in _quoted(text)}
    for name in optional:
        _, bound, value = name.partition("=")
        if bound and value.strip('"').lower() in quoted:
            return name
    return None
