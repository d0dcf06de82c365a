"""What a reply is worth, and which field of a call a stage does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from worker.failover.provider import Fault
from worker.failover.rules import RULES
from worker.failover.sentences import START
from worker.failover.verdict import Verdict

_MOST = 2000
_STARTS = re.compile(START, re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"[\"'`]([\w.\[\]-]{1,120})[\"'`]|^([\w.\[\]-]{1,120}): ", re.MULTILINE)
_HOLDERS = re.compile(
    r"(?<![\w.\]/])(?:(?:body|GenerateContentRequest|generation_?config|options|request)\.(?=\w|$)|#/)+", re.IGNORECASE
)
"""What hosts put before the name of a field; none of it is a field itself."""
_PLACES = re.compile(
    r"\('body'((?:, (?:'[^']{0,120}'|\d{1,6}))+)\)"
    r"|unknown name [\"']([\w.$]{1,120})[\"'] at [\"']([^\"']{0,200})[\"']"
    r"|#?([\w/]{0,120}): extraneous key \[([\w.]{1,120})\]",
    re.IGNORECASE,
)
"""Where a host says what is wrong: pydantic's `loc` in a text, Gemini's place, JSON Schema's."""
_CONDITION = re.compile(
    r"\b(?:when|while|unless|if|until|without|both|either|together|along ?(?:with|side)|simultaneously|combin\w+"
    r"|only one|at the same time|mutually|conflict\w*|incompatible|(?:longer|shorter|more|less|fewer|greater) than"
    r"|at (?:most|least)|up to|exceed\w*|maximum|too (?:long|many|large))\b"
    r"|\b(?:with|for|using) (?:\w+ )?[\"'`]?(?:tools?|functions?|stream\w*|images?|reasoning\w*|thinking|json\w*"
    r"|response_?format|structured|logprobs)\b(?![\"'`]? models?\b)"
    r"|\b(?:support\w*|allowed|permitted|available|enabled|used|set) in (?:\w+ )?mode\b",
    re.IGNORECASE,
)
"""What makes a refusal one of a combination, a number or a length, and not of the field."""
_ADVICE = re.compile(
    r"(?:(?<=[.!?] )|^)(?:if|when) (?:you|this|the (?:problem|issue|error))\b[^.]*", re.IGNORECASE | re.MULTILINE
)
"""A sentence for whoever reads it: "If you believe that this is an error, ..."."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BEFORE = r"\b(?:unknown|unsupported|unrecognized|support(?:ed)?|one of)(?: [\w-]+){0,3}?:? "
_AFTER = (
    r"(?: [^\s\"'`:]{1,40}){0,2}? (?:(?:is|are) )?(?:(?:not|no longer|only) (?:\w+ )?"
    r"(?:support\w*|enabled|permitted|allowed)\b|unsupported|deprecated|invalid|mandatory)"
)


def of_fault(fault: Fault, protocol: str = "") -> Verdict:
    """The first rule that matches; the last one matches everything."""
    return next(rule.verdict for rule in RULES if rule.matches(fault, protocol))


def rejected_field(fault: Fault, optional: Mapping[str, Sequence[str]]) -> str | None:
    """The field of a call that the stage does not take; None if the host names none that the call can do without.

    `optional`: each such field, and the words for it. What the body itself points at counts first, then what it puts in
    quotes or before a colon, then what it names right beside the words that refuse it; the first of these before the
    next, the longer word before the shorter one. Anywhere else a word is only a word: "Please stop sending this". Of a
    path, only the whole or the first step counts: `tools[0].temperature` is no field of ours. Where the host points at
    a place that is none of ours, its prose is not searched for another one.
    """
    said = fault.words
    text = _HOLDERS.sub("", _STARTS.sub("", said.text[:_MOST]))
    param = _HOLDERS.sub("", f"{said.param}.").replace("/", ".").strip(".")
    words = sorted(((word, name) for name, own in optional.items() for word in _all(name, own)), key=_longest)
    patterns = [(_pattern(word), name) for word, name in words]
    pointed = [param] if param else list(_pointed(text))
    for named in pointed or _quoted(text):
        first = re.sub(r"\[.*?\]", "", named.partition(".")[0])
        for pattern, name in patterns:
            if pattern.fullmatch(named) or pattern.fullmatch(first):
                return name
    if pointed:
        return None
    beside = [(place, name) for pattern, name in patterns for place in _beside(pattern.pattern, text)]
    return min(beside, key=itemgetter(0))[1] if beside else _by_value(text, optional)


def holds_always(fault: Fault) -> bool:
    """Whether the stage refuses the field of every request: False where it depends on what else the request holds.

    "'temperature' is not supported when reasoning effort is not none" teaches nothing about requests that do not think.
    When in doubt it is False: that costs another call some day, and no field of a request that would have been served.
    """
    return _CONDITION.search(_ADVICE.sub("", fault.words.text[:_MOST])) is None


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


def _beside(word: str, text: str) -> Iterator[int]:
    """Where the word stands next to those that refuse it: "Unknown name seed", "seed is not supported"."""
    whole = rf"(?<![\w/.\]-])(?P<word>{word})(?![\w/-]|:\w)"
    for pattern in (rf"{_BEFORE}{whole}", rf"{whole}(?:\.\w+)*{_AFTER}"):
        if found := re.search(pattern, text, re.IGNORECASE):
            yield found.start("word")


def _quoted(text: str) -> Iterator[str]:
    for found in _QUOTED.finditer(text):
        yield found[1] or found[2]


def _pointed(text: str) -> Iterator[str]:
    """The paths that a text says in two parts, a place and a name in it."""
    for loc, name, place, pointer, key in _PLACES.findall(text):
        path = ".".join(re.findall(r"[^', ]+", loc)) or (f"{place}.{name}" if name else f"{pointer}.{key}")
        yield _HOLDERS.sub("", path.replace("/", ".").strip("."))


def _by_value(text: str, optional: Mapping[str, Sequence[str]]) -> str | None:
    """The field whose value the host quotes without a word for it: "'none' is not supported with this model"."""
    quoted = {word.lower() for word in _quoted(text)}
    for name in optional:
        _, bound, value = name.partition("=")
        if bound and value.strip('"').lower() in quoted:
            return name
    return None
