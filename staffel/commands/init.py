"""Write the commented example."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from staffel.redis_here import Misconfigured


@click.command()
@click.argument("file", default="staffel.toml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="write over a file that is there")
def command(file: Path, force: bool) -> None:  # noqa: FBT001 - click
    """Write FILE (staffel.toml), a working example with every key explained."""
    if file.exists() and not force:
        raise Misconfigured(f"{file} is there already; --force writes over it")
    try:
        file.write_text(resources.files("config").joinpath("staffel.toml").read_text())
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {file}; mend it, then `staffel check`")
