"""Is the configuration sound, are the hosts there."""

from __future__ import annotations

import json

import click

from config.problems import ConfigError, Problem
from config.settings import environment, settings
from staffel.cli import config_option, json_option, plain
from staffel.commands.check_hosts import looked_at
from worker.prices import unpriced


@click.command()
@config_option
@json_option
def command(as_json: bool) -> int:  # noqa: FBT001 - click
    """Say everything that is wrong with the configuration, each under its key; then what its hosts say.

    Exit code 2 if the configuration cannot be used. A host that is away is told and is no error: the chain is for that;
    and so is a note, such as one on a model that an Ollama host has not got, with what to type.
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
    away, told = looked_at(found.stages.values())
    notes = [*found.notes, *told]
    if as_json:
        click.echo(json.dumps({"sound": True, "notes": [_row(note) for note in notes], "away": away}))
        return 0
    file = plain(str(environment().config))
    click.echo(f"{file} is sound: {len(found.stages)} stages, {len(found.chains)} chains")
    for chain in found.chains.values():
        click.echo(f"  {chain.name}: {' -> '.join(chain.plan)}, {chain.deadline:g} s")
    for note in notes:
        click.echo(f"  note: {plain(str(note))}")
    for name in away:
        click.echo(f"  nobody answers at the host of {name}")
    return 0


def _row(problem: Problem) -> dict[str, str]:
    return {"key": problem.path, "problem": problem.text}
