"""What cannot be done is said in a line, and nothing is submitted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.nodes import House
from tests.staffel.documents.papers import write
from tests.staffel.summarize.house import Typed, document


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument 'FILE_OR_DIR...'"),
        (("empty",), "empty: no document here"),
        (("gone.txt", "in"), "gone.txt: no such file or folder"),
        (("in", "--chain", "nobody"), "chain: there is no 'nobody'"),
        (("in", "--deadline", "-1"), "deadline: "),
        (("in", "--deadline", "soon"), "'soon' is not a valid float"),
        (("in", "--local-only"), "local_only: no stage of 'default' is in the house"),
        (("in", "--out", "in/a.txt"), "--out in/a.txt: cannot be written to: file exists"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "nothing",
)
def test_what_cannot_be_done_is_said_in_a_line_before_anything_is_submitted(
    there: House, summarize: Typed, here: Path, arguments: tuple[str], said: str
) -> None:
    """Exit code 2."""
    write(here, "in/a.txt", document())
    (here / "empty").mkdir()
    before = there.jobs()
    finished = summarize(*arguments)
    assert (finished.code, finished.out) == (2, "")
    assert said in finished.err.splitlines()[-1]
    assert there.jobs() == before


def test_with_json_a_refusal_is_an_object(summarize: Typed, tmp_path: Path) -> None:
    """A program reads one thing, whatever comes."""
    finished = summarize(tmp_path, "--json")
    assert finished.code == 2
    assert json.loads(finished.out)["exit_code"] == 2


def test_without_a_worker_nothing_is_submitted(there: House, summarize: Typed, tmp_path: Path) -> None:
    """Exit code 6, and the command to type."""
    write(tmp_path, "a.txt", document())
    before = there.jobs()
    finished = summarize(tmp_path, "--chain", "unserved")
    assert finished.code == 6
    assert "no worker serves the lane 'attic'" in finished.err
    assert "celery -A worker worker -Q attic" in finished.err
    assert there.jobs() == before


def test_without_a_redis_it_says_where_it_looked(
    summarize: Typed, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 6; nobody set one, or nobody answers there."""
    write(tmp_path, "a.txt", document())
    monkeypatch.setenv("STAFFEL_REDIS_URL", house.host.refused().replace("http", "redis"))
    finished = summarize(tmp_path)
    assert finished.code == 6
    assert "Redis does not answer at redis://127.0.0.1:" in finished.err
    monkeypatch.delenv("STAFFEL_REDIS_URL")
    assert summarize(tmp_path).code == 6
