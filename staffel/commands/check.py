"""Is the configuration sound, are the hosts there."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import click

from config.problems import ConfigError, Problem
from config.settings import environment, settings
from config.stages import Stage
from staffel.cli import config_option, json_option, plain
from worker.prices import unpriced

_CONNECT_S = 2.0
_PORTS = {"http": 80, "https": 443}


@click.command()
@config_option
@json_option
def command(as_json: bool) -> int:  # noqa: FBT001 - click
    """Say everything that is wrong with the configuration, each under its key; then whether the hosts are there.

    Exit code 2 if the configuration cannot be used. A host that is away is told and is no error: the chain is for that.
    """
    try:
        found = settings()
        if wrong := unpriced(found.stages, found.chains):
            raise ConfigError(str(environment().config), wrong)
    except ConfigError as error:
        if as_json:
            click.echo(json.dumps({"sound": False, "problems": [_row(problem) for problem in error.problems]}))
        else:
            click.echo(plain(str(error)), err=True)
        return 2
    away = [stage.name for stage in found.stages.values() if not there(stage)]
    if as_json:
        click.echo(json.dumps({"sound": True, "notes": [_row(note) for note in found.notes], "away": away}))
        return 0
    file = plain(str(environment().config))
    click.echo(f"{file} is sound: {len(found.stages)} stages, {len(found.chains)} chains")
    for chain in found.chains.values():
        click.echo(f"  {chain.name}: {' -> '.join(chain.plan)}, {chain.deadline:g} s")
    for note in found.notes:
        click.echo(f"  note: {note}")
    for name in away:
        click.echo(f"  nobody answers at the host of {name}")
    return 0


def _row(problem: Problem) -> dict[str, str]:
    return {"key": problem.path, "problem": problem.text}


def there(stage: Stage) -> bool:
    """Whether something listens at the stage's host; nothing is sent to it."""
    if stage.provider == "scripted":
        return True
    parts = urlsplit(stage.base_url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or _PORTS[parts.scheme]), _CONNECT_S):
            return True
    except (OSError, UnicodeError):  # a name that no name server could be asked for
        return False
