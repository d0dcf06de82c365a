"""`staffel ...`: what a person types. Each command is a file in `staffel/commands`, loaded when it is called."""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import re
import sys
import traceback
from contextlib import suppress
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
    "stages": "which stages are closed and why, limits, spend; switch one off, on, or reset it",
    "dead": "jobs that ended without an answer: list, show, replay, drop",
    "health": "whether jobs are taken, for people and for health checks",
    "summarize": "summarize files or folders; run again, it does what is missing",
    "local-model": "run a small local model behind Ollama's API",
    "demo": "all of it on real input",
}

_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""What a write to stdout can meet, besides a reader that has gone."""

_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HALVES = re.compile(r"[\ud800-\udfff]")


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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A lone half of a character cannot be written as UTF-8; as `\\udcff` it can, and is still right in JSON.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """The exit code of a command line: 0 answered, 2 usage or configuration, 3 to 6 and 130 as the job ended.

    1 where the output cannot be written, and for a mistake of ours: whatever it is, it is told in one line.
    """
    try:
        found = group.main(arguments, prog_name="staffel", standalone_mode=False)
    except click.ClickException as error:
        return told(error.format_message(), error.exit_code, arguments)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except StaffelError as error:
        return told(str(error), error.exit_code, arguments, error)
    except BrokenPipeError:
        return _forget_output()
    except OSError as error:
        if error.errno not in _NOT_WRITTEN or error.filename is not None:
            return told(_unforeseen(error, arguments), 1, arguments)
        _forget_output()
        return told(f"the output cannot be written: {(error.strerror or 'no reason given').lower()}", 1, [])
    except Exception as error:  # noqa: BLE001 - the last net: a traceback helps nobody who types a command
        return told(_unforeseen(error, arguments), 1, arguments)
    return found if isinstance(found, int) else 0


def _forget_output() -> int:
    """Let what is still in stdout's buffer go nowhere, else Python complains about it at its end."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _unforeseen(error: Exception, arguments: list[str]) -> str:
    """One line for an error that nobody thought of; its own text may quote a prompt, a key or a URL."""
    name = next((f"staffel {argument}" for argument in arguments if argument in COMMANDS), "staffel")
    frame = traceback.extract_tb(error.__traceback__, limit=-1)[0]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    what = f"{type(error).__name__} in {place}"
    return f"{name} could not go on: {what}; this is a mistake of ours, please report it"


def plain(text: str) -> str:
    """Text of somebody else as a terminal may show it: no control characters but newline and tab, no half ones."""
    return _HALVES.sub("\ufffd", _TERMINAL_CODES.sub("", text))


def told(text: str, code: int, arguments: list[str], error: StaffelError | None = None) -> int:
    """Say what went wrong: a line on stderr, and with --json one object on stdout."""
    with suppress(OSError):
        click.echo(plain(text), err=True)
    if "--json" in arguments and (error is None or error.job is None):
        with suppress(OSError):
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
