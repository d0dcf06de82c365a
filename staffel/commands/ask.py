"""Submit, wait, print."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from staffel import jobs, redis_here
from staffel.client import Client
from staffel.errors import StaffelError, Unavailable


@click.command()
@click.argument("text", required=False)
@jobs.request_options
def command(text: str | None, whole: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401, FBT001 - click
    """Submit TEXT, wait, print the answer. Ctrl-C cancels the job.

    Exit codes: 0 answered, 2 not a request, 3 no stage answered, 4 a stage refused it, 5 too late, 6 no Redis or
    no worker, 130 cancelled.
    """
    request = jobs.request_of(text, whole, options)
    url = redis_here.found(quiet=as_json)

    async def work(client: Client) -> int:
        await jobs.refuse_without_worker(client, request)
        job = str(uuid.uuid4())  # known before it is submitted, so that Ctrl-C in between finds it
        try:
            await _submit(client, request, job)
            return await jobs.answered_or_shown(client, job, as_json=as_json)
        except asyncio.CancelledError:  # Ctrl-C: nobody waits for the answer any more
            with suppress(StaffelError):
                await client.cancel(job)
            raise

    return int(jobs.run(work, url))


async def _submit(client: Client, request: Mapping[str, Any], job: str) -> None:
    try:
        await client.submit(request, job=job)
    except Unavailable as error:  # its reply may be what was lost
        raise Unavailable(f"{error}; `staffel wait {job}` tells whether the job was submitted") from None
