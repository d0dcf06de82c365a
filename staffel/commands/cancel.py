"""Cancel a job."""

from __future__ import annotations

import json

import click

from staffel import jobs, redis_here
from staffel.cli import config_option, json_option, plain


@click.command()
@click.argument("job")
@config_option
@json_option
def command(job: str, as_json: bool) -> None:  # noqa: FBT001 - click
    """Cancel JOB: a waiting one never starts, a running one's call is closed, no further stage is asked."""
    state = jobs.run(lambda client: client.cancel(job), redis_here.found(quiet=as_json))
    said = {"cancelled": "cancelled", "cancelling": "cancelling: its worker is closing the call"}
    text = said.get(state, f"too late: it is {state} already")
    click.echo(json.dumps({"job": job, "state": state}) if as_json else plain(f"{job}: {text}"))
