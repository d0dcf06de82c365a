"""What of a child's lines a person on duty sees."""

from __future__ import annotations

import pytest

from staffel.supervisor.log import LastWords, read
from staffel.supervisor.patience import CALM_S, RESTARTS, Patience

HEAD = "[2026-11-30 12:04:43,187: INFO/MainProcess] "
ERROR = HEAD.replace("INFO", "ERROR")
JOB = "8f37340d-2a44-4a23-bbe2-788199cb82cf"


@pytest.mark.parametrize(
    "line",
    [
        HEAD + "Connected to redis://:**@127.0.0.1:6379/0",
        HEAD + "mingle: all alone",
        HEAD + "cloud@box ready.",
        HEAD + f"Task tasks.ask[{JOB}] received",
        HEAD + f"Task tasks.ask[{JOB}] ignored",
        "[I 261130 12:04:42 command:177] Visit me at http://127.0.0.1:5599",
        "[W 261130 12:04:44 inspector:98] Inspect method active_queues failed",
        "worker: Warm shutdown (MainProcess)",
        "Traceback (most recent call last):",
        "",
    ],
)
def test_what_celery_and_flower_say_of_themselves_is_not_shown(line: str) -> None:
    """Starts, receipts and tracebacks help nobody at night."""
    assert not read(line.encode()).is_shown


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        (HEAD + f"job {JOB} 1/2 primary failed connect 0.03 s", "INFO", f"job {JOB} 1/2 primary failed connect 0.03 s"),
        (HEAD + f"Task tasks.ask[{JOB}] succeeded in 0.35s: 1 failed → local 0.3 s", "INFO",
         f"job {JOB} answered: 1 failed → local 0.3 s"),
        (HEAD + f"Task tasks.ask[{JOB}] raised expected: Exhausted('exhausted: primary 0.0 s')", "INFO",
         f"job {JOB} exhausted: primary 0.0 s"),
        ("[2026-11-30 12:04:43,187: ERROR/MainProcess] consumer: Cannot connect", "ERROR", "consumer: Cannot connect"),
        ("[W 261130 12:04:44 web:98] 404 GET /x (127.0.0.1)", "WARNING", "404 GET /x (127.0.0.1)"),
    ],
)  # fmt: skip
def test_what_is_shown_is_said_in_plain_words(line: str, level: str, text: str) -> None:
    """Jobs are jobs, and warnings keep their level."""
    shown = read(line.encode())
    assert shown.is_shown
    assert (shown.level, shown.text) == (level, text)


def test_bytes_that_are_no_text_are_shown_as_well_as_they_can_be() -> None:
    """A child's mistake in encoding must not end the supervisor."""
    assert read(b"[W 261130 12:04:44 web:98] \xff\xfe").text == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([HEAD + "cloud@box ready."], ""),
        (["Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: no"], "ValueError: no"),
        ([ERROR + "Unrecoverable error: KeyError()", "Traceback (most recent call last):", "KeyError"],
         "Unrecoverable error: KeyError()"),
        ([ERROR + "consumer: Cannot connect", "Trying again", HEAD + "Connected to redis", "no stage runs on 'x'"],
         "no stage runs on 'x'"),
    ],
)  # fmt: skip
def test_a_childs_last_words_are_its_last_error_or_the_end_of_its_traceback(lines: list[str], words: str) -> None:
    """Lines that follow a logged error belong to it."""
    last = LastWords()
    for line in lines:
        last.hear(read(line.encode()))
    assert last.text == words


def test_an_error_that_was_lived_through_is_not_why_it_died() -> None:
    """Ten seconds later nobody should be sent after it."""
    now = [100.0]
    last = LastWords(lambda: now[0])
    last.hear(read(ERROR.encode() + b"consumer: Cannot connect"))
    assert last.text
    now[0] += 11
    assert last.text == ""


def test_three_restarts_are_all_until_ten_calm_minutes_have_passed() -> None:
    """A worker that dies once a day does not end the service on the fourth day."""
    now = [0.0]
    patience = Patience(lambda: now[0])
    assert [patience.left() for _ in range(RESTARTS + 1)] == [True] * RESTARTS + [False]
    now[0] += CALM_S + 1
    assert patience.left()
    assert patience.used == 1
