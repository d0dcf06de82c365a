"""`--out`: a file for each summary, and no question asked twice."""

from __future__ import annotations

from pathlib import Path

from tests.nodes import House
from tests.staffel.documents.papers import write
from tests.staffel.summarize.house import Typed, document, forget_jobs


def test_each_summary_is_a_file_that_mirrors_its_document(summarize: Typed, tmp_path: Path) -> None:
    """Below the folder that was typed; the summaries are not printed then."""
    write(tmp_path, "in/a.txt", document())
    write(tmp_path, "in/sub/a.txt", document())
    named = write(tmp_path, "b.md", document())
    out = tmp_path / "out" / "deep"
    finished = summarize(tmp_path / "in", named, "--out", out)
    assert finished.code == 0
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {
        "a.txt.summary.md", "sub/a.txt.summary.md", "b.md.summary.md", ".staffel-summaries.jsonl"
    }  # fmt: skip
    assert (out / "a.txt.summary.md").read_text() == "In short, it is closed.\n"
    assert "In short" not in finished.out


def test_a_summary_that_is_there_is_not_even_asked_for(
    there: House, summarize: Typed, tmp_path: Path, word: str
) -> None:
    """Also when Redis has long forgotten its job; the row says the same, and that it was kept."""
    write(tmp_path, "in/a.txt", document(word))
    options = (tmp_path / "in", "--out", tmp_path / "out")
    first = summarize.rows(*options)["a.txt"]
    forget_jobs(there)
    for chain in ("default", "long"):
        assert summarize.rows(*options, "--chain", chain)["a.txt"] == {**first, "kept": True}
    assert there.jobs() == set()
    assert len(there.calls("good", word)) == 1


def test_a_changed_document_and_a_lost_summary_are_done_anew(
    there: House, summarize: Typed, tmp_path: Path, word: str
) -> None:
    """And nothing else is."""
    for name in ("a.txt", "b.txt", "c.txt"):
        write(tmp_path, f"in/{name}", document(f"{word} {name}"))
    options = (tmp_path / "in", "--out", tmp_path / "out")
    summarize.rows(*options)
    forget_jobs(there)
    write(tmp_path, "in/a.txt", document(f"{word} a.txt, and is new"))
    (tmp_path / "out" / "b.txt.summary.md").unlink()
    rows = summarize.rows(*options)
    assert {name: row["kept"] for name, row in rows.items()} == {"a.txt": False, "b.txt": False, "c.txt": True}
    assert len(there.calls("good", word)) == 5
    assert {row["kept"] for row in summarize.rows(*options).values()} == {True}


def test_a_folder_may_hold_its_own_summaries(summarize: Typed, tmp_path: Path) -> None:
    """They are Markdown files, and yet no documents."""
    write(tmp_path, "a.txt", document())
    summarize.rows(tmp_path, "--out", tmp_path)
    assert list(summarize.rows(tmp_path, "--out", tmp_path)) == ["a.txt"]


def test_documents_of_one_name_get_files_of_their_own(summarize: Typed, tmp_path: Path) -> None:
    """Two folders are typed, each with an a.txt; later the second alone keeps its file."""
    for folder in ("x", "y"):
        write(tmp_path, f"{folder}/a.txt", document(folder))
    out = tmp_path / "out"
    finished = summarize(tmp_path / "x", tmp_path / "y", "--out", out)
    assert finished.code == 0
    assert "/x/a.txt" in finished.err
    assert len(list(out.glob("a.txt*.summary.md"))) == 2
    assert summarize.rows(tmp_path / "y", "--out", out)["a.txt"]["kept"]


def test_a_summary_that_cannot_be_written_is_a_row_and_is_not_lost(summarize: Typed, tmp_path: Path) -> None:
    """The object still holds it."""
    write(tmp_path, "in/a.txt", document())
    (tmp_path / "out" / "a.txt.summary.md").mkdir(parents=True)
    row = summarize.rows(tmp_path / "in", "--out", tmp_path / "out", code=1)["a.txt"]
    assert (row["status"], row["file"]) == ("unwritten", None)
    assert row["reason"].endswith("a.txt.summary.md: is a directory")
    assert row["summary"] == "In short, it is closed."
