"""The folder of summaries names its files, remembers whose they are, and bears what may have happened to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from staffel.batch.folder import LIST, SummaryFolder
from staffel.batch.summaries import Row, Status
from staffel.errors import Invalid
from tests.staffel.documents.papers import write


def row(path: Path) -> Row:
    """A document that has been read."""
    return Row(str(path), path.name, Status.UNREADABLE, words=100)


def answered(path: Path) -> Row:
    attempt = {"n": 1, "stage": "local"}
    return replace(
        row(path), status=Status.ANSWERED, summary="Short.", stage="local", cost_usd=None, duration_s=1.5,
        attempts=(attempt,), job="some-job",
    )  # fmt: skip


def filed(folder: SummaryFolder, path: Path, place: str = "", digest: str = "1") -> str:
    """Keep the summary of one document; returns its file."""
    file = folder.files([(path, Path(place or path.name))])[path]
    kept = folder.keep(answered(path), file, digest)
    assert kept.file == str(folder.root / file), kept.reason
    return file


def test_what_was_kept_comes_back_whole(tmp_path: Path) -> None:
    """All that the row said, in a run that begins with nothing but the folder."""
    path = write(tmp_path, "a.txt", "x")
    file = filed(SummaryFolder(tmp_path / "out"), path)
    again = SummaryFolder(tmp_path / "out")
    expected = replace(answered(path), file=str(tmp_path / "out" / file), kept=True)
    assert again.kept(row(path), file, "1") == expected
    assert again.kept(row(path), file, "2") is None


def test_nothing_but_whole_files_lies_there(tmp_path: Path) -> None:
    """What is written takes the name when it is finished."""
    filed(SummaryFolder(tmp_path / "out"), write(tmp_path, "a.txt", "x"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [LIST, "a.txt.summary.md"]
    assert (tmp_path / "out" / "a.txt.summary.md").stat().st_mode & 0o777 == (tmp_path / "a.txt").stat().st_mode & 0o777


@pytest.mark.parametrize(
    "line",
    ['{"file": "a.txt.summ', "", "[]", "7", '{"file": 1, "source": "", "digest": "1", "row": {}}', "\udcff"],
    ids=["half", "empty", "list", "number", "wrong kinds", "no UTF-8"],
)
def test_a_broken_line_costs_nothing_but_itself(tmp_path: Path, line: str) -> None:
    """A crash leaves half a line; what is written after it is a line of its own."""
    out = tmp_path / "out"
    first = filed(SummaryFolder(out), write(tmp_path, "a.txt", "x"))
    with (out / LIST).open("ab") as file:
        file.write(line.encode(errors="surrogateescape"))
    second = filed(SummaryFolder(out), write(tmp_path, "b.txt", "x"))
    folder = SummaryFolder(out)
    assert folder.kept(row(tmp_path / "a.txt"), first, "1")
    assert folder.kept(row(tmp_path / "b.txt"), second, "1")


def test_an_edited_list_neither_breaks_a_run_nor_leads_it_elsewhere(tmp_path: Path) -> None:
    """An entry that lacks something is done anew; a file outside the folder is none of ours."""
    out, path = tmp_path / "out", write(tmp_path, "a.txt", "x")
    file = filed(SummaryFolder(out), path)
    found = json.loads((out / LIST).read_text())
    (out / LIST).write_text(json.dumps({**found, "row": {"stage": "local"}}) + "\n")
    assert SummaryFolder(out).kept(row(path), file, "1") is None
    for outside in ("../b.md", str(tmp_path / "b.md")):
        (out / LIST).write_text(json.dumps({**found, "file": outside}) + "\n")
        assert SummaryFolder(out).files([(path, Path("a.txt"))]) == {path: "a.txt.summary.md"}


def test_a_name_that_belongs_to_another_document_is_not_taken(tmp_path: Path) -> None:
    """In this run or in an earlier one; and once chosen, a name stays whatever is typed."""
    first, second = write(tmp_path, "x/a.txt", "x"), write(tmp_path, "y/a.txt", "x")
    out = tmp_path / "out"
    assert filed(SummaryFolder(out), first) == "a.txt.summary.md"
    marked = filed(SummaryFolder(out), second)
    assert marked.startswith("a.txt-")
    both = SummaryFolder(out).files([(second, Path("a.txt")), (first, Path("a.txt"))])
    assert both == {second: marked, first: "a.txt.summary.md"}
    assert SummaryFolder(out).files([(second, Path("y/a.txt"))]) == {second: marked}


def test_names_that_some_file_systems_cannot_tell_apart_are_made_different(tmp_path: Path) -> None:
    """Capitals, and an umlaut as one character or as two."""
    paths = [tmp_path / name for name in ("a.txt", "A.txt", "\u00fc.txt", "u\u0308.txt")]
    files = SummaryFolder(tmp_path / "out").files((path, Path(path.name)) for path in paths)
    assert [file.partition("-")[1] for file in files.values()] == ["", "-", "", "-"]


def test_documents_that_were_moved_keep_their_summaries(tmp_path: Path) -> None:
    """The name is free once its document is gone from where it was, and the text is the same."""
    path, out = write(tmp_path, "old/a.txt", "x"), tmp_path / "out"
    filed(SummaryFolder(out), path)
    (tmp_path / "old").rename(tmp_path / "new")
    folder, moved = SummaryFolder(out), tmp_path / "new" / "a.txt"
    file = folder.files([(moved, Path("a.txt"))])[moved]
    assert folder.kept(row(moved), file, "1")


def test_the_longest_names_that_a_file_may_have_are_shortened(tmp_path: Path) -> None:
    """255 bytes; two that begin alike still get files of their own."""
    out = SummaryFolder(tmp_path / "out")
    paths = [write(tmp_path, f"{'ü' * 120}{end}.txt", "x") for end in "ab"]
    files = out.files((path, Path(path.name)) for path in paths)
    assert len(set(files.values())) == 2
    assert all(out.keep(answered(path), file, "1").answered for path, file in files.items())


def test_a_folder_that_cannot_be_made_is_refused_with_its_reason(tmp_path: Path) -> None:
    """Before anything is asked."""
    with pytest.raises(Invalid, match=r"^--out .*/a\.txt/out: cannot be written to: not a directory$"):
        SummaryFolder(write(tmp_path, "a.txt", "x") / "out")
    with pytest.raises(Invalid, match=r"^--out x: cannot be written to: .*null"):
        SummaryFolder(Path("x\0"))
