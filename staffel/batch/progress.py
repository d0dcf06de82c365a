"""How far a batch is, on stderr: a bar where somebody watches a terminal, a line for each document where not."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from staffel.batch.summaries import Row


class Watched(Protocol):
    """Open it around the batch; `done` hears of each row, `say` of what a person should know meanwhile."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def done(self, row: Row) -> None: ...

    def say(self, text: str) -> None: ...


class Lines:
    """One line for each document that has ended; with `quiet`, only what is said."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total, self._quiet, self._count = total, quiet, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def done(self, row: Row) -> None:
        self._count += 1
        if not self._quiet:
            self.say(f"{self._count}/{self._total} {row.name}: {told(row)}")

    def say(self, text: str) -> None:
        click.echo(text, err=True)


class Bar:
    """Counts what is done and what failed."""

    def __init__(self, console: Console, total: int) -> None:
        self._progress = Progress(
            TextColumn("summarizing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"),
            TimeElapsedColumn(), console=console, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._failed = 0
        self._bar = self._progress.add_task("", total=total, failed=0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def done(self, row: Row) -> None:
        self._failed += not row.answered
        self._progress.update(self._bar, advance=1, failed=self._failed)

    def say(self, text: str) -> None:
        self._progress.console.print(Text(text), soft_wrap=True)


def told(row: Row) -> str:
    """What became of a document, in a few words."""
    if not row.answered:
        return f"{row.status.replace('_', ' ')}: {row.reason}"
    return f"{row.stage}{', cut off at its longest' if row.truncated else ''}{', kept' if row.kept else ''}"
