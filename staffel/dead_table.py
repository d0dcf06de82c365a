"""The dead letters as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from staffel.cli import plain
from staffel_wire.dead import DeadLetter


def table(letters: Sequence[DeadLetter]) -> Table:
    """One row a letter; the time when it ended is this machine's."""
    made = Table(box=None, pad_edge=False)
    for name in ("job", "ended", "status", "chain", "label", "attempts", "last stage", "why"):
        made.add_column(name, no_wrap=name in {"ended", "status"}, overflow="fold")
    for letter in letters:
        ended = datetime.fromisoformat(letter.ended_at).astimezone()
        made.add_row(
            _text(letter.job), f"{ended:%Y-%m-%d %H:%M:%S}", letter.status, _text(letter.chain), _text(letter.label),
            str(letter.attempts), _text(letter.stage), _text(letter.why or letter.reason or "no stage was asked"),
        )  # fmt: skip
    return made


def sentence(dropped: int) -> str:
    return f"{dropped} dead letter{'' if dropped == 1 else 's'} dropped"


def _text(text: str | None) -> str:
    return escape(plain(text or ""))
