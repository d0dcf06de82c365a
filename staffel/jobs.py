"""What the commands about jobs share: the request's options, the wait with a person watching, the printing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import click

from staffel.answer import Answer
from staffel.cli import config_option, json_option, plain
from staffel.client import Client
from staffel.errors import Invalid, StaffelError, Unavailable
from staffel.waiting import Seen
from staffel_wire.record import WAITS, line, place, story

NO_WORKER_S = 1.0
"""How long a waiting job's lane may be without a worker before a person is told."""

STANDS_S = 5.0
"""Whoever has waited so long is told once where the job stands on its lane, and when it is expected to end."""

_LONGEST_FILE = 64_000_000
"""Bytes; far more than any request may hold, and little enough to be read before it is refused."""


def request_options(function: Any) -> Any:  # noqa: ANN401 - any click callback
    """The fields of a request as options."""
    options = [
        click.option("--chain", help="the chain to walk (default: default)"),
        click.option("--system", help="instructions before the prompt"),
        click.option("--deadline", type=float, help="seconds from now, waiting included"),
        click.option("--max-output-tokens", type=int),
        click.option("--temperature", type=float),
        click.option("--reasoning", type=click.Choice(["none", "low", "medium", "high"])),
        click.option("--stop", multiple=True, help="end the answer before this text; may be given again"),
        click.option("--seed", type=int),
        click.option("--schema", metavar="FILE", help="a JSON schema that the answer must meet"),
        click.option("--image", metavar="FILE", multiple=True, help="PNG, JPEG, GIF or WebP; may be given again"),
        click.option("--local-only", is_flag=True, help="no stage outside the house"),
        click.option("--priority", type=click.Choice(["interactive", "batch"]), help="batch jobs give way to others"),
        click.option("--label", help="a name for the job that is no secret"),
        click.option("--request", "whole", help="the request as a JSON object instead; - reads it from stdin"),
        config_option,
        json_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def request_of(text: str | None, whole: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The request's fields as the options give them; TEXT `-` reads the prompt from stdin."""
    # By identity: 0 is equal to False, and a value that somebody gave.
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != ()}
    if "stop" in given:
        given["stop"] = list(given["stop"])
    if "schema" in given:
        name = given.pop("schema")
        given["response_schema"] = _object(_file("--schema", name), f"--schema {name}", "a JSON schema")
    if "image" in given:
        given["images"] = [_file("--image", name) for name in given.pop("image")]
    if whole is not None:
        if text is not None:
            raise Invalid("give TEXT or --request, not both")
        text = _stdin() if whole == "-" else whole
        return {**_object(text, "--request", "an object with a prompt or messages"), **given}
    if text is None:
        raise Invalid("TEXT is missing: staffel ask 'Why is the sky blue?'; - reads it from stdin")
    return {"prompt": _stdin() if text == "-" else text, **given}


def _stdin() -> str:
    if sys.stdin is None:
        raise Invalid("stdin is closed; give the text as an argument, or through a pipe")
    try:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Invalid(f"stdin cannot be read: {(error.strerror or 'no reason given').lower()}") from None


def _file(option: str, name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            held = file.read(_LONGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        why = getattr(error, "strerror", None) or "no such name can be"
        raise Invalid(f"{option} {name}: cannot be read: {why.lower()}") from None
    if len(held) > _LONGEST_FILE:
        raise Invalid(f"{option} {name}: longer than {_LONGEST_FILE:,} bytes")
    return held


def _object(text: str | bytes, place: str, meant: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except UnicodeDecodeError:
        raise Invalid(f"{place}: not JSON: not text") from None
    except ValueError as error:
        raise Invalid(f"{place}: not JSON: {error}") from None
    except RecursionError:
        raise Invalid(f"{place}: not JSON that can be read: nested too deeply") from None
    if not isinstance(found, dict):
        raise Invalid(f"{place}: must be {meant}")
    return found


def run(work: Callable[[Client], Any], url: str) -> Any:  # noqa: ANN401 - what the work returns
    """Run one coroutine with a client."""

    async def with_client() -> Any:  # noqa: ANN401
        async with Client(url) as client:
            return await work(client)

    return asyncio.run(with_client())


async def submit(client: Client, request: Mapping[str, Any]) -> tuple[str, str]:
    """Submit; returns the job and its first lane."""
    job = await client.submit(request)
    return job, (await client.watch(job)).lane


async def refuse_without_worker(client: Client, request: Mapping[str, Any]) -> None:
    """Raise `Unavailable` before there is a job, if nobody serves the lane that it would wait on."""
    lane = await client.first_lane(request)
    if lane not in await client.lanes():
        raise Unavailable(f"{no_worker(lane)}; nothing was submitted")


def no_worker(lane: str) -> str:
    return f"no worker serves the lane {lane!r}: start one with `celery -A worker worker -Q {lane}`, or `staffel up`"


async def wait(client: Client, job: str) -> Answer:
    """Wait, and say in one line if the job waits on a lane that nobody serves, or is parked."""
    watcher = asyncio.create_task(_watch_lane(client, job))
    try:
        return await client.wait(job)
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError, StaffelError):
            await watcher


async def _watch_lane(client: Client, job: str) -> None:
    told, stood = "", False
    for looks in count(1):
        await asyncio.sleep(NO_WORKER_S)
        seen = await client.watch(job)
        why = await _why_it_waits(client, job, seen)
        if not why and not stood and looks * NO_WORKER_S >= STANDS_S:
            why = await _where_it_stands(client, job)
            stood = bool(why)
        if why and why != told:
            told = why
            click.echo(plain(f"job {job} waits: {why}"), err=True)


async def _where_it_stands(client: Client, job: str) -> str:
    """Its place on a lane; empty where it waits on none."""
    position = (await client.show(job))["position"]
    return place(position) if position else ""


async def _why_it_waits(client: Client, job: str, seen: Seen) -> str:
    """Why nothing happens to the job, as far as a person should know; empty where it is merely in a queue."""
    if seen.status not in WAITS:
        return ""
    if not seen.served:
        return no_worker(seen.lane)
    if seen.status != "parked":
        return ""
    shown = await client.show(job)
    return line(shown) if shown["status"] == "parked" else ""


def print_answer(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer.shown, ensure_ascii=False))
        return
    click.echo(plain(answer.text).strip())
    cost = "" if not answer.cost_usd else f", {answer.cost_usd:.4f} USD"
    cut = ", cut off at its longest" if answer.truncated else ""
    click.echo(plain(f"-- {story(answer.attempts)}; {answer.duration_s:.1f} s in all{cost}{cut}"), err=True)


async def object_of(client: Client, error: StaffelError) -> dict[str, Any] | None:
    """The object of the job that ended with this error, for --json."""
    if error.job is None:
        return None
    return await client.show(error.job)


async def answered_or_shown(client: Client, job: str, *, as_json: bool) -> int:
    """Wait and print: the answer, or with --json the object of a job that ended without one; the exit code."""
    try:
        print_answer(await wait(client, job), as_json=as_json)
    except Unavailable as error:
        raise Unavailable(f"{error}; job {job} goes on without you: `staffel wait {job}` brings its answer") from None
    except StaffelError as error:
        if error.job is None:
            raise
        click.echo(plain(f"{error} (job {error.job})"), err=True)
        if as_json and (shown := await object_of(client, error)):
            click.echo(json.dumps(shown, ensure_ascii=False))
        return error.exit_code
    return 0
