"""Thinking that stands inside a text."""

from __future__ import annotations

import pytest

from worker.failover.provider import Fault, Kind, Piece
from worker.providers.thinking import BLOCKS, Spoken


def spoken(*chunks: str) -> str:
    taken = Spoken()
    pieces = [piece for chunk in chunks for piece in taken.take(chunk)]
    return "".join(piece.text for piece in [*pieces, *taken.end()] if not piece.thought)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Because.", "Because."),
        ("  Because.\n", "  Because.\n"),
        ("<think>Hm.</think>Because.", "Because."),
        ("<think>\nHm. a < b </thin> </ think>\n</think>\n\nBecause.\n", "Because.\n"),
        ("\n\n<think>\n\n</think>\n\nBecause.", "Because."),
        ("<THINK>Hm.</Think>Because.", "Because."),
        ("<thinking>Hm.</think></thinking>Because.", "Because."),
        ("<think>a</think> <think>b</think> Because <think>c</think>", "Because <think>c</think>"),
        ("[THINK]Hm.[/THINK]Because.", "Because."),
        ("<think>Hm. It never ends", ""),
        ("<think>Hm.</think>", ""),
        ("<think>Hm.</thin", ""),
        ("<thin", "<thin"),
        ("<th>a table's head</th>", "<th>a table's head</th>"),
        ("<thinker>", "<thinker>"),
        ("The mark </think> ends a block.", "The mark </think> ends a block."),
        ("Such a block:\n<think>\n...\n</think>\nThat is all.", "Such a block:\n<think>\n...\n</think>\nThat is all."),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_a_block_at_the_start_is_taken_out_however_it_is_torn(text: str, expected: str, size: int) -> None:
    """A tag that came in two pieces let all of the thinking into the answer."""
    assert spoken(*[text[start : start + size] for start in range(0, len(text), size)]) == expected


@pytest.mark.parametrize("mark", BLOCKS)
def test_every_known_mark_opens_a_block(mark: str) -> None:
    assert spoken(f"{mark}Hm.{BLOCKS[mark]}Because.") == "Because."


def test_an_end_without_its_start_is_no_answer() -> None:
    """The chat template of DeepSeek R1 writes the start into the prompt: what was shown so far was thinking."""
    text = "Hm. The user wants to know.\n</think>\n\nBecause."
    assert spoken(text) == "Because."
    for size in (1, 4, 30):
        with pytest.raises(Fault) as fault:
            spoken(*[text[start : start + size] for start in range(0, len(text), size)])
        assert fault.value.kind is Kind.UNREADABLE


def test_thinking_is_heard_and_blanks_are_not() -> None:
    """Only what has content stops a clock: a host that thinks in line breaks meets them all."""
    taken = Spoken()
    assert list(taken.take("<think>Hm.")) == [Piece(thought=True)]
    assert list(taken.take("\n \n")) == []
    assert list(taken.take("Hm.")) == [Piece(thought=True)]


@pytest.mark.parametrize(("start", "more", "kept"), [("<think>", "x" * 1000, 20), ("", " \n" * 500, 1000)])
def test_what_is_no_answer_is_not_kept(start: str, more: str, kept: int) -> None:
    """A megabyte of thinking, or of blanks, would be searched anew with every piece."""
    taken = Spoken()
    pieces = [piece for chunk in [start, *[more] * 1000] for piece in taken.take(chunk)]
    assert len(taken._held) <= kept
    assert all(piece.thought for piece in pieces)
