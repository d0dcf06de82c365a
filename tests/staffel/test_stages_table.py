"""What the table says of a stage, and the line after a switch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console, Group
from rich.table import Table

from staffel.stages_table import sentence, table
from staffel_wire.record import span

ROW: dict[str, Any] = {
    "kind": "stage", "stage": "primary", "lane": "cloud", "model": "gpt",
    "state": "closed", "reason": None, "until": None,
    "next_probe": None, "probe": None, "calls": 0, "failures": 0, "failures_in_a_row": 0,
    "last_failure": None, "window_s": 10.0,
    "limit_group": None, "in_flight": None, "max_in_flight": None, "requests_left": None, "requests_burst": None,
    "requests_per_minute": None, "tokens_left": None, "tokens_burst": None, "tokens_per_minute": None, "parked": 0,
    "spent_usd": 0.0, "usd_per_day": None, "at": "2027-01-15T08:00:00.000Z", "raw": {"gate": "", "hash": {}},
}  # fmt: skip


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A person who lives in Greenwich."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def cells(width: int = 200, *rows: dict[str, Any]) -> dict[str, list[str]]:
    """What stands in each column, in both parts of the table where it has two."""
    console = Console(width=width)
    made = table([{**ROW, **row} for row in rows], console.width)
    parts = made.renderables if isinstance(made, Group) else [made]
    return {
        str(column.header): [console.render_str(str(cell)).plain for cell in column.cells]
        for part in parts
        if isinstance(part, Table)
        for column in part.columns
    }


@pytest.mark.usefixtures("utc")
def test_an_open_stage_says_until_when_and_why() -> None:
    """By the clock on the wall, and how long that is."""
    row = {"state": "open", "reason": "breaker_open", "until": "2027-01-15T08:00:12.000Z", "parked": 4,
           "next_probe": "2027-01-15T08:00:12.000Z", "calls": 7, "failures": 3, "failures_in_a_row": 2}  # fmt: skip
    assert cells(200, row) == {
        "stage": ["primary"], "state": ["open"], "calls": ["3 of 7 failed"], "until": ["08:00:12, in 12 s"],
        "why": ["breaker_open"], "next probe": ["08:00:12"], "parked": ["4"],
    }  # fmt: skip


@pytest.mark.usefixtures("utc")
def test_limits_take_columns_where_a_stage_has_some() -> None:
    """The others' cells are empty."""
    limited = {"in_flight": 3, "max_in_flight": 100, "requests_left": 58, "requests_burst": 60, "tokens_left": 0,
               "tokens_burst": 9000, "spent_usd": 0.01234, "usd_per_day": 5.0}  # fmt: skip
    found = cells(200, limited, {"spent_usd": 0.5, "in_flight": 2})
    assert found["in flight"] == ["3/100", "2"]
    assert found["requests"] == ["58/60", ""]
    assert found["tokens"] == ["0/9000", ""]
    assert found["USD today"] == ["0.0123/5", "0.5000"]


def test_a_narrow_terminal_keeps_what_says_something() -> None:
    """Eighty columns hold a house in which all is well."""
    assert set(cells(80, {})) == {"stage", "state"}


@pytest.mark.usefixtures("utc")
def test_eighty_columns_hold_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Health first and limits below it; no name or reason is cut."""
    row = {**ROW, "state": "half_open", "reason": "breaker_open", "calls": 70, "failures": 30, "in_flight": 3,
           "max_in_flight": 100, "requests_left": 58, "requests_burst": 60, "tokens_left": 88_000, "parked": 12,
           "tokens_burst": 90_000, "usd_per_day": 20.0, "next_probe": ROW["at"]}  # fmt: skip
    off = {**ROW, "stage": "local", "state": "off", "reason": "switched_off", "until": "2028-01-15T08:00:00.000Z"}
    Console(width=80).print(table([row, off], 80))
    words = " ".join(capsys.readouterr().out.split())
    for word in (
        "half_open",
        "breaker_open",
        "switched_off",
        "next call",
        "3/100",
        "58/60",
        "88000/90000",
        "0.0000/20",
    ):
        assert word in words


def test_failures_of_any_age_are_told_where_the_window_is_empty() -> None:
    """A lane with long calls never has five of them in ten seconds, and its breaker is about to open all the same."""
    assert cells(200, {"failures_in_a_row": 4})["calls"] == ["4 in a row"]
    assert cells(200, {"calls": 1, "failures": 1, "failures_in_a_row": 4})["calls"] == ["1 of 1 failed, 4 in a row"]


@pytest.mark.parametrize(
    ("probe", "at", "told"),
    [
        (None, "2027-01-15T08:00:00.000Z", "next call"),
        ({"worker": "cloud/a/1", "job": "j"}, "2027-01-15T08:00:30.000Z", "under way"),
        ({"worker": None, "job": "j"}, "2027-01-15T08:00:30.000Z", "job on its way"),
    ],
)
def test_a_half_open_stage_says_who_will_find_out(probe: dict[str, Any] | None, at: str, told: str) -> None:
    """Exactly one call does."""
    row = {"state": "half_open", "reason": "breaker_open", "next_probe": at, "probe": probe}
    assert cells(200, row)["next probe"] == [told]


def test_stages_of_one_account_are_told_to_share_its_limits() -> None:
    """Their figures are the same ones."""
    rows = [{**ROW, "stage": name, "limit_group": "account"} for name in ("east", "west")]
    made = table(rows)
    assert isinstance(made, Table)
    assert made.caption == "east, west: the limits of account"


@pytest.mark.usefixtures("utc")
def test_the_line_after_a_switch_says_until_when() -> None:
    """And how it is undone."""
    off = {**ROW, "state": "off", "reason": "switched_off", "until": "2027-01-15T09:00:00.000Z"}
    undo = "`staffel stages on primary` ends that"
    assert sentence(off) == f"primary: off until 09:00:00, in 1 h; {undo}"
    year = {**off, "until": "2028-01-15T08:00:00.000Z", "parked": 2}
    until = "it is switched on (at most till 2028-01-15 08:00)"
    assert sentence(year) == f"primary: off until {until}; 2 parked for it; {undo}"
    still = {**ROW, "state": "open", "reason": "auth", "until": "2027-01-16T08:00:00.000Z"}
    assert sentence(still) == "primary: open until 2027-01-16 08:00, in 1 d (auth)"
    assert sentence(ROW) == "primary: closed"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-1, "0 s"), (0.2, "1 s"), (99, "99 s"), (100, "2 min"), (3599, "1 h"), (4000, "1 h 7 min"), (90_000, "1 d 1 h")],
)
def test_a_span_is_told_in_the_units_that_matter(seconds: float, told: str) -> None:
    """Rounded up: what is over has 0 s."""
    assert span(seconds) == told
