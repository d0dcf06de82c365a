"""`staffel stages` as a person meets it: the switch, the watch, every way in which it cannot be had."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from staffel.commands.stages import seconds_of
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Known, Offer, Plan
from tests.eventually import eventually
from tests.nodes import Valkey
from tests.staffel.test_stages_table import ROW

STAFFEL = (sys.executable, "-m", "staffel.cli")
COMMAND_S = 30
CATALOGUE = Catalogue(
    {"default": Plan((Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True)), 90.0)},
    known={"primary": Known("gpt", "1d", 10_000, 3), "local": Known("qwen", "2d", 10_000)},
)


@pytest.fixture
def server(valkey: Valkey) -> Valkey:
    """A Redis on which a worker has started once."""
    own = valkey.another()
    with own.client as client:
        client.set(keys.CATALOGUE, CATALOGUE.to_json())
    return own


def environ(url: str) -> dict[str, str]:
    return {**os.environ, "STAFFEL_REDIS_URL": url, "TZ": "UTC"}


def staffel(folder: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STAFFEL, "stages", *arguments], cwd=folder, env=environ(url), text=True, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("30s", 30), ("15m", 900), ("1h", 3600), ("2d", 172_800), ("1.5h", 5400)]
)
def test_a_time_may_have_a_unit(text: str, seconds: float) -> None:
    """Without one it is seconds."""
    assert seconds_of(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1w", "h", "1 h", "1e3", "366d", "٣", "nan"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """Before anything is switched."""
    with pytest.raises(click.BadParameter):
        seconds_of(None, None, text)


def test_a_stage_is_switched_off_and_on_without_a_configuration_file(tmp_path: Path, server: Valkey) -> None:
    """Whoever is on duty may sit at another machine."""
    done = staffel(tmp_path, server.url, "off", "primary", "--for", "1h")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"primary: off until [\d:\- ]+, in 1 h; `staffel stages on primary` ends that\n", done.stdout)
    found = [json.loads(line) for line in staffel(tmp_path, server.url, "--json").stdout.splitlines()]
    assert [(row["kind"], row["stage"], row["lane"]) for row in found] == [
        ("stage", "primary", "cloud"),
        ("stage", "local", "ollama"),
        ("lane", None, "cloud"),
        ("lane", None, "ollama"),
    ]
    rows = found[:2]
    assert [(row["stage"], row["state"], row["reason"]) for row in rows] == [
        ("primary", "off", "switched_off"),
        ("local", "closed", None),
    ]
    assert set(rows[0]) == set(ROW)
    shown = staffel(tmp_path, server.url)
    assert re.search(r"primary +off +[\d:\- ]+, in (1 h|60 min) +switched_off", shown.stdout), shown.stdout
    assert re.search(r"lane +waiting +worker\s+cloud +0 +none\s+ollama +0 +none", shown.stdout), shown.stdout
    assert "\x1b" not in shown.stdout
    done = staffel(tmp_path, server.url, "on", "primary", "--json")
    assert (json.loads(done.stdout)["state"], done.stderr) == ("closed", "")
    assert staffel(tmp_path, server.url, "reset", "primary").stdout == "primary: closed\n"


def test_without_a_time_it_says_that_it_waits_for_a_hand(tmp_path: Path, server: Valkey) -> None:
    """In the line and in the table."""
    told = r"it is switched on \(at most till \d{4}-\d\d-\d\d \d\d:\d\d\)"
    assert re.match(f"local: off until {told}; ", staffel(tmp_path, server.url, "off", "local").stdout)
    assert re.search("local +off +it is switched on +switched_off", staffel(tmp_path, server.url).stdout)


@pytest.mark.parametrize("action", ["off", "on", "reset"])
def test_an_unknown_stage_is_one_line_with_those_there_are(tmp_path: Path, server: Valkey, action: str) -> None:
    """A slip of the hand at night."""
    done = staffel(tmp_path, server.url, action, "prim\nary")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:] == ["there is no stage 'prim?ary'; there are local, primary"]
    with server.client as client:
        assert client.keys() == [keys.CATALOGUE]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("off", "primary", "--for", "soon"), "write a time such as 90 (seconds), 30s, 15m, 1h or 2d"),
        (("off",), "Missing argument 'NAME'"),
        (("of", "primary"), "No such command 'of'"),
        (("--watch", "on", "primary"), "--watch does not go with on"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    tmp_path: Path, server: Valkey, arguments: tuple[str, ...], line: str
) -> None:
    """And with one line."""
    done = staffel(tmp_path, server.url, *arguments)
    assert done.returncode == 2
    assert line in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--watch",), ("off", "primary")])
def test_no_redis_or_no_worker_ends_with_6(tmp_path: Path, valkey: Valkey, arguments: tuple[str, ...]) -> None:
    """Where no worker has ever started nobody knows of a stage."""
    done = staffel(tmp_path, valkey.another().url, *arguments)
    assert done.returncode == 6
    assert "no worker has ever started at redis://" in done.stderr
    done = staffel(tmp_path, "redis://127.0.0.1:1/0", *arguments)
    assert done.returncode == 6
    assert "Redis does not answer at redis://127.0.0.1:1/0" in done.stderr


@pytest.mark.parametrize(("option", "sign"), [((), "primary  closed"), (("--json",), '"stage": "primary"')])
def test_a_watch_that_is_piped_writes_again_each_second(
    tmp_path: Path, server: Valkey, option: tuple[str, ...], sign: str
) -> None:
    """No codes for a terminal in it, and Ctrl-C ends it as it ends every command."""
    out = tmp_path / "out"
    with out.open("w") as file:
        watch = subprocess.Popen(
            [*STAFFEL, "stages", "--watch", *option], cwd=tmp_path, env=environ(server.url), stdout=file,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            eventually(lambda: out.read_text().count(sign) >= 2, "two looks")
        finally:
            watch.send_signal(signal.SIGINT)
            _, told = watch.communicate(timeout=COMMAND_S)
    assert (watch.returncode, len(told.split("\n"))) == (130, 2 if option else 3), told  # click's own empty line
    assert "\x1b" not in out.read_text()


def test_a_watch_on_a_terminal_shows_what_changes(tmp_path: Path, server: Valkey) -> None:
    """One table that is drawn over itself, and a cursor that is back at the end."""
    ours, its = pty.openpty()
    os.set_blocking(ours, False)
    seen = bytearray()

    def reads(words: bytes) -> bool:
        with suppress(BlockingIOError):
            seen.extend(os.read(ours, 65536))
        return words in seen

    watch = subprocess.Popen(
        [*STAFFEL, "stages", "--watch"], cwd=tmp_path, stdin=its, stdout=its, stderr=its,
        env={**environ(server.url), "TERM": "xterm", "COLUMNS": "150", "LINES": "20"},
    )  # fmt: skip
    try:
        eventually(lambda: reads(b"closed"), "the table")
        assert staffel(tmp_path, server.url, "off", "primary").returncode == 0
        eventually(lambda: reads(b"switched_off"), "the change")
    finally:
        watch.send_signal(signal.SIGINT)
        code = watch.wait(COMMAND_S)
        eventually(lambda: reads(b"\x1b[?25h"), "the cursor")
        os.close(ours)
        os.close(its)
    assert code == 130


def test_a_watch_outlives_a_redis_that_is_away(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is told once, and goes on asking: at that hour somebody may well restart it."""
    folder = tmp_path_factory.mktemp("own-valkey")
    own = Valkey.started(folder)
    with own.client as client:
        client.set(keys.CATALOGUE, CATALOGUE.to_json())
    told, shown = tmp_path / "told", tmp_path / "shown"
    with told.open("w") as file, shown.open("w") as out:
        watch = subprocess.Popen(
            [*STAFFEL, "stages", "--watch", "--json"], cwd=tmp_path, env=environ(own.url), stderr=file,
            stdout=out,
        )  # fmt: skip
        try:
            eventually(shown.read_text, "the watch has seen them", 30)
            own.stop()
            eventually(lambda: "; asking again" in told.read_text(), "it is told")
            assert watch.poll() is None
        finally:
            own.stop()
            watch.send_signal(signal.SIGINT)
            watch.wait(COMMAND_S)
    assert told.read_text().count("does not answer") == 1
