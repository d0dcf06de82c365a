"""All of it on real input."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

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
        return asyncio.run(play(Path(folder), documents))
