"""Which Redis a command uses: the variable's, else the embedded one that runs."""

from __future__ import annotations

import click

from config.problems import ConfigError
from config.settings import environment, redis_url
from staffel.cli import plain
from staffel.errors import StaffelError, Unavailable
from staffel_wire.url import shown_url


class Misconfigured(StaffelError):
    """The configuration cannot be used."""

    exit_code = 2


def found(*, quiet: bool = False) -> str:
    """The URL; says on stderr which it is, or raises `Unavailable` with the command to type."""
    try:
        env = environment()
        url = redis_url(env)
    except ConfigError as error:
        raise Misconfigured(str(error)) from None
    if not url:
        raise Unavailable("no Redis: set STAFFEL_REDIS_URL, or start everything here with `staffel up`")
    if not quiet:
        click.echo(plain(f"Redis: {shown_url(url)}{'' if env.redis_url else ' (embedded)'}"), err=True)
    return url
