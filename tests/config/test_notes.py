"""What is sound and worth a line all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.file import Read
from config.notes import NOT_ENFORCED
from config.stages import StageTable

Reading = Callable[..., Read]

STAGE = "[stages.a]\nprovider = 'scripted'\n"
CHAIN = "[chains.default]\nstages = ['a']\n"


def notes(read: Reading, text: str) -> dict[str, str]:
    found = read(f"{STAGE}{text}\n{CHAIN}").notes
    assert len({note.path for note in found}) == len(found), "one line a key"
    return {note.path: note.text for note in found}


@pytest.mark.parametrize("key", NOT_ENFORCED)
def test_a_key_that_does_nothing_yet_is_a_key(key: str) -> None:
    """A note about a key that nobody can write would never be seen."""
    assert key in StageTable.model_fields


def test_keys_that_do_nothing_yet_are_told_and_stop_nothing(read: Reading) -> None:
    """Someone who sets a date must not believe that it is looked at."""
    text = "timeout = 5\nretires_on = 2027-04-14\nmax_in_flight = 1\nlimit_group = 'g'"
    sentence = "is checked but does nothing yet"
    assert notes(read, text) == {f"stages.a.{key}": sentence for key in NOT_ENFORCED}


@pytest.mark.parametrize(
    ("text", "window", "timeout", "enough"),
    [
        ("", "10", "60", "300"),
        ("timeout = 10.5", "10", "10.5", "52.5"),
        ("breaker = { window = 59, min_calls = 2 }", "59", "60", "120"),
        ("breaker = { min_calls = 1_000_000 }", "10", "60", "86400"),
    ],
)
def test_a_window_that_is_shorter_than_a_call_is_told(
    read: Reading, text: str, window: str, timeout: str, enough: str
) -> None:
    """On a serial lane no two calls of a minute end within ten seconds: the ratio is never judged."""
    sentence = (
        f"{window} s, but a call may take {timeout} s (timeout): slow failures one after the other never come together "
        f"in it, and only consecutive_failures opens; write some calls' time, {enough}"
    )
    assert notes(read, text) == {"stages.a.breaker.window": sentence}


@pytest.mark.parametrize("text", ["timeout = 10", "breaker = { window = 60 }", "breaker = { window = 300 }"])
def test_a_window_as_long_as_a_call_is_no_matter(read: Reading, text: str) -> None:
    """What is written instead, as the note says, is not told again."""
    assert notes(read, text) == {}


@pytest.mark.parametrize("text", ["num_ctx = 8192", "keep_alive = '5m'", "cold_load_timeout = 60"])
def test_a_key_of_ollamas_alone_is_told_elsewhere(read: Reading, text: str) -> None:
    """Someone who sets a window for OpenAI must not believe that it is one."""
    key = text.partition(" ")[0]
    sentence = "does nothing here: only stages with provider = \"ollama\" have it, this one has 'scripted'"
    assert notes(read, f"timeout = 5\n{text}") == {f"stages.a.{key}": sentence}


def test_a_key_of_lanes_alone_is_told_at_a_cloud(read: Reading) -> None:
    """Only a host that does one thing at a time is let cool off."""
    sentence = "does nothing here: only stages of a lane that runs one request at a time have it"
    assert notes(read, "timeout = 5\ncool_off = 2") == {"stages.a.cool_off": sentence}
    assert notes(read, "timeout = 5\ncool_off = 2\nlane = 'slow'") == {}
