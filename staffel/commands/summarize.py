"""A batch: the summary of each document."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from staffel import jobs, redis_here
from staffel.batch.folder import SummaryFolder
from staffel.batch.progress import Bar, Lines, Watched
from staffel.batch.run import Ask, Batch, places
from staffel.batch.sources import Source, sources
from staffel.batch.summaries import Row, to_line
from staffel.batch.table import table
from staffel.batch.window import widest
from staffel.cli import config_option
from staffel.client import Client
from staffel.documents.parsers import cleaned, printable
from staffel.errors import Invalid, StaffelError, Unavailable
from staffel_wire.catalogue import Offer

DEADLINE_S = 12 * 3600.0


class _Named(click.Path):
    """A path that somebody named; an empty one would be the current folder, which nobody meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        if value == "":
            self.fail("an empty path; is a variable not set? The current folder is `.`", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE_OR_DIR...", type=_Named(path_type=Path))
@click.option("--chain", default="default", show_default=True, help="the chain to walk")
@click.option("--deadline", type=float, default=DEADLINE_S, help="seconds for each document (default: 43200, 12 h)")
@click.option("--out", type=_Named(path_type=Path), help="a folder for the summaries, one file per document")
@click.option("--local-only", is_flag=True, help="no stage outside the house")
@click.option(
    "--priority",
    type=click.Choice(["interactive", "batch"]),
    default="batch",
    show_default=True,
    help="batch jobs give way to others",
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line for each document, as it ends")
def command(paths: tuple[Path, ...], out: Path | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401, FBT001 - click
    """Summarize each text, Markdown, PDF and e-mail file. Run it again: it does only what is missing.

    Ctrl-C submits nothing more; what is in the queue goes on, and the next run joins it.

    Exit codes: 0 all answered, 1 something failed, 2 nothing to summarize or not to be asked like this, 6 no Redis
    or no worker, 130 stopped.
    """
    found = sources(paths, out)
    if not found:
        where = ", ".join(printable(str(path)) for path in paths)
        raise Invalid(f"{where}: no document here (text, Markdown, PDF and e-mail files are taken from a folder)")
    url = redis_here.found(quiet=as_json)
    order = _Order(found, _asking(options), out, as_json=as_json)
    rows: list[Row] = jobs.run(order.carried_out, url)
    if not as_json:
        _print(rows, summaries=out is None)
    return 0 if all(row.answered for row in rows) else 1


def _asking(options: dict[str, Any]) -> Ask:
    from tasks.summarize import request_of  # noqa: PLC0415 - loads Celery, and reads the environment when it does

    fields = {name: value for name, value in options.items() if value is not False}
    return lambda text: request_of(text, **fields)


@dataclass(frozen=True, slots=True)
class _Order:
    """What was typed."""

    found: Sequence[Source]
    ask: Ask
    out: Path | None
    as_json: bool

    async def carried_out(self, client: Client) -> list[Row]:
        """The rows. Raises `Invalid` and `Unavailable` before anything is submitted, if that can be known."""
        request = self.ask("x")
        await jobs.refuse_without_worker(client, request)
        catalogue = await client.catalogue()
        offers = [offer for offer in catalogue.chains[request["chain"]].offers if _may_serve(offer, request)]
        folder = SummaryFolder(self.out) if self.out else None
        with self._watched() as watched:
            batch = Batch(
                client, self.found, self.ask, places=places(offers, await client.lanes(), catalogue.slots),
                window=widest(offers), tell=self._telling(watched), folder=folder,
            )  # fmt: skip
            watcher = asyncio.create_task(_tell_unserved(batch, watched))
            try:
                return await batch.run()
            except asyncio.CancelledError:  # Ctrl-C
                watched.say(f"stopped: {_left(batch)}")
                raise
            except Unavailable as error:
                raise Unavailable(f"{error}; {_left(batch)}") from None
            finally:
                watcher.cancel()
                with suppress(asyncio.CancelledError, StaffelError):
                    await watcher

    def _watched(self) -> Watched:
        console = Console(stderr=True)
        if console.is_terminal and not (self.as_json and sys.stdout.isatty()):
            return Bar(console, len(self.found))
        return Lines(len(self.found), quiet=self.as_json)

    def _telling(self, watched: Watched) -> Callable[[Row], None]:
        def tell(row: Row) -> None:
            watched.done(row)
            if self.as_json:
                click.echo(to_line(row))

        return tell


def _may_serve(offer: Offer, request: dict[str, Any]) -> bool:
    return offer.local or not request.get("local_only")


def _left(batch: Batch) -> str:
    queue = f"{batch.in_queue} in the queue go on" if batch.in_queue else "none is in the queue"
    return f"{batch.done} of {batch.total} documents are done, {queue}; run the same command again for the rest"


async def _tell_unserved(batch: Batch, watched: Watched) -> None:
    told = set[str]()
    while True:
        await asyncio.sleep(jobs.NO_WORKER_S)
        lane = await batch.unserved()
        if lane is not None and lane not in told:
            told.add(lane)
            watched.say(f"documents wait: {jobs.no_worker(lane)}")


def _print(rows: Sequence[Row], *, summaries: bool) -> None:
    for row in rows if summaries else ():
        if row.summary:
            click.echo(f"{row.name}\n{cleaned(row.summary)}\n")
    Console(width=None if Console().is_terminal else 120).print(table(rows))
