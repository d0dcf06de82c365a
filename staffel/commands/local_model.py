"""A small local model behind Ollama's API."""

from __future__ import annotations

import click


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=11435, show_default=True, help="0 takes a free one")
def command(host: str, port: int) -> None:
    """Run SmolLM2-135M (tiny, and weak by design) with llama.cpp behind Ollama's API, one request at a time."""
    from staffel.local_model import serve  # noqa: PLC0415 - loads aiohttp

    serve(host=host, port=port)
