"""The fault table holds nothing that no vendor says: each part of it decides what some body is worth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.worker.failover.vendor_bodies import ANSWERS, STREAMED
from worker.failover import rules, sentences
from worker.failover.judge import of_fault
from worker.failover.provider import Fault
from worker.failover.rules import RULES, Rule
from worker.providers.replies import said

Case = tuple[Fault, str]

CASES: dict[Rule, list[Case]] = {
    rule: [case for case in ANSWERS if next(some for some in RULES if some.matches(*case)) == rule] for rule in RULES
}
"""Who is judged by which rule: a rule that matches less changes nothing for the others."""


NONE = -1
"""No status."""

BLOCKS = (sentences.START, sentences.NAME, sentences.MODEL, sentences.HOSTS_OWN, sentences.LIBRARY)
"""What sentences have in common; seen as one character each while a sentence is taken apart."""


def without_one(pattern: str) -> Iterator[str]:
    """The pattern without each of its alternatives, one at a time. A group of which one is left says just that one."""
    token = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\(\?<?[:!=]|[()|]|.", re.DOTALL)
    starts, parts = [[0]], []
    for found in token.finditer(pattern):
        if found[0].startswith("("):
            starts.append([found.end()])
        elif found[0] == "|":
            starts[-1].append(found.end())
        elif found[0] == ")":
            parts += _spans(starts.pop(), found.start())
    for start, end, first in parts + _spans(starts.pop(), len(pattern)):
        yield pattern[: start if first else start - 1] + pattern[end + 1 if first else end :]


def _spans(starts: list[int], end: int) -> list[tuple[int, int, bool]]:
    ends = [start - 1 for start in starts[1:]] + [end]
    return [(*span, not n) for n, span in enumerate(zip(starts, ends, strict=True))] if len(starts) > 1 else []


def missed(rule: Rule, less: Rule | None) -> bool:
    """Whether anybody notices that less of the rule is left."""
    rules = [less if some is rule else some for some in RULES if some is not rule or less is not None]
    return any(
        next(some.verdict for some in rules if some is not None and some.matches(*case)) != rule.verdict
        for case in CASES[rule]
    )


def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def folded(pattern: str) -> str:
    for number, block in enumerate(BLOCKS):
        pattern = pattern.replace(block, chr(0xE000 + number))
    return pattern


def unfolded(pattern: str) -> str:
    for number, block in enumerate(BLOCKS):
        pattern = pattern.replace(chr(0xE000 + number), block)
    return pattern


@pytest.mark.parametrize("rule", RULES[:-1], ids=lambda rule: rule.verdict.reason)
def test_every_rule_and_every_alternative_in_it_is_needed(rule: Rule) -> None:
    """Some 280 sentences could once be struck out and no test saw it: nobody knew who says them, or if they match."""
    assert missed(rule, None)
    for code in without_one(rule.codes.pattern if rule.codes else ""):
        same = [some for some in RULES if some.codes == rule.codes]
        assert any(missed(some, replace(some, codes=compiled(code))) for some in same), code
    for text in without_one(folded(rule.text.pattern if rule.text else "")):
        assert missed(rule, replace(rule, text=compiled(unfolded(text)))), text
    for status in rule.statuses - set(range(400)) if rule.kinds else ():
        assert missed(rule, replace(rule, statuses=rule.statuses - {status} | {NONE})), status


@pytest.mark.parametrize("block", BLOCKS)
def test_every_alternative_of_what_sentences_have_in_common_is_needed(block: str) -> None:
    """What gateways put in front of what a host says, and how hosts write names."""
    for part in without_one(block):
        less = {
            rule: replace(rule, text=compiled(rule.text.pattern.replace(block, part)))
            for rule in RULES
            if rule.text and block in rule.text.pattern
        }
        assert any(missed(*pair) for pair in less.items()), part


@pytest.mark.parametrize("word", rules.STATED)
def test_every_word_for_a_status_is_needed(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it an error in a stream would be worth something else."""
    judged = [of_fault(said(body)) for body, *_ in STREAMED]
    monkeypatch.setattr(rules, "STATED", {some: status for some, status in rules.STATED.items() if some != word})
    assert [of_fault(said(body)) for body, *_ in STREAMED] != judged


def test_a_pattern_is_taken_apart_at_its_alternatives() -> None:
    """Of all depths, and at no bar that is a character."""
    assert list(without_one("a|b")) == ["b", "a"]
    assert list(without_one(r"(?:x|[|)]y)\||z")) == [r"(?:[|)]y)\||z", r"(?:x)\||z", "z", r"(?:x|[|)]y)\|"]
    assert list(without_one("(a)")) == []
    assert of_fault(*ANSWERS[0]) == next(rule.verdict for rule in RULES if rule.matches(*ANSWERS[0]))
