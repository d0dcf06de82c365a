"""The estimate of a prompt, against counts that the tokenizer of SmolLM2-135M made of the same texts."""

from __future__ import annotations

import base64
import json
import random

import pytest

from worker.providers.tokens import at_most

DICE = random.Random(1)
ROWS = json.dumps([{"id": i, "name": "Foo Bar", "tags": ["a", "b"], "ok": True} for i in range(200)], indent=2)
COUNTED = {
    "English": ("THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. " * 40, 801),
    "German": (
        "Die Künstliche Intelligenz beschäftigt sich mit der Automatisierung intelligenten Verhaltens und dem "
        "maschinellen Lernen. " * 20, 801,
    ),
    "Russian": (
        "Искусственный интеллект — это раздел информатики, который занимается созданием умных машин. " * 20, 1401,
    ),
    "Chinese": (
        ("人工智能是计算机科学的一个分支，它企图了解智能的实质，并"
         "生产出一种新的能以人类智能相似的方式做出反应的智能机器。") * 20,
        1740,
    ),
    "emoji": ("😀🎉👍🏽🤖" * 200, 3000),
    "JSON": (ROWS, 8293),
    "addresses": ("https://www.example.com/some/path/to/page.html?query=string&id=12345#frag " * 30, 931),
    "signs": ("!@#$%^&*()_+-=[]{};:,.<>/?|~" * 100, 2000),
    "base64": (base64.b64encode(DICE.randbytes(6000)).decode(), 6462),
    "digest": (DICE.randbytes(4000).hex(), 7161),
    "digits": ("7" * 4000, 4000),
    "line breaks": ("\n" * 1000, 250),
}  # fmt: skip


@pytest.mark.parametrize(("text", "counted"), COUNTED.values(), ids=COUNTED)
def test_no_text_is_taken_for_shorter_than_it_is(text: str, counted: int) -> None:
    """A quarter of the bytes was an eighth of it in the worst case, and the answer pushed the prompt out."""
    assert at_most(text) >= counted


def test_english_is_known_better() -> None:
    """What is estimated too high is taken from the answer, and most prompts are English: 23 tokens in this one."""
    text = "Every call ends in one word of the ledger. The words come from a table, read from top to bottom."
    assert 23 <= at_most(text) <= 26


def test_any_text_has_a_number() -> None:
    """Half of a character is one too."""
    assert at_most("") == 0
    assert at_most("\ud83d \x00\u200b\U0001fae9") > 0
