"""A small local model behind Ollama's API."""

from __future__ import annotations

import click

from staffel.redis_here import Misconfigured


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=11435, show_default=True, help="0 takes a free one")
@click.option("--num-ctx", default=4096, show_default=True, help="the window in tokens, where a request names none")
def command(host: str, port: int, num_ctx: int) -> None:
    """Run SmolLM2-135M (tiny, and weak by design) with llama.cpp behind Ollama's API, one request at a time."""
    from staffel.local_model import LocalModelError, serve  # noqa: PLC0415 - loads aiohttp

    try:
        serve(host, port, num_ctx=num_ctx)
    except LocalModelError as error:
        raise Misconfigured(str(error)) from None
