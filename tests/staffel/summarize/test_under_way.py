"""While a batch runs: how much is in the queue, what a person sees, and what may go wrong around it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from staffel_wire import keys
from tests.eventually import eventually
from tests.nodes import House, Valkey
from tests.nodes.house import BIN
from tests.staffel.documents.papers import write
from tests.staffel.summarize.house import PLACES, SLOTS, Typed, document, drained


def test_hundreds_of_documents_never_fill_the_queue(there: House, summarize: Typed, tmp_path: Path, word: str) -> None:
    """At most four times what the lane runs at once waits there, and it does run dry for none of them."""
    for number in range(300):
        write(tmp_path, f"{number:03}.txt", document(f"{word} {number}"))
    waiting, over = list[int](), threading.Event()

    def sample() -> None:
        with there.valkey.client as client:
            while not over.wait(0.005):
                waiting.append(int(client.llen("cloud.batch")))

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
    assert SLOTS < max(waiting) <= PLACES
    assert there.host.most_at_once(there.urls["good"]) <= SLOTS


def test_a_lane_without_a_worker_is_told_while_documents_wait_there(summarize: Typed, tmp_path: Path) -> None:
    """Once, and the documents end at their deadline as rows."""
    for name in ("a.txt", "b.txt"):
        write(tmp_path, name, document())
    finished = summarize(tmp_path, "--chain", "half-served", "--deadline", "3")
    assert finished.code == 1
    assert finished.err.count("documents wait: no worker serves the lane 'attic'") == 1
    assert finished.out.count("expired: broken server_error (500)") == 2


def test_a_redis_that_goes_away_meanwhile_ends_the_run_with_a_line(there: House, tmp_path: Path) -> None:
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
            eventually(lambda: ours.llen("cloud.batch"), "the document is in the queue")
    finally:
        own.stop()
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (6, "")
    assert "Redis does not answer" in err.splitlines()[-1]
    assert "0 of 1 documents are done, 1 in the queue go on" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_reader_that_has_enough_ends_the_run_without_a_traceback(there: House, tmp_path: Path) -> None:
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
    drained(there)


def test_on_a_terminal_a_bar_counts_what_is_done_and_what_failed(there: House, tmp_path: Path) -> None:
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


def test_a_job_that_is_gone_from_redis_is_a_row(there: House, tmp_path: Path) -> None:
    """Somebody emptied the database, or its memory was too small; the run says so and does not wait for ever."""
    write(tmp_path, "a.txt", document())
    before = there.jobs()
    child = there.spawn("summarize", str(tmp_path), "--chain", "half-served", "--json")
    with there.valkey.client as client:
        waiting = client.llen("attic.batch")
        eventually(lambda: client.llen("attic.batch") > waiting, "the document waits for a worker that is not there")
        client.delete(*there.jobs() - before)
    out, err = child.communicate(timeout=20)
    assert child.returncode == 1
    row = json.loads(out)
    assert (row["status"], row["job"] in row["reason"], row["attempts"]) == ("lost", True, [])
    assert "Traceback" not in err
