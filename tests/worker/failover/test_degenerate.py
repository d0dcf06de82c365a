"""A model in a loop is told from real text that repeats itself."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from worker.failover.degenerate import is_degenerate

TEXTS = sorted((Path(__file__).parent / "texts").iterdir())
HOUSE = Path(__file__).parents[3]
SAID = "The sky is blue because short waves scatter more than long ones, and the eye sees that. "
PARAGRAPH = "".join(random.Random(1).choice("abcdefgh ijklmn") for _ in range(500))

LOOPS = {
    "one letter": "G" * 400,
    "one sign": "@" * 400,
    "one character, in the end": SAID + "!" * 400,
    "one emoji": "🎉" * 400,
    "bytes that were no text": "a" + "\ufffd" * 400,
    "a token": "<unk>" * 80,
    "another token": "<unused50>" * 50,
    "a word": "the " * 100,
    "a word and a comma": "very, " * 100,
    "a number of a list": "1. " * 150,
    "the number of a list, on lines": "1.\n" * 500,
    "a sentence": SAID + "I am sorry, but I cannot help you with that request. " * 20,
    "a sentence and its beginning": "I am sorry, but I cannot help you. " * 30 + "I am so",
    "a line": "- buy milk and bread today\n" * 25,
    "two lines": "Yes.\nNo.\n" * 60,
    "a paragraph": PARAGRAPH * 10,
    "the whole answer": SAID * 40,
    "a fragment of JSON": '{"items": [' + '{"a": 1}, ' * 200,
    "lines of JSON": '[{"name": "y"},\n' + '{"name": "x", "id": 1},\n' * 100,
    "newlines": SAID + "\n" * 500,
    "newlines after JSON": '{"a": 1}' + "\n" * 1000,
    "blanks": SAID + " \t\n" * 200,
    "brackets": "}\n" * 800,
    "zeros": "0" * 2000,
    "cells": "| 0 " * 1000,
    "Chinese words": "我不知道。" * 80,
    "one Chinese character": "的" * 400,
}

REAL = {
    "ha ha ha": "ha " * 20,
    "much ha ha ha": "ha " * 100,
    "a ruler in the end": SAID + "\n" + "-" * 200,
    "a table of zeros": "| a | b | c |\n|---|---|---|\n" + "| 0 | 0 | 0 |\n" * 40,
    "a wide table of zeros": "|" + " 0 |" * 12 + "\n" + ("|" + " 0 |" * 12 + "\n") * 40,
    "a matrix of zeros": "[" + ("[" + "0, " * 19 + "0],\n") * 20 + "]",
    "a matrix of zeros without signs": ("0 " * 20 + "\n") * 20,
    "a matrix of False": "[" + ("[" + "False, " * 9 + "False],\n") * 10 + "]",
    "an array of zeros": "data = [" + "0, " * 400 + "]",
    "a dump of zeros": ("00 " * 16 + "\n") * 40,
    "a third": "0." + "3" * 1000,
    "a large power of ten": "1" + "0" * 1000,
    "base64 of zeros": "iVBORw0KGgo" + "A" * 200 + "==",
    "SQL that differs in one number": "".join(f"INSERT INTO t VALUES ({n}, 'a', 0);\n" for n in range(120)),
    "CSV with constant columns": "id,a,b\n" + "".join(f"{n},0,0\n" for n in range(300)),
    "equal rows of CSV": "name,city,paid\n" + "Alice,Berlin,yes\n" * 60,
    "a form of ticks": "- [ ] TODO\n" * 60,
    "an empty table in HTML": "<table>" + "<tr><td></td><td></td></tr>\n" * 40 + "</table>",
    "a refrain eight times in a row": SAID + "Na na na na, hey hey hey, goodbye\n" * 8,
    "a long line of a book's contents": "Chapter 1 " + "." * 150 + " 3",
    "nothing": "",
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_one_thing_said_again_and_again_until_the_end_is_degenerate(text: str) -> None:
    """Hosts end such a reply like any other, with 200 and a finish reason."""
    assert is_degenerate(text)
    assert is_degenerate(SAID + text)
    assert is_degenerate(text + "\n")


@pytest.mark.parametrize("text", REAL.values(), ids=REAL)
def test_data_and_play_that_repeat_themselves_are_an_answer(text: str) -> None:
    """Cut short anywhere too: an answer that ran out of room ends in the middle of a table."""
    assert [length for length in range(len(text) + 1) if is_degenerate(text[:length])] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_real_text_is_an_answer_wherever_it_ends(path: Path) -> None:
    """Songs with refrains, tables, lists, forms, code, dumps, boards, drawings, and scripts without blanks."""
    text = path.read_text()
    assert len(text) > 150
    assert [length for length in range(len(text) + 1) if is_degenerate(text[:length])] == []


def test_no_file_of_this_project_is_degenerate_wherever_it_is_cut() -> None:
    """Code, prose, lock files and scripts that people wrote."""
    dice = random.Random(7)
    found = [path for path in HOUSE.rglob("*") if path.suffix in {".py", ".md", ".lua", ".lock", ".toml", ".yml"}]
    files = [path for path in found if not any(part.startswith(".") for part in path.relative_to(HOUSE).parts)]
    assert len(files) > 100
    for path in files:
        text = path.read_text()
        cuts = [len(text), *(dice.randrange(len(text) + 1) for _ in range(10))]
        assert not any(is_degenerate(text[:cut]) for cut in cuts), path


def test_a_loop_that_somebody_could_have_meant_is_none_in_a_long_answer() -> None:
    """In 6000 characters, a tenth must be the loop: a padded cell or a wide ruler is not."""
    assert is_degenerate(PARAGRAPH + "=" * 400)
    story = "".join(f"{SAID[:-2]} for reason {n}. " for n in range(100))
    assert not is_degenerate(story + "=" * 400)
    assert is_degenerate(story + "=" * 650)


@pytest.mark.parametrize(
    "text", ["G" * 8_000_000, "the " * 2_000_000, SAID * 90_000, "\n" * 8_000_000, "ab" * 4_000_000]
)
def test_the_longest_answer_is_judged_in_no_time(text: str) -> None:
    """Only its last characters are looked at, and each length of a unit is compared once."""
    began = time.process_time()
    for cut in range(20):
        is_degenerate(text[: len(text) - cut])
        is_degenerate(f"{text[: len(text) - cut]}.")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("end", [".", "!", ".\n", "…", '"', " end of it.", " Sorry, I cannot go on like this."])
def test_a_goodbye_saves_no_loop(end: str) -> None:
    """A model that is stopped properly after a minute of one word has said one word all the same."""
    assert is_degenerate("Well: " + "very " * 120 + "very" + end)
