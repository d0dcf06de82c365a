"""A job and its attempts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from staffel import jobs, redis_here
from staffel.cli import config_option, json_option, plain
from staffel_wire.record import line, may_be_asked_again


@click.command()
@click.argument("job")
@config_option
@json_option
def command(job: str, as_json: bool) -> None:  # noqa: FBT001 - click
    """Show JOB: its state, and every attempt and every stage that was skipped; while it runs and after."""
    shown = jobs.run(lambda client: client.show(job), redis_here.found(quiet=as_json))
    if as_json:
        click.echo(json.dumps(shown, ensure_ascii=False))
        return
    took = f"{shown['duration_s']:.1f} s, of which {shown['queued_s']:.1f} s in queues"
    click.echo(plain(f"{job}: {line(shown)}; {took}{may_be_asked_again(shown)}"))
    if shown["why"]:
        click.echo(plain(shown["why"]))
    Console(width=None if Console().is_terminal else 120).print(table(shown["attempts"]))
    for row in shown["attempts"]:
        if row["detail"]:
            click.echo(plain(f"{row['n']} {row['stage']} said: {row['detail']}"))
    if shown["text"]:
        click.echo(plain(shown["text"]).strip())


def table(attempts: list[Mapping[str, Any]]) -> Table:
    """The attempts as a person reads them."""
    made = Table("n", "stage", "model", "outcome", "reason", "status", "seconds", "USD", "worker", box=None)
    for row in attempts:
        made.add_row(
            f"{row['n']}/{row['of']}", _cell(row["stage"]), _cell(row["model"]), row["outcome"], _cell(row["reason"]),
            str(row["status"] or ""), "?" if row["duration_s"] is None else f"{row['duration_s']:.2f}",
            "?" if row["cost_usd"] is None else f"{row['cost_usd']:.4f}", _cell(row["worker"]),
        )  # fmt: skip
    return made


def _cell(text: str | None) -> str:
    return escape(plain(text or ""))
