"""The stages as all workers see them together; and the switch by hand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from staffel import redis_here
from staffel.cli import config_option, json_option, plain
from staffel.connection import Connection
from staffel.errors import Invalid, Unavailable
from staffel.lanes_table import lanes_table
from staffel.stages_table import sentence, table
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Known, from_json
from staffel_wire.request import cleaned
from staffel_wire.stages import MOST_OFF_MS, Action, looked, looked_at_lanes, looking, switching

EVERY_S = 1.0
_WIDE = 160
"""Columns of a table that goes to no terminal."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(?P<number>[0-9]{1,9}(\.[0-9]{1,3})?)(?P<unit>[smhd]?)")

Row = dict[str, Any]


def seconds_of(_: click.Context | None, __: click.Parameter | None, value: str | None) -> float | None:
    """Seconds, of `90`, `30s`, `15m`, `1h` or `2d`."""
    if value is None:
        return None
    if not (found := _DURATION.fullmatch(value)):
        raise click.BadParameter("write a time such as 90 (seconds), 30s, 15m, 1h or 2d")
    seconds = float(found["number"]) * _UNITS[found["unit"]]
    if not 0 < seconds <= MOST_OFF_MS / 1000:
        raise click.BadParameter("must be more than nothing and at most 365d")
    return seconds


@click.group(invoke_without_command=True)
@click.option("--watch", is_flag=True, help="keep it live, once a second; Ctrl-C ends it")
@config_option
@json_option
@click.pass_context
def command(context: click.Context, watch: bool, as_json: bool) -> None:  # noqa: FBT001 - click
    """Show the stages as all workers see them together: which are closed and until when, limits, what they spent.

    With a command: switch one off, on, or reset it, for all workers at once.
    """
    context.obj = as_json
    if context.invoked_subcommand is not None:
        if watch:
            raise click.UsageError(f"--watch does not go with {context.invoked_subcommand}")
        return
    url = redis_here.found(quiet=as_json)
    if watch:
        _run(url, _watching_lines if as_json else _watching)
    elif as_json:
        _print_lines(_run(url, look))
    else:
        console = _console()
        console.print(_tables(_run(url, look), console.width))


@command.command()
@click.argument("name")
@click.option(
    "--for", "for_s", metavar="TIME", callback=seconds_of, help="90, 30s, 15m, 1h, 2d; without: until it is switched on"
)
@json_option
@click.pass_obj
def off(outer_json: bool, name: str, for_s: float | None, as_json: bool) -> None:  # noqa: FBT001 - click
    """Ask the stage NAME no more; calls under way go on."""
    _switch(name, "off", for_s, as_json=as_json or outer_json)


@command.command()
@click.argument("name")
@json_option
@click.pass_obj
def on(outer_json: bool, name: str, as_json: bool) -> None:  # noqa: FBT001 - click
    """Undo `off`: what its breaker and its limits say counts again."""
    _switch(name, "on", as_json=as_json or outer_json)


@command.command()
@click.argument("name")
@json_option
@click.pass_obj
def reset(outer_json: bool, name: str, as_json: bool) -> None:  # noqa: FBT001 - click
    """Forget why the stage NAME is closed, and its faults; not its limits, its spend, and not `off`."""
    _switch(name, "reset", as_json=as_json or outer_json)


def _switch(name: str, action: Action, for_s: float | None = None, *, as_json: bool) -> None:
    async def switched(connection: Connection) -> Row:
        catalogue = await _catalogue(connection)
        if name not in catalogue.offers():
            known = ", ".join(sorted(catalogue.offers()))
            raise Invalid(f"there is no stage {cleaned(name[:64])!r}; there are {known}")
        identity = catalogue.known.get(name, Known()).identity
        for_ms = None if for_s is None else max(1, round(for_s * 1000))
        await connection.script("switch", *switching(name, identity, action, for_ms))
        return next(row for row in (await look(connection)).stages if row["stage"] == name)

    row = _run(redis_here.found(quiet=as_json), switched)
    click.echo(json.dumps(row, ensure_ascii=False) if as_json else plain(sentence(row)))


@dataclass(frozen=True, slots=True)
class Look:
    """The objects of all stages and of all lanes at one instant."""

    stages: list[Row]
    lanes: list[Row]


async def look(connection: Connection) -> Look:
    """All of it in one step."""
    catalogue = await _catalogue(connection)
    reply = await connection.script("stages", *looking(catalogue))
    return Look(looked(catalogue, reply), looked_at_lanes(catalogue, reply))


def _tables(seen: Look, width: int) -> RenderableType:
    return Group(table(seen.stages, width), "", lanes_table(seen.lanes, width))


async def _catalogue(connection: Connection) -> Catalogue:
    text = await connection.get(keys.CATALOGUE)
    if text is None:
        raise Unavailable(f"no worker has ever started at {connection.shown}; `staffel up` starts one")
    return from_json(text)


async def _watching(connection: Connection) -> None:
    """A live table; where nobody looks at a terminal, a table a second without any code for one."""
    console = _console()
    if not console.is_terminal:
        await _for_ever(connection, lambda seen: console.print(_tables(seen, console.width)), _tell)
        return
    with Live(console=console, auto_refresh=False) as live:
        last: RenderableType = ""

        def show(seen: Look) -> None:
            nonlocal last
            last = _tables(seen, console.width)
            live.update(last, refresh=True)

        await _for_ever(connection, show, lambda text: live.update(Group(last, Text(plain(text))), refresh=True))


async def _watching_lines(connection: Connection) -> None:
    await _for_ever(connection, _print_lines, _tell)


def _print_lines(seen: Look) -> None:
    for row in [*seen.stages, *seen.lanes]:
        click.echo(json.dumps(row, ensure_ascii=False))


def _tell(text: str) -> None:
    click.echo(plain(text), err=True)


async def _for_ever(connection: Connection, show: Callable[[Look], None], tell: Callable[[str], None]) -> None:
    """Once a second; a Redis that goes away later is told once, and waited for."""
    away = ""
    show(await look(connection))
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            seen = await look(connection)
        except Unavailable as error:
            if not away:
                tell(f"{error}; asking again")
            away = str(error)
            continue
        if away:
            tell("Redis is back")
        away = ""
        show(seen)


def _console() -> Console:
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def _run(url: str, work: Callable[[Connection], Awaitable[Any]]) -> Any:  # noqa: ANN401 - what the work returns
    async def connected() -> Any:  # noqa: ANN401
        async with _connection(url) as connection:
            return await work(connection)

    return asyncio.run(connected())


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[Connection]:
    connection = Connection(url)
    try:
        yield connection
    finally:
        await connection.close()
