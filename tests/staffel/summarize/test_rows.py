"""Every document is a row, whatever becomes of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.nodes import House
from tests.staffel.documents.papers import write
from tests.staffel.summarize.house import Typed, document


def test_each_document_is_a_row_and_one_that_cannot_be_read_stops_no_other(
    summarize: Typed, tmp_path: Path, word: str
) -> None:
    """A binary file, an empty one and one too long for the only stage stand beside one that is answered."""
    write(tmp_path, "a.txt", document(word))
    write(tmp_path, "binary.txt", bytes(range(256)) * 20)
    write(tmp_path, "empty.md", "")
    write(tmp_path, "long.txt", document(word) * 20)
    finished = summarize(tmp_path, "--chain", "short")
    assert finished.code == 1
    lines = {line.split()[0]: " ".join(line.split()) for line in finished.out.splitlines() if line.strip()}
    assert lines["a.txt"].startswith("a.txt 39 1 narrow 0.")
    assert lines["a.txt"].endswith(" 0.0000")
    assert lines["binary.txt"].startswith("binary.txt unreadable: binary file")
    assert lines["empty.md"] == "empty.md unreadable: empty"
    assert lines["long.txt"].startswith("long.txt 780 too long: about 1,")
    assert "Short." in finished.out
    assert lines["4"].startswith("4 documents, 1 answered 819 1")
    assert "Traceback" not in finished.out + finished.err


def test_the_objects_of_json_are_what_the_docs_say(there: House, summarize: Typed, tmp_path: Path, word: str) -> None:
    """One object a line; its fields are those of the table in docs/summarize.md, in that order."""
    path = write(tmp_path, "a.txt", document(word))
    write(tmp_path, "b.pdf", "no PDF")
    rows = summarize.rows(tmp_path, code=1)
    page = (Path(__file__).parents[3] / "docs" / "summarize.md").read_text()
    documented = [line.split("`")[1::2] for line in page.splitlines() if line.startswith("| `")]
    assert list(rows["a.txt"]) == [field for cell in documented for field in cell if field in rows["a.txt"]]
    row = rows["a.txt"]
    assert row["path"] == str(path)
    assert (row["status"], row["reason"], row["stage"]) == ("answered", None, "good")
    assert (row["summary"], row["words"], row["summary_words"]) == ("In short, it is closed.", 39, 5)
    assert row["cost_usd"] > 0
    assert [attempt["outcome"] for attempt in row["attempts"]] == ["answered"]
    assert row["attempts"] == json.loads(there.staffel("show", row["job"], "--json").out)["attempts"]
    assert (rows["b.pdf"]["status"], rows["b.pdf"]["attempts"]) == ("unreadable", [])
    assert rows["b.pdf"]["reason"]


def test_a_job_that_no_stage_answers_is_a_row_with_its_story(summarize: Typed, tmp_path: Path) -> None:
    """Exit code 1, and the row says what each stage did."""
    write(tmp_path, "a.txt", document())
    write(tmp_path, "b.txt", document())
    row = summarize.rows(tmp_path, "--chain", "hopeless", code=1)["b.txt"]
    assert (row["status"], row["stage"], row["summary"]) == ("exhausted", None, None)
    assert row["reason"].startswith("broken server_error (500) ")
    assert "; broken-too overloaded (529) " in row["reason"]
    assert len(row["attempts"]) == 2


def test_a_request_that_a_stage_refuses_is_a_row(summarize: Typed, tmp_path: Path) -> None:
    """One document's fault is not the batch's."""
    write(tmp_path, "a.txt", document())
    row = summarize.rows(tmp_path, "--chain", "rigid", code=1)["a.txt"]
    assert (row["status"], len(row["attempts"])) == ("refused", 1)


def test_a_document_over_the_size_of_a_request_is_a_row_without_a_job(
    summarize: Typed, tmp_path: Path, word: str
) -> None:
    """4 MB are taken; the others of the folder are answered all the same."""
    write(tmp_path, "a.txt", document(word))
    write(tmp_path, "huge.txt", "word " * 900_000)
    rows = summarize.rows(tmp_path, code=1)
    assert rows["a.txt"]["status"] == "answered"
    assert rows["huge.txt"]["status"] == "refused"
    assert "at most 4,000,000 are taken" in rows["huge.txt"]["reason"]
    assert rows["huge.txt"]["attempts"] == []


def test_a_wider_stage_makes_a_long_document_possible(summarize: Typed, tmp_path: Path) -> None:
    """Only what is longer than every window is too long; of a stage whose window is not known nobody can say."""
    write(tmp_path, "long.txt", document() * 20)
    assert summarize.rows(tmp_path, "--chain", "long")["long.txt"]["status"] == "answered"


def test_two_copies_of_a_text_are_one_job_and_cost_it_once(
    there: House, summarize: Typed, tmp_path: Path, word: str
) -> None:
    """Each is a row of its own."""
    for name in ("a.txt", "b.txt", "sub/c.md"):
        write(tmp_path, name, document(word))
    finished = summarize(tmp_path)
    assert finished.code == 0
    assert len(there.calls("good", word)) == 1
    costs = [line.split()[-1] for line in finished.out.splitlines() if " good " in line or "answered " in line]
    assert len(costs) == 5  # the header, three rows, the sums
    assert len(set(costs[1:])) == 1


def test_names_are_shown_as_they_are(summarize: Typed, tmp_path: Path) -> None:
    """Rich would take brackets for markup, and half characters cannot be printed at all."""
    names = ["[bold]a[/].txt", "[red].txt", "c\\[.txt", "ü b.txt", os.fsdecode(b"x\xff.txt")]
    for name in names:
        write(tmp_path, name, document())
    finished = summarize(tmp_path)
    assert finished.code == 0
    for name in (*names[:-1], "x\N{REPLACEMENT CHARACTER}.txt"):
        assert f"/5 {name}: good\n" in re.sub(r"\d+/5", "/5", finished.err)
        assert f"\n  {name} " in finished.out
    assert set(summarize.rows(tmp_path)) == {Path(name).name for name in names}


def test_a_path_is_found_once_however_often_it_is_typed(summarize: Typed, tmp_path: Path) -> None:
    """Files and folders may overlap."""
    path = write(tmp_path, "sub/a.txt", document())
    finished = summarize(path, tmp_path, tmp_path / "sub", "--json")
    assert len(finished.out.splitlines()) == 1
