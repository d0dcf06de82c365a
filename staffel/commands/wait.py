"""Wait for a job, print the answer."""

from __future__ import annotations

import click

from staffel import jobs, redis_here
from staffel.cli import config_option, json_option


@click.command()
@click.argument("job")
@config_option
@json_option
def command(job: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Wait for JOB and print its answer; Ctrl-C ends the wait, the job goes on."""
    url = redis_here.found(quiet=as_json)
    return int(jobs.run(lambda client: jobs.answered_or_shown(client, job, as_json=as_json), url))
