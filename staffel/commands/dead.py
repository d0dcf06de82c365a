"""The jobs that ended without an answer: list, show, replay, drop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from staffel import jobs, redis_here
from staffel.cli import config_option, json_option, plain
from staffel.client import Client
from staffel.commands.show import table as attempts_table
from staffel.dead_letters import MOST_LISTED
from staffel.dead_table import sentence, table
from staffel_wire.record import line, may_be_asked_again, to_the_second

_WIDE = 160
"""Columns of a table that goes to no terminal."""


@click.group(invoke_without_command=True)
@config_option
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:  # noqa: FBT001 - click
    """Jobs that ended without an answer, kept whole for `dead_ttl`; without a command: list them."""
    context.obj = as_json
    if context.invoked_subcommand is None:
        _list(MOST_LISTED, as_json=as_json)


@command.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=MOST_LISTED, show_default=True, help="at most so many"
)
@json_option
def list_(limit: int, as_json: bool) -> None:  # noqa: FBT001 - click
    """List them, the newest first; never what they asked."""
    _list(limit, as_json=_either(as_json))


def _either(as_json: bool) -> bool:  # noqa: FBT001 - click's value
    """`--json` may stand before the command's name or after it."""
    return as_json or bool(click.get_current_context().obj)


def _list(limit: int, *, as_json: bool) -> None:
    url = redis_here.found(quiet=as_json)
    found = jobs.run(lambda client: client.dead.list(limit + 1), url)
    letters, more = found[:limit], len(found) > limit
    if as_json:
        for letter in letters:
            click.echo(json.dumps(asdict(letter), ensure_ascii=False))
        return
    if not letters:
        click.echo("no dead letters")
        return
    console = Console()
    (console if console.is_terminal else Console(width=_WIDE)).print(table(letters))
    if more:
        click.echo(f"the newest {limit}; there are more: --limit shows them", err=True)


@command.command()
@click.argument("job")
@click.option("--request", "with_request", is_flag=True, help="what it asks too, which may be confidential")
@json_option
def show(job: str, with_request: bool, as_json: bool) -> None:  # noqa: FBT001 - click
    """Show JOB: its attempts, its plan, and when it will be thrown away."""
    as_json = _either(as_json)
    url = redis_here.found(quiet=as_json)
    found = jobs.run(lambda client: client.dead.show(job, request=with_request), url)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        _tell(found)


def _tell(found: Mapping[str, Any]) -> None:
    """As a person reads it; the request is at the end."""
    why = f"; {found['why']}" if found["why"] else ""
    click.echo(plain(f"{found['job']}: {line(found)}{why}{may_be_asked_again(found)}"))
    label = f", label {found['label']}" if found["label"] else ""
    click.echo(plain(f"chain {found['chain']}{label}, plan {' → '.join(found['plan'])}"))
    ended, until = to_the_second(found["ended_at"]), to_the_second(found["kept_until"])
    click.echo(f"ended {ended}, will be thrown away {until}")
    Console(width=None if Console().is_terminal else 120).print(attempts_table(found["attempts"]))
    for row in found["attempts"]:
        if row["detail"]:
            click.echo(plain(f"{row['n']} {row['stage']} said: {row['detail']}"))
    if "request" in found:
        click.echo(plain(json.dumps(found["request"], ensure_ascii=False, indent=2)))


@command.command()
@click.argument("job")
@click.option("--from", "from_stage", metavar="STAGE", help="begin with this stage of its plan (default: the first)")
@click.option("--deadline", type=float, help="seconds from now (default: as many as it was given)")
@click.option("--wait", is_flag=True, help="wait for its end, print the answer")
@json_option
def replay(job: str, from_stage: str | None, deadline: float | None, wait: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Queue JOB again under its own id.

    Its attempts stay in its ledger. What hung on it in Celery (callbacks, a chord) is not run.
    """
    as_json = _either(as_json)

    async def work(client: Client) -> int:
        await client.dead.replay(job, from_stage, deadline=deadline)
        if wait:
            return await jobs.answered_or_shown(client, job, as_json=as_json)
        seen = await client.watch(job)
        if not seen.served:
            click.echo(plain(f"job {job} waits: {jobs.no_worker(seen.lane)}"), err=True)
        said = {"job": job, "state": seen.status, "lane": seen.lane}
        click.echo(
            json.dumps(said) if as_json else plain(f"{job}: queued again; `staffel wait {job}` brings its answer")
        )
        return 0

    return int(jobs.run(work, redis_here.found(quiet=as_json)))


@command.command()
@click.argument("job", required=False)
@click.option("--all", "every", is_flag=True, help="all that there are now, without asking")
@json_option
def drop(job: str | None, every: bool, as_json: bool) -> None:  # noqa: FBT001 - click
    """Throw away what JOB asks, for good.

    How it ended can still be shown for a while.
    """
    as_json = _either(as_json)
    if (job is None) == (not every):
        raise click.UsageError("give JOB or --all")

    async def work(client: Client) -> int:
        if job is None:
            return await client.dead.drop_all()
        await client.dead.drop(job)
        return 1

    dropped = int(jobs.run(work, redis_here.found(quiet=as_json)))
    if as_json:
        click.echo(json.dumps({"dropped": dropped}))
    else:
        click.echo(plain(f"{job}: dropped" if job else sentence(dropped)))
