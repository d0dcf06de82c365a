"""What was typed becomes documents, each with a place below it and a name of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffel.batch.sources import sources
from tests.staffel.documents.papers import write


def test_a_place_is_below_the_folder_that_was_typed(tmp_path: Path) -> None:
    """A file that was typed has none but its name."""
    write(tmp_path, "in/sub/a.txt", "x")
    single = write(tmp_path, "elsewhere/b.txt", "x")
    assert [(str(s.place), s.name) for s in sources([tmp_path / "in", single])] == [
        ("sub/a.txt", "sub/a.txt"),
        ("b.txt", "b.txt"),
    ]


def test_documents_that_share_a_place_are_named_by_their_paths(tmp_path: Path) -> None:
    """Else nobody could tell which is which."""
    first, second = write(tmp_path, "x/a.txt", "x"), write(tmp_path, "y/a.txt", "x")
    assert [s.name for s in sources([tmp_path / "x", tmp_path / "y"])] == [str(first), str(second)]


def test_no_place_leads_out_of_the_folder_of_summaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`../b.txt` beside `.`: pathlib takes it for something below."""
    write(tmp_path, "in/a.txt", "x")
    write(tmp_path, "b.txt", "x")
    monkeypatch.chdir(tmp_path / "in")
    assert [str(s.place) for s in sources([Path(), Path("../b.txt"), Path("../in/../b.txt")])] == ["a.txt", "b.txt"]


def test_summaries_are_no_documents_unless_they_are_typed(tmp_path: Path) -> None:
    """Those in the folder of `--out`; elsewhere a file may be called so."""
    write(tmp_path, "a.txt", "x")
    ours = write(tmp_path, "out/a.txt.summary.md", "x")
    other = write(tmp_path, "b.summary.md", "x")
    out = tmp_path / "out"
    assert [s.path for s in sources([tmp_path], out)] == [tmp_path / "a.txt", other]
    assert [s.path for s in sources([ours], out)] == [ours]
    assert len(sources([tmp_path])) == 3
