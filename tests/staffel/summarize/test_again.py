"""A second run does only what is missing."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.eventually import eventually
from tests.nodes import House
from tests.staffel.documents.papers import write
from tests.staffel.summarize.house import PLACES, SLOTS, Typed, document


def test_a_second_run_asks_nothing_that_is_answered(there: House, summarize: Typed, tmp_path: Path, word: str) -> None:
    """The job of a text is the same in every run, so its answer is found, and says the same."""
    write(tmp_path, "a.txt", document(word))
    first = summarize.rows(tmp_path)
    write(tmp_path, "b.txt", document(f"{word} again"))
    second = summarize.rows(tmp_path)
    assert second["a.txt"] == first["a.txt"]
    assert len(there.calls("good", word)) == 2


def test_what_ended_unanswered_is_asked_anew(summarize: Typed, tmp_path: Path) -> None:
    """A stage that is mended meanwhile answers in the second run."""
    write(tmp_path, "a.txt", document())
    assert summarize.rows(tmp_path, "--chain", "flaky", code=1)["a.txt"]["status"] == "exhausted"
    assert summarize.rows(tmp_path, "--chain", "flaky")["a.txt"]["status"] == "answered"


def test_another_chain_or_a_house_rule_is_another_job(summarize: Typed, tmp_path: Path) -> None:
    """Who asks another chain wants its answer; who says `--local-only` must not join a job that may leave."""
    write(tmp_path, "a.txt", document())
    runs = [("--chain", "long"), ("--chain", "short"), ("--chain", "long", "--local-only")]
    assert len({summarize.rows(tmp_path, *options)["a.txt"]["job"] for options in runs}) == 3
    again = summarize.rows(tmp_path, "--chain", "long", "--deadline", "60")["a.txt"]["job"]
    assert again == summarize.rows(tmp_path, "--chain", "long")["a.txt"]["job"]


def test_an_interrupted_run_leaves_its_jobs_and_the_next_one_joins_them(
    there: House, summarize: Typed, tmp_path: Path, word: str
) -> None:
    """Ctrl-C: one line, exit code 130; in the end each document was asked once."""
    for number in range(14):
        write(tmp_path, f"{number:02}.txt", document(f"{word} {number}"))
    child = there.spawn("summarize", str(tmp_path), "--chain", "slowly")
    eventually(lambda: len(there.calls("slow", word)) > SLOTS, "the first documents are answered")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, "")
    last = err.rstrip().splitlines()[-1]
    assert last.startswith("stopped: ")
    done, queued = map(int, re.findall(r"(\d+) (?:of 14 documents are done|in the queue go on)", last))
    assert done + queued <= SLOTS + PLACES + 2
    assert 0 < queued <= PLACES
    assert "Traceback" not in err
    assert len(there.calls("slow", word)) < 14
    rows = summarize.rows(tmp_path, "--chain", "slowly")
    assert [row["status"] for row in rows.values()] == ["answered"] * 14
    assert len(there.calls("slow", word)) == 14
