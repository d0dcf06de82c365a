"""`python -m staffel.local_model`: the server as a process of its own."""

from __future__ import annotations

import sys

import click

from staffel.local_model import DEFAULT_PORT, LocalModelError, serve
from staffel.local_model.server import DEFAULT_HOST, DEFAULT_NUM_CTX

_NOT_USABLE = 2


@click.command(help="A small real model behind Ollama's API.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes any free one.",
)
@click.option(
    "--num-ctx",
    type=click.IntRange(256),
    default=DEFAULT_NUM_CTX,
    show_default=True,
    help="Context window in tokens, where a request names none.",
)
def main(host: str, port: int, num_ctx: int) -> None:
    try:
        serve(host, port, num_ctx=num_ctx)
    except LocalModelError as error:
        click.echo(error, err=True)
        sys.exit(_NOT_USABLE)


if __name__ == "__main__":
    main(prog_name="python -m staffel.local_model")
