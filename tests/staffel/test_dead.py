"""`staffel dead` as a person meets it, with no worker anywhere: the table, the lines, and what cannot be."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from staffel import Client, Invalid, SyncClient
from staffel.dead_table import sentence, table
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Offer, Plan
from staffel_wire.ends import polling
from staffel_wire.scripts import source
from tests.nodes import Valkey
from tests.wire.test_dead import LETTER

STAFFEL = (sys.executable, "-m", "staffel.cli")
COMMAND_S = 30
CATALOGUE = Catalogue(
    {"default": Plan((Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True)), 90.0)}
)
PROMPT = "a secret prompt"


@pytest.fixture
def server(valkey: Valkey) -> Valkey:
    """A Redis on which a worker has started once."""
    own = valkey.another()
    with own.client as client:
        client.set(keys.CATALOGUE, CATALOGUE.to_json())
    return own


def dies(server: Valkey, *jobs: str, **fields: Any) -> None:
    """Nobody serves the lane, and the deadline passes."""
    with SyncClient(server.url) as client:
        for job in jobs:
            client.submit(PROMPT, job=job, deadline=60, **fields)
    with server.client as redis:
        now = int(redis.time()[0]) * 1000 + 61_000
        names, given = polling(jobs, CATALOGUE, now)
        redis.eval(source("poll"), len(names), *names, *given)


def staffel(folder: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "STAFFEL_REDIS_URL": url, "TZ": "UTC"}
    return subprocess.run(
        [*STAFFEL, "dead", *arguments], cwd=folder, env=environ, text=True, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


def test_a_table_holds_text_alone() -> None:
    """A label is a stranger's: no code for a terminal, and no markup, comes out of it."""
    bare = replace(LETTER, why=None, attempts=0, stage=None, reason=None)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(table([replace(LETTER, label="\x1b[31mred[/] [bold]"), replace(LETTER, why=None), bare]))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["job", "ended", "status", "chain", "label", "attempts", "last", "stage", "why"]
    assert "red[/] [bold]" in lines[1]
    assert "it is so" in lines[1]
    assert "connect" in lines[2]
    assert "no stage was asked" in lines[3]


def test_how_many_were_dropped_is_told_in_words() -> None:
    """One is one."""
    told = [sentence(number) for number in (0, 1, 2)]
    assert told == ["0 dead letters dropped", "1 dead letter dropped", "2 dead letters dropped"]


def test_the_list_is_newest_first_and_says_that_there_are_more(tmp_path: Path, server: Valkey) -> None:
    """One object a line with --json, which may stand before or after the command's name; no request in any of it."""
    dies(server, "first", label="\x1b[31mred")
    dies(server, "second")
    done = staffel(tmp_path, server.url, "list", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(row["job"] for row in rows) == ["first", "second"]
    assert {row["status"] for row in rows} == {"expired"}
    assert set(rows[0]) == set(LETTER.__slots__)
    assert staffel(tmp_path, server.url, "--json").stdout == done.stdout
    assert staffel(tmp_path, server.url, "--json", "list").stdout == done.stdout
    shown = staffel(tmp_path, server.url, "list", "--limit", "1")
    assert "the newest 1; there are more: --limit shows them\n" in shown.stderr
    assert PROMPT not in done.stdout + shown.stdout + staffel(tmp_path, server.url).stdout
    assert "\x1b" not in staffel(tmp_path, server.url).stdout


def test_what_it_asks_is_shown_to_who_asks_for_it(tmp_path: Path, server: Valkey) -> None:
    """It may be confidential, and somebody may look over a shoulder."""
    dies(server, "j", label="night", system="be brief\x1b[31m")
    shown = staffel(tmp_path, server.url, "show", "j")
    lines = shown.stdout.splitlines()
    assert lines[:2] == ["j: expired", "chain default, label night, plan primary → local"]
    assert lines[2].startswith("ended 20")
    assert ", will be thrown away 20" in lines[2]
    whole = staffel(tmp_path, server.url, "show", "j", "--request")
    assert (PROMPT in shown.stdout, PROMPT in whole.stdout, "\x1b" in whole.stdout) == (False, True, False)
    found = json.loads(staffel(tmp_path, server.url, "show", "j", "--json").stdout)
    assert (found["plan"], found["status"], "request" in found) == (["primary", "local"], "expired", False)
    assert json.loads(staffel(tmp_path, server.url, "show", "j", "--json", "--request").stdout)["request"] == {
        "prompt": PROMPT, "system": "be brief\x1b[31m", "label": "night", "deadline": 60.0,
    }  # fmt: skip


def test_a_replay_is_queued_where_its_stage_is(tmp_path: Path, server: Valkey) -> None:
    """A person who replays it is told where nobody is there to walk it."""
    dies(server, "j")
    done = staffel(tmp_path, server.url, "replay", "j", "--from", "local", "--json")
    assert json.loads(done.stdout) == {"job": "j", "state": "queued", "lane": "ollama"}
    assert done.stderr.startswith("job j waits: no worker serves the lane 'ollama': ")
    with server.client as redis:
        assert redis.llen("ollama") == 1
    again = staffel(tmp_path, server.url, "replay", "j")
    assert (again.returncode, again.stderr.splitlines()[-1]) == (2, "there is no dead letter j; it is queued already")


def test_all_are_dropped_in_pieces(server: Valkey, tmp_path: Path) -> None:
    """However many there are; the list is read in pieces too."""
    jobs = [f"job-{number}" for number in range(230)]
    dies(server, *jobs)
    with SyncClient(server.url) as client:
        assert {letter.job for letter in client.dead.list(limit=1000)} == set(jobs)
        assert len(client.dead.list(limit=150)) == 150
        with server.client as redis:
            redis.delete(*(keys.job(job) for job in jobs[40:170]))
        assert {letter.job for letter in client.dead.list(limit=1000)} == {*jobs[:40], *jobs[170:]}
    assert staffel(tmp_path, server.url, "drop", "--all").stdout == "100 dead letters dropped\n"
    assert staffel(tmp_path, server.url, "drop", "--all", "--json").stdout == '{"dropped": 0}\n'
    assert staffel(tmp_path, server.url).stdout == "no dead letters\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("show", "k"), "there is no dead letter k; no such job is known here, or its time is over"),
        (("replay", "k"), "there is no dead letter k; no such job is known here, or its time is over"),
        (("drop", "k"), "there is no dead letter k; no such job is known here, or its time is over"),
        (("drop",), "give JOB or --all"),
        (("drop", "j", "--all"), "give JOB or --all"),
        (("replay", "j", "--from", "else"), "stage 'else' is not in the plan of j, which is primary → local"),
        (("replay", "j", "--deadline", "0"), "deadline: must be more than 0 and at most"),
        (("show", "a\nb"), "job: an id is printable text of 1 to 200 characters"),
        (("list", "--limit", "0"), "'--limit'"),
        (("lost",), "No such command 'lost'"),
    ],
)
def test_what_cannot_be_is_one_line_and_ends_with_2(
    tmp_path: Path, server: Valkey, arguments: tuple[str, ...], line: str
) -> None:
    """And nothing has become of the letter that is there."""
    dies(server, "j")
    done = staffel(tmp_path, server.url, *arguments)
    assert (done.returncode, line in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert '"job": "j"' in staffel(tmp_path, server.url, "--json").stdout


@pytest.mark.parametrize("arguments", [("list",), ("show", "j"), ("replay", "j"), ("drop", "--all")])
def test_no_redis_ends_with_6(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As with every command."""
    done = staffel(tmp_path, "redis://127.0.0.1:1/0", *arguments)
    assert (done.returncode, "Redis does not answer at redis://127.0.0.1:1/0" in done.stderr) == (6, True)


def test_a_replay_where_no_worker_has_ever_started_ends_with_6(tmp_path: Path, valkey: Valkey) -> None:
    """Nobody knows where a stage runs; there is nothing to replay either."""
    done = staffel(tmp_path, valkey.another().url, "replay", "j")
    assert (done.returncode, "no worker has started on redis://" in done.stderr) == (6, True)


def test_a_web_backend_has_them_too(server: Valkey) -> None:
    """The same four, awaited."""

    async def visit() -> None:
        async with Client(server.url) as client:
            (letter,) = await client.dead.list()
            plan = (await client.dead.show("j"))["plan"]
            assert (letter.job, letter.status, plan) == ("j", "expired", ["primary", "local"])
            assert await client.dead.replay("j", "local", deadline=5) == "j"
            with pytest.raises(Invalid, match="it is queued already"):
                await client.dead.drop("j")
            assert await client.dead.drop_all() == 0

    dies(server, "j")
    asyncio.run(visit())
