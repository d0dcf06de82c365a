"""Submit, print the job's id."""

from __future__ import annotations

import json
from typing import Any

import click

from staffel import jobs, redis_here
from staffel.client import Client


@click.command()
@click.argument("text", required=False)
@jobs.request_options
def command(text: str | None, whole: str | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401, FBT001 - click
    """Submit TEXT and print the job's id; `staffel wait JOB` brings the answer."""
    request = jobs.request_of(text, whole, options)
    url = redis_here.found(quiet=as_json)

    async def work(client: Client) -> None:
        job = await client.submit(request)
        seen = await client.watch(job)
        if not seen.served:
            click.echo(f"job {job} waits: {jobs.no_worker(seen.lane)}", err=True)
        click.echo(json.dumps({"job": job}) if as_json else job)

    jobs.run(work, url)
