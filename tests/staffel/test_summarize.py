"""`staffel summarize`: every document is a row, and a second run does only what is missing."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import House, Valkey
from tests.nodes.house import BIN
from tests.staffel.batch_house import PLACES, SLOTS, Typed, batch_house, document
from tests.staffel.papers import write


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> Iterator[House]:
    with batch_house(tmp_path_factory.mktemp("batch"), valkey, house.host) as made:
        yield made


@pytest.fixture
def summarize(there: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(there, monkeypatch, capsys)


@pytest.fixture
def word() -> str:
    """Stands in a test's own documents, so that its calls are told apart."""
    return uuid.uuid4().hex


def forget_jobs(house: House) -> None:
    with house.valkey.client as client:
        client.delete(*house.jobs())


class TestRows:
    def test_each_document_is_a_row_and_one_that_cannot_be_read_stops_no_other(
        self, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """A binary file, an empty one and one too long for the only stage stand beside one that is answered."""
        write(tmp_path, "a.txt", document(word))
        write(tmp_path, "binary.txt", bytes(range(256)) * 20)
        write(tmp_path, "empty.md", "")
        write(tmp_path, "long.txt", document(word) * 20)
        finished = summarize(tmp_path, "--chain", "short")
        assert finished.code == 1
        lines = {line.split()[0]: " ".join(line.split()) for line in finished.out.splitlines() if line.strip()}
        assert lines["a.txt"].startswith("a.txt 45 1 narrow 0.")
        assert lines["a.txt"].endswith(" 0.0000")
        assert lines["binary.txt"].startswith("binary.txt unreadable: binary file")
        assert lines["empty.md"] == "empty.md unreadable: empty"
        assert lines["long.txt"].startswith("long.txt 900 too long: about 1,")
        assert "Short." in finished.out
        assert lines["4"].startswith("4 documents, 1 answered 945 1")
        assert "Traceback" not in finished.out + finished.err

    def test_the_objects_of_json_are_what_the_docs_say(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """One object a line; its fields are those of the table in docs/summarize.md, in that order."""
        path = write(tmp_path, "a.txt", document(word))
        write(tmp_path, "b.pdf", "no PDF")
        rows = summarize.rows(tmp_path, code=1)
        page = (Path(__file__).parents[2] / "docs" / "summarize.md").read_text()
        documented = [line.split("`")[1::2] for line in page.splitlines() if line.startswith("| `")]
        assert list(rows["a.txt"]) == [field for cell in documented for field in cell if field in rows["a.txt"]]
        row = rows["a.txt"]
        assert row["path"] == str(path)
        assert (row["status"], row["reason"], row["stage"]) == ("answered", None, "good")
        assert (row["summary"], row["words"], row["summary_words"]) == ("In short, it is closed.", 45, 5)
        assert row["cost_usd"] > 0
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["answered"]
        assert row["attempts"] == json.loads(there.staffel("show", row["job"], "--json").out)["attempts"]
        assert (rows["b.pdf"]["status"], rows["b.pdf"]["attempts"]) == ("unreadable", [])
        assert rows["b.pdf"]["reason"]

    def test_a_job_that_no_stage_answers_is_a_row_with_its_story(self, summarize: Typed, tmp_path: Path) -> None:
        """Exit code 1, and the row says what each stage did."""
        write(tmp_path, "a.txt", document())
        write(tmp_path, "b.txt", document())
        row = summarize.rows(tmp_path, "--chain", "hopeless", code=1)["b.txt"]
        assert (row["status"], row["stage"], row["summary"]) == ("exhausted", None, None)
        assert row["reason"].startswith("broken server_error (500) ")
        assert "; broken-too throttled (429) " in row["reason"]
        assert len(row["attempts"]) == 2

    def test_a_request_that_a_stage_refuses_is_a_row(self, summarize: Typed, tmp_path: Path) -> None:
        """One document's fault is not the batch's."""
        write(tmp_path, "a.txt", document())
        row = summarize.rows(tmp_path, "--chain", "strict", code=1)["a.txt"]
        assert (row["status"], len(row["attempts"])) == ("refused", 1)

    def test_a_document_over_the_size_of_a_request_is_a_row_without_a_job(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """4 MB are taken; the others of the folder are answered all the same."""
        write(tmp_path, "a.txt", document(word))
        write(tmp_path, "huge.txt", "word " * 900_000)
        rows = summarize.rows(tmp_path, code=1)
        assert rows["a.txt"]["status"] == "answered"
        assert rows["huge.txt"]["status"] == "refused"
        assert "at most 4,000,000 are taken" in rows["huge.txt"]["reason"]
        assert rows["huge.txt"]["attempts"] == []

    def test_a_wider_stage_makes_a_long_document_possible(self, summarize: Typed, tmp_path: Path) -> None:
        """Only what is longer than every window is too long; of a stage whose window is not known nobody can say."""
        write(tmp_path, "long.txt", document() * 20)
        assert summarize.rows(tmp_path, "--chain", "long")["long.txt"]["status"] == "answered"

    def test_two_copies_of_a_text_are_one_job_and_cost_it_once(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
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

    def test_names_are_shown_as_they_are(self, summarize: Typed, tmp_path: Path) -> None:
        """Rich would take brackets for markup, and half characters cannot be printed at all."""
        names = ["[bold]a[/].txt", "[/red].txt", "ü b.txt", os.fsdecode(b"x\xff.txt")]
        for name in names:
            write(tmp_path, name, document())
        finished = summarize(tmp_path)
        assert finished.code == 0
        for said in ("[bold]a[/].txt", "[/red].txt", "ü b.txt", "x\N{REPLACEMENT CHARACTER}.txt"):
            assert said in finished.out
            assert said in finished.err
        assert set(summarize.rows(tmp_path)) == set(names)

    def test_a_path_is_found_once_however_often_it_is_typed(self, summarize: Typed, tmp_path: Path) -> None:
        """Files and folders may overlap."""
        path = write(tmp_path, "sub/a.txt", document())
        finished = summarize(path, tmp_path, tmp_path / "sub", "--json")
        assert len(finished.out.splitlines()) == 1


class TestAgain:
    def test_a_second_run_asks_nothing_that_is_answered(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """The job of a text is the same in every run, so its answer is found, and says the same."""
        write(tmp_path, "a.txt", document(word))
        first = summarize.rows(tmp_path)
        write(tmp_path, "b.txt", document(f"{word} again"))
        second = summarize.rows(tmp_path)
        assert second["a.txt"] == first["a.txt"]
        assert len(there.calls("good", word)) == 2

    def test_what_ended_unanswered_is_asked_anew(self, there: House, summarize: Typed, tmp_path: Path) -> None:
        """A stage that is mended meanwhile answers in the second run."""
        write(tmp_path, "a.txt", document())
        assert summarize.rows(tmp_path, "--chain", "flaky", code=1)["a.txt"]["status"] == "exhausted"
        assert summarize.rows(tmp_path, "--chain", "flaky")["a.txt"]["status"] == "answered"

    def test_another_chain_or_a_house_rule_is_another_job(self, summarize: Typed, tmp_path: Path) -> None:
        """Who asks another chain wants its answer; who says `--local-only` must not join a job that may leave."""
        write(tmp_path, "a.txt", document())
        runs = [("--chain", "long"), ("--chain", "short"), ("--chain", "long", "--local-only")]
        assert len({summarize.rows(tmp_path, *options)["a.txt"]["job"] for options in runs}) == 3
        again = summarize.rows(tmp_path, "--chain", "long", "--deadline", "60")["a.txt"]["job"]
        assert again == summarize.rows(tmp_path, "--chain", "long")["a.txt"]["job"]

    def test_an_interrupted_run_leaves_its_jobs_and_the_next_one_joins_them(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """Ctrl-C: one line, exit code 130; in the end each document was asked once."""
        for number in range(14):
            write(tmp_path, f"{number:02}.txt", document(f"{word} {number}"))
        child = there.spawn("summarize", str(tmp_path), "--chain", "slowly")
        eventually(lambda: len(there.calls("slow", word)) > SLOTS, "the first documents are answered")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert (child.returncode, out) == (130, "")
        last = err.splitlines()[-1]
        assert last.startswith("stopped: ")
        assert " of 14 documents are done, 8 in the queue go on; " in last
        assert "Traceback" not in err
        assert len(there.calls("slow", word)) < 14
        rows = summarize.rows(tmp_path, "--chain", "slowly")
        assert [row["status"] for row in rows.values()] == ["answered"] * 14
        assert len(there.calls("slow", word)) == 14


class TestOut:
    def test_each_summary_is_a_file_that_mirrors_its_document(self, summarize: Typed, tmp_path: Path) -> None:
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
        self, there: House, summarize: Typed, tmp_path: Path, word: str
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
        self, there: House, summarize: Typed, tmp_path: Path, word: str
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

    def test_a_folder_may_hold_its_own_summaries(self, summarize: Typed, tmp_path: Path) -> None:
        """They are Markdown files, and yet no documents."""
        write(tmp_path, "a.txt", document())
        summarize.rows(tmp_path, "--out", tmp_path)
        assert list(summarize.rows(tmp_path, "--out", tmp_path)) == ["a.txt"]

    def test_documents_of_one_name_get_files_of_their_own(self, summarize: Typed, tmp_path: Path) -> None:
        """Two folders are typed, each with an a.txt; later the second alone keeps its file."""
        for folder in ("x", "y"):
            write(tmp_path, f"{folder}/a.txt", document(folder))
        out = tmp_path / "out"
        finished = summarize(tmp_path / "x", tmp_path / "y", "--out", out)
        assert finished.code == 0
        assert "/x/a.txt" in finished.err
        assert len(list(out.glob("a.txt*.summary.md"))) == 2
        assert summarize.rows(tmp_path / "y", "--out", out)["a.txt"]["kept"]

    def test_a_summary_that_cannot_be_written_is_a_row_and_is_not_lost(self, summarize: Typed, tmp_path: Path) -> None:
        """The object still holds it."""
        write(tmp_path, "in/a.txt", document())
        (tmp_path / "out" / "a.txt.summary.md").mkdir(parents=True)
        row = summarize.rows(tmp_path / "in", "--out", tmp_path / "out", code=1)["a.txt"]
        assert (row["status"], row["file"]) == ("unwritten", None)
        assert row["reason"].endswith("a.txt.summary.md: is a directory")
        assert row["summary"] == "In short, it is closed."


class TestRefusals:
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
        self, there: House, summarize: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str], said: str
    ) -> None:
        """Exit code 2."""
        monkeypatch.chdir(tmp_path)
        write(tmp_path, "in/a.txt", document())
        (tmp_path / "empty").mkdir()
        before = there.jobs()
        finished = summarize(*arguments)
        assert (finished.code, finished.out) == (2, "")
        assert said in finished.err.splitlines()[-1]
        assert there.jobs() == before

    def test_with_json_a_refusal_is_an_object(self, summarize: Typed, tmp_path: Path) -> None:
        """A program reads one thing, whatever comes."""
        finished = summarize(tmp_path, "--json")
        assert finished.code == 2
        assert json.loads(finished.out)["exit_code"] == 2

    def test_without_a_worker_nothing_is_submitted(self, there: House, summarize: Typed, tmp_path: Path) -> None:
        """Exit code 6, and the command to type."""
        write(tmp_path, "a.txt", document())
        before = there.jobs()
        finished = summarize(tmp_path, "--chain", "unserved")
        assert finished.code == 6
        assert "no worker serves the lane 'attic'" in finished.err
        assert "celery -A worker worker -Q attic" in finished.err
        assert there.jobs() == before

    def test_without_a_redis_it_says_where_it_looked(
        self, summarize: Typed, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Exit code 6; nobody set one, or nobody answers there."""
        write(tmp_path, "a.txt", document())
        monkeypatch.setenv("STAFFEL_REDIS_URL", house.host.refused().replace("http", "redis"))
        finished = summarize(tmp_path)
        assert finished.code == 6
        assert "Redis does not answer at redis://127.0.0.1:" in finished.err
        monkeypatch.delenv("STAFFEL_REDIS_URL")
        assert summarize(tmp_path).code == 6


class TestUnderWay:
    def test_hundreds_of_documents_never_fill_the_queue(
        self, there: House, summarize: Typed, tmp_path: Path, word: str
    ) -> None:
        """At most four times what the lane runs at once waits there, and it does run dry for none of them."""
        for number in range(300):
            write(tmp_path, f"{number:03}.txt", document(f"{word} {number}"))
        waiting, over = list[int](), threading.Event()

        def sample() -> None:
            with there.valkey.client as client:
                while not over.wait(0.005):
                    waiting.append(int(client.llen("cloud")))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            finished = summarize(tmp_path)
        finally:
            over.set()
            sampler.join()
        assert finished.code == 0
        assert len(there.calls("good", word)) == 300
        assert len(finished.err.splitlines()) == 301  # the Redis that is used, then a line for each
        assert PLACES - 2 * SLOTS <= max(waiting) <= PLACES
        assert there.host.most_at_once(there.urls["good"]) == SLOTS

    def test_a_lane_without_a_worker_is_told_while_documents_wait_there(
        self, there: House, summarize: Typed, tmp_path: Path
    ) -> None:
        """Once, and the documents end at their deadline as rows."""
        for name in ("a.txt", "b.txt"):
            write(tmp_path, name, document())
        finished = summarize(tmp_path, "--chain", "half-served", "--deadline", "3")
        assert finished.code == 1
        assert finished.err.count("documents wait: no worker serves the lane 'attic'") == 1
        assert finished.out.count("expired: broken server_error (500)") == 2

    def test_a_redis_that_goes_away_meanwhile_ends_the_run_with_a_line(
        self, there: House, tmp_path: Path
    ) -> None:
        """Exit code 6; the worker here is only said to live, so that the job waits."""
        own = Valkey.started(tmp_path / "state")
        try:
            with there.valkey.client as theirs, own.client as ours:
                ours.set(keys.CATALOGUE, theirs.get(keys.CATALOGUE))
                ours.zadd(keys.WORKERS, {"cloud/nobody/1": 1e15})
                path = write(tmp_path, "a.txt", document())
                child = subprocess.Popen(
                    [BIN / "staffel", "summarize", path], env={**there.environ, "STAFFEL_REDIS_URL": own.url},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )  # fmt: skip
                eventually(lambda: ours.llen("cloud"), "the document is in the queue")
        finally:
            own.stop()
        out, err = child.communicate(timeout=20)
        assert (child.returncode, out) == (6, "")
        assert "Redis does not answer" in err.splitlines()[-1]
        assert "0 of 1 documents are done, 1 in the queue go on" in err.splitlines()[-1]
        assert "Traceback" not in err

    def test_a_reader_that_has_enough_ends_the_run_without_a_traceback(self, there: House, tmp_path: Path) -> None:
        """As in `staffel summarize --json ... | head -1`."""
        for number in range(12):
            write(tmp_path, f"{number}.txt", document())
        child = there.spawn("summarize", str(tmp_path), "--chain", "slowly", "--json")
        assert child.stdout is not None
        assert child.stdout.readline()
        child.stdout.close()
        assert child.wait(20) == 1
        assert child.stderr is not None
        with child.stderr:
            assert child.stderr.read() == ""

    def test_on_a_terminal_a_bar_counts_what_is_done_and_what_failed(self, there: House, tmp_path: Path) -> None:
        """On stderr; the table on stdout is not disturbed."""
        write(tmp_path, "a.txt", document())
        write(tmp_path, "b.txt", "")
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [BIN / "staffel", "summarize", tmp_path], env={**there.environ, "TERM": "xterm"}, stderr=theirs,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(theirs)
        out, _ = child.communicate(timeout=20)
        seen = b""
        with suppress(OSError):  # the terminal's end
            while part := os.read(ours, 65536):
                seen += part
        os.close(ours)
        assert child.returncode == 1
        assert "2/2" in seen.decode()
        assert "1 failed" in seen.decode()
        assert "2 documents, 1 answered" in out
        assert "\x1b" not in out
