"""Whatever goes wrong, a person is told in one line, and a terminal is shown text alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from staffel import cli, jobs
from staffel.answer import from_shown
from staffel.client import Client
from staffel.commands.show import table
from staffel.connection import Connection
from staffel.errors import Invalid, Unavailable

STAFFEL = (sys.executable, "-m", "staffel.cli")
COMMAND_S = 30


def staffel(folder: Path, arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command through a shell, which can close and redirect what Python cannot."""
    command = f'exec "$0" "$@" {arguments}'
    return subprocess.run(
        ["/bin/sh", "-c", command, *STAFFEL], cwd=folder, env={**os.environ, **variables}, text=True,
        errors="surrogateescape", stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


def test_an_error_that_nobody_thought_of_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a traceback of sixty lines; its own text may quote the prompt, so only its kind and place are told."""

    @click.command()
    @click.argument("text")
    def broken(text: str) -> None:
        raise TypeError("a secret prompt")

    monkeypatch.setattr(cli.group, "get_command", lambda *_: broken)
    assert cli.run(["ask", "a secret prompt"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("staffel ask could not go on: TypeError in test_cli.py, line ")
    assert line.endswith("please report it")
    assert "secret" not in line


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """`staffel --help > /dev/full` was a traceback, and a second one from Python's own end."""
    done = staffel(tmp_path, "--help > /dev/full")
    assert (done.returncode, done.stderr) == (1, "the output cannot be written: no space left on device\n")


def test_half_a_character_of_a_host_is_written_all_the_same(tmp_path: Path) -> None:
    """An answer that ended in the middle of an emoji was a UnicodeEncodeError; in JSON it comes back as it was."""
    code = """
import click, json
from staffel import cli
cli.group.get_command = lambda *_: click.Command("x", callback=lambda: click.echo('{"text": "half \\ud83d"}'))
cli.main(["show"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=COMMAND_S, check=True
    )
    assert json.loads(done.stdout) == {"text": "half \ud83d"}


def test_a_closed_stdin_is_one_line(tmp_path: Path) -> None:
    """`staffel ask - <&-` was an AttributeError: Python has no stdin at all then."""
    done = staffel(tmp_path, "ask - <&-", STAFFEL_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert done.stderr == "stdin is closed; give the text as an argument, or through a pipe\n"


def test_json_that_is_too_deep_is_not_taken() -> None:
    """A hundred thousand brackets were a RecursionError."""
    with pytest.raises(Invalid, match="nested too deeply"):
        jobs.request_of(None, "[" * 100_000, {})


@pytest.mark.parametrize("query", ["foo=bar", "socket_timeout=abc", "retry=1", "protocol=9"])
def test_a_redis_url_with_an_unusable_query_is_no_redis_url(query: str) -> None:
    """redis-py finds out when it makes a connection, with a TypeError that was a traceback."""
    with pytest.raises(Unavailable, match=r"is no Redis URL; write redis://HOST:PORT/0") as caught:
        Connection(f"redis://:hidden@h/0?{query}")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("job", ["\udcff", "two\nlines", "\x1b[31mred", "x" * 201])
def test_a_name_that_cannot_be_printed_is_no_job(job: str) -> None:
    """An id is part of a key, a message and a line; half a character was a UnicodeEncodeError in redis-py."""

    async def refused() -> None:
        client = Client("redis://127.0.0.1:1/0")
        for call in (client.wait(job), client.show(job), client.cancel(job), client.submit("x", job=job)):
            with pytest.raises(Invalid, match="job: an id is printable text of 1 to 200 characters"):
                await call
        await client.close()

    asyncio.run(refused())


@pytest.mark.parametrize("command", ["show", "wait", "cancel"])
def test_bytes_that_are_no_text_are_no_job(tmp_path: Path, command: str) -> None:
    """A shell passes on any bytes."""
    done = staffel(tmp_path, f"{command} --json \"$(printf '\\377')\"", STAFFEL_REDIS_URL="redis://127.0.0.1:1/0")
    assert (done.returncode, done.stderr) == (2, "job: an id is printable text of 1 to 200 characters\n")


@pytest.mark.parametrize("arguments", ["''", ". --out ''"])
def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, arguments: str) -> None:
    """`staffel summarize "$UNSET"` summarized all that lay around."""
    (tmp_path / "a.txt").write_text("private")
    done = staffel(tmp_path, f"summarize {arguments}", STAFFEL_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert "an empty path; is a variable not set?" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_gets_no_codes_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer could clear the screen, rename the window or hide what stood above it."""
    jobs.print_answer(from_shown(SHOWN), as_json=False)
    out, err = capsys.readouterr()
    assert out == "red\n\ttwo \ufffd]0;name\n"
    assert "\x1b" not in err


SHOWN = {
    "job": "j",
    "status": "answered",
    "stage": "a",
    "finish_reason": "stop",
    "usage": None,
    "text": "\x1b[31mred\r\n\ttwo \udcff\x1b]0;name\x07\x9b",
    "attempts": [{"stage": "a\x1b[2J", "outcome": "answered", "reason": None, "status": 200, "duration_s": 1.0}],
    "duration_s": 1.0,
    "truncated": False,
    "cost_usd": None,
    "queued_s": 0.0,
}


def test_a_table_gets_no_codes_of_a_record() -> None:
    """What a host or a worker is called comes from a file that somebody else wrote."""
    row = {"n": 1, "of": 1, "stage": "a", "model": "\x1b[2Jm", "outcome": "failed", "reason": None, "status": 500,
           "duration_s": 1.0, "cost_usd": None, "worker": "w\x07"}  # fmt: skip
    cells = [cell for column in table([row]).columns for cell in column.cells]
    assert ("m" in cells, "w" in cells) == (True, True)


def test_a_schema_and_pictures_are_read_from_files(tmp_path: Path) -> None:
    """The request holds what is in them: no path leaves this machine."""
    (tmp_path / "schema.json").write_bytes(b'\xef\xbb\xbf{"type": "object"}')
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    options = {"schema": str(tmp_path / "schema.json"), "image": (str(tmp_path / "a.png"),), "stop": ()}
    fields = jobs.request_of("What is this?", None, options)
    assert fields == {
        "prompt": "What is this?", "response_schema": {"type": "object"}, "images": [b"\x89PNG\r\n\x1a\n"]
    }  # fmt: skip
    assert jobs.request_of(None, '{"prompt": "Who?"}', options)["prompt"] == "Who?"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--schema nothing.json", "--schema nothing.json: cannot be read: no such file or directory"),
        ("--image .", "--image .: cannot be read: is a directory"),
        ("--image /dev/zero", "--image /dev/zero: longer than 64,000,000 bytes"),
        ("--image text.txt", "images.0: must be the bytes of a PNG, JPEG, GIF or WebP image, or their base64"),
        ("--schema list.json", "--schema list.json: must be a JSON schema"),
        ("--schema type.json", "response_schema: not a JSON schema at type"),
        ("--schema bytes.bin", "--schema bytes.bin: not JSON: not text"),
        ("--schema text.txt", "--schema text.txt: not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, arguments: str, line: str) -> None:
    """Before Redis is asked for anything; the last line, below the one that names it."""
    (tmp_path / "text.txt").write_text("iVBORw0KGgo=")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "type.json").write_text('{"type": "objct"}')
    (tmp_path / "bytes.bin").write_bytes(b"\xff\xfe\xfd\x00\x80")
    done = staffel(tmp_path, f"ask Why? {arguments}", STAFFEL_REDIS_URL="redis://127.0.0.1:1/0")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, line)
