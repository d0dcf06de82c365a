"""`staffel ...`: what a person types. Each command is a file in `staffel/commands`, loaded when it is called."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from staffel.errors import StaffelError

COMMANDS = {
    "init": "write staffel.toml, with every key explained",
    "check": "say what is wrong with the configuration, and whether the hosts are there",
    "up": "start everything here: Valkey, both workers, Flower",
    "ask": "submit a request, wait, print the answer",
    "submit": "submit a request, print the job's id",
    "wait": "wait for a job, print the answer",
    "show": "show a job and its attempts, while it runs and after",
    "cancel": "cancel a job",
    "summarize": "summarize files or folders; run again, it does what is missing",
    "local-model": "run a small local model behind Ollama's API",
    "demo": "all of it on real input",
}


class _Lazy(click.Group):
    """Loads a command's file when it is called: `staffel ask` need not load Celery, nor `show` the documents."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"staffel.commands.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        found.short_help = COMMANDS[cmd_name]
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="staffel")
def group() -> None:
    """LLM requests that always end well."""


def main(arguments: list[str] | None = None) -> None:
    """Run one command and end the process with its exit code; nothing that goes wrong is shown as a traceback."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """The exit code of a command line: 0 answered, 2 usage or configuration, 3 to 6 and 130 as the job ended."""
    try:
        found = group.main(arguments, prog_name="staffel", standalone_mode=False)
    except click.ClickException as error:
        return told(error.format_message(), error.exit_code, arguments)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except StaffelError as error:
        return told(str(error), error.exit_code, arguments, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return found if isinstance(found, int) else 0


def told(text: str, code: int, arguments: list[str], error: StaffelError | None = None) -> int:
    """Say what went wrong: a line on stderr, and with --json one object on stdout."""
    click.echo(text, err=True)
    if "--json" in arguments and (error is None or error.job is None):
        click.echo(json.dumps({"error": text, "exit_code": code}))
    return code


def config_option(function: Any) -> Any:  # noqa: ANN401 - any click callback
    """`--config FILE`, for every command that may need the file; sets STAFFEL_CONFIG for what it starts."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option(
        "--config", type=kind, expose_value=False, callback=_use_config, help="the TOML file (STAFFEL_CONFIG)"
    )(function)


def _use_config(_: click.Context, __: click.Parameter, value: Path | None) -> None:
    if value is not None:
        os.environ["STAFFEL_CONFIG"] = str(value.absolute())


def json_option(function: Any) -> Any:  # noqa: ANN401 - any click callback
    return click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")(function)


if __name__ == "__main__":
    main()
