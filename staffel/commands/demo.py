"""All of it on real input."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from staffel.demo.play import play

_EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"


@click.command()
@click.option(
    "--documents",
    type=click.Path(exists=True, path_type=Path),
    default=_EXAMPLES,
    help="what to summarize (default: the examples)",
)
def command(documents: Path) -> int:
    """Three scenes of a failing chain and a batch of documents, with clouds that fail to order and a real local model.

    Exit code 0 only if every job was answered, every summary is shorter than its document, and the hosts' own logs
    count exactly the attempts of the ledger.
    """
    with tempfile.TemporaryDirectory(prefix="staffel-demo-") as folder:
        return asyncio.run(_until_told_to_stop(play(Path(folder), documents)))


async def _until_told_to_stop(work: Coroutine[Any, Any, int]) -> int:
    """A closed terminal and `kill` end it as Ctrl-C does: in order, with nothing left running."""
    playing = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    try:
        return await playing
    except asyncio.CancelledError:
        return 130
