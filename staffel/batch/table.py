"""The table of a batch: which stage answered each document, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Column, Table
from rich.text import Text

from staffel.batch.progress import told
from staffel.batch.summaries import Row


def table(rows: Sequence[Row]) -> Table:
    """One row for each document and their sums; `seconds` in work, without the queues."""
    answered = sum(row.answered for row in rows)
    made = Table(
        Column("document", f"{len(rows)} documents, {answered} answered", overflow="fold"),
        _number("words", _count(sum(row.words or 0 for row in rows))),
        _number("summary", _count(sum(row.summary_words or 0 for row in rows))),
        Column("answered by", overflow="fold"),
        _number("seconds", f"{sum(map(_seconds, rows)):.1f}"),
        _number("USD", total_usd(rows)),
        box=box.SIMPLE,
        show_footer=True,
    )
    for row in rows:
        made.add_row(
            Text(row.name), _count(row.words), _count(row.summary_words),
            Text(told(row), style="" if row.answered else "red"), f"{_seconds(row):.1f}" if row.attempts else "",
            _usd(row.cost_usd) if row.attempts else "",
        )  # fmt: skip
    return made


def total_usd(rows: Iterable[Row]) -> str:
    """What the documents cost; two that share a job cost it once. `>` where only some of it is known."""
    costs = list({row.job: row.cost_usd for row in rows if row.job is not None}.values())
    known = sum(cost for cost in costs if cost is not None)
    if None in costs:
        return f"> {known:.4f}" if known else "?"
    return f"{known:.4f}"


def _number(header: str, footer: str) -> Column:
    return Column(header, footer, justify="right", no_wrap=True)


def _count(words: int | None) -> str:
    return "" if words is None else f"{words:,}"


def _usd(cost: float | None) -> str:
    return "?" if cost is None else f"{cost:.4f}"


def _seconds(row: Row) -> float:
    return max(0.0, row.duration_s - row.queued_s)
