"""What the table says of a lane."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from staffel.lanes_table import lanes_table

ROW: dict[str, Any] = {
    "kind": "lane", "stage": None, "lane": "ollama", "waiting": 0, "interactive": 0, "batch": 0, "in_queue": 0,
    "oldest_s": None,
    "in_hand": 0, "running_since": None, "running_s": None, "calls_seen": 0, "call_s": None, "calls_per_minute": None,
    "tokens_per_second": None, "eta_s": None, "eta_from_s": None, "eta_to_s": None, "busy_share": None, "owner": None,
    "standby": [], "workers": [], "at": "2027-01-15T08:00:00.000Z",
}  # fmt: skip
OWNER = "ollama/ollama@home/12-ab"
BUSY = {
    "waiting": 17, "interactive": 5, "batch": 12, "in_queue": 17, "oldest_s": 31.2, "in_hand": 2, "running_s": 0.7,
    "calls_seen": 20, "call_s": 1.26, "calls_per_minute": 47.6, "tokens_per_second": 33.4, "eta_s": 21.9,
    "eta_from_s": 18.2, "eta_to_s": 26.1, "busy_share": 0.934, "owner": OWNER, "standby": ["ollama/b@home/1"],
    "workers": [OWNER, "ollama/b@home/1"],
}  # fmt: skip


def cells(*rows: dict[str, Any]) -> dict[str, list[str]]:
    made, console = lanes_table([{**ROW, **row} for row in rows]), Console(width=200)
    assert isinstance(made, Table)
    return {str(one.header): [console.render_str(str(cell)).plain for cell in one.cells] for one in made.columns}


def test_a_busy_lane_says_who_waits_how_fast_it_goes_and_when_it_will_be_empty() -> None:
    """Beside one that many serve at once."""
    cloud = {"lane": "cloud", "workers": ["cloud/a@home/1", "cloud/b@home/1"], "waiting": 1, "in_queue": 1}
    assert cells(cloud, BUSY) == {
        "lane": ["cloud", "ollama"], "waiting": ["1", "17, 12 of them batch"], "oldest": ["", "32 s"],
        "running": ["", "for 1 s, 1 prepared"], "calls": ["", "1.3 s, 47.6/min, 33 tokens/s"],
        "busy": ["", "93%"], "empty in": ["", "22 s (18 s to 27 s)"], "worker": ["2", "ollama@home, 1 on standby"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ({}, "worker", "none"),
        ({}, "waiting", "0"),
        ({"waiting": 2, "in_queue": 5}, "waiting", "2, 3 more messages"),
        ({"waiting": 2, "in_queue": 1}, "waiting", "2"),
        ({"in_hand": 1}, "running", "1 prepared"),
        ({"eta_s": 400.0}, "empty in", "7 min"),
        ({"busy_share": 0.0}, "busy", "0%"),
    ],
)
def test_what_is_known_is_said(row: dict[str, Any], column: str, said: str) -> None:
    """And nothing else."""
    assert cells(row)[column] == [said]


def test_what_is_known_of_no_lane_takes_no_column() -> None:
    """A house in which nobody waits, and no call has been made."""
    assert set(cells({}, {"lane": "cloud"})) == {"lane", "waiting", "worker"}


def test_eighty_columns_hold_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    """No number is cut."""
    Console(width=80).print(lanes_table([{**ROW, "lane": "cloud"}, {**ROW, **BUSY}], 80))
    words = capsys.readouterr().out.split()
    for word in ("ollama", "17,", "batch", "32", "prepared", "47.6/min,", "tokens/s", "(18", "27", "93%", "standby"):
        assert word in words, (word, words)
