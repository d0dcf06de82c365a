"""Start everything here."""

from __future__ import annotations

import asyncio

import click

from config.problems import ConfigError
from config.settings import environment, settings
from staffel.cli import config_option
from staffel.redis_here import Misconfigured


@click.command()
@config_option
@click.option(
    "--port", default=5555, show_default=True, type=click.IntRange(0, 65535), help="Flower's; 0 takes a free one"
)
@click.option("--no-flower", is_flag=True, help="without Flower")
def command(port: int, no_flower: bool) -> int:  # noqa: FBT001 - click
    """Start Valkey (unless STAFFEL_REDIS_URL is set), a worker for every lane, and Flower; Ctrl-C stops them in order.

    Calls under way have `drain` seconds to end, a second Ctrl-C hands them back at once. Exit codes: 0 stopped, 1
    something died again and again, 2 the configuration or a port cannot be used, 6 no Redis.
    """
    from staffel.supervisor import House, Plan, alone, flower_port  # noqa: PLC0415 - after the options are checked

    try:
        found, env = settings(), environment()
    except ConfigError as error:
        raise Misconfigured(str(error)) from None
    with alone(found.state_dir):
        plan = Plan(found, env.config, env.redis_url, 0 if no_flower else flower_port(port))
        return asyncio.run(House(plan).run())
