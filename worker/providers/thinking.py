"""Thinking that stands inside the text of an answer, taken out of it as it comes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from worker.failover.provider import Fault, Kind, Piece, Words

BLOCKS: Mapping[str, str] = MappingProxyType(
    {
        "<think>": "</think>",
        "<thinking>": "</thinking>",
        "<thought>": "</thought>",
        "<seed:think>": "</seed:think>",
        "[think]": "[/think]",
    }
)
"""How models mark their thinking where the server has no parser for it (DeepSeek R1 and its distills, Qwen, Seed-OSS,
Magistral): opening and closing mark, in small letters."""

_LONE_END = re.compile(r"\n[ \t]*</think>[ \t]*\n")
_TAIL = 40
"""Characters that are kept of text already said, to find a mark that the chunks tear."""

_MOST_BLANKS = 1000
"""Characters of a blank start that are kept: a host may send nothing else for as long as its clock runs."""


class Spoken:
    """What of a text is spoken: blocks of thinking at its start are none of it, however the chunks tear their marks.

    A block that never closes leaves nothing. Marks further on are the answer's own words.
    """

    def __init__(self) -> None:
        self._held = ""
        self._close: str | None = None
        self._thought = self._said = self._explains = False
        self._tail = "\n"

    def take(self, text: str) -> Iterator[Piece]:
        """Raises `Fault` where what was said turns out to have been thinking: a chat template that writes the opening
        mark into the prompt leaves only the closing one (DeepSeek R1 at a server without its reasoning parser).
        """
        if self._said:
            yield from self._say(text)
            return
        self._held += text
        while self._held and not self._said:
            if self._close is not None:
                if text.strip():
                    yield Piece(thought=True)
                if not self._closed(self._close):
                    return
            elif not self._decided():
                return
        if self._said:
            yield from self._say(_without_lone_end(self._held))

    def end(self) -> Iterator[Piece]:
        """What was still held when the text ended: the start of a mark that did not become one."""
        if not self._said and self._close is None and self._held.strip():
            self._said = True
            yield from self._say(self._held)

    def _decided(self) -> bool:
        """Whether the held text is enough to tell if a block starts, or the answer does."""
        start = self._held.lstrip()
        if not start:
            self._held = self._held[-_MOST_BLANKS:]
            return False
        for mark, close in BLOCKS.items():
            if start[: len(mark)].lower() == mark:
                self._held, self._close = start[len(mark) :], close
                return True
        if any(mark.startswith(start.lower()) for mark in BLOCKS):
            return False
        self._held = start if self._thought else self._held
        self._said = True
        return True

    def _closed(self, close: str) -> bool:
        """Whether the block has closed; of one that has not only what may be the start of its mark is kept."""
        found = re.search(re.escape(close), self._held, re.IGNORECASE)
        if found is None:
            self._held = self._held[1 - len(close) :]
            return False
        self._held, self._close, self._thought = self._held[found.end() :], None, True
        return True

    def _say(self, text: str) -> Iterator[Piece]:
        recent = self._tail + text
        self._explains = self._explains or self._thought or "<think" in recent
        if not self._explains and "</think>" in recent and _LONE_END.search(recent):
            raise Fault(Kind.UNREADABLE, words=Words(text="the end of a thinking block came without its start"))
        self._tail = recent[-_TAIL:]
        if text:
            yield Piece(text)


def _without_lone_end(text: str) -> str:
    """Where all of the text is there at once, thinking that has lost its opening mark can still be taken out."""
    found = _LONE_END.search(f"\n{text}")
    return text if found is None or "<think" in text[: found.start()] else text[found.end() - 1 :].lstrip()
