"""The stages as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from staffel.cli import plain
from staffel_wire.record import span
from staffel_wire.stages import State

_STYLES: Mapping[str, str] = MappingProxyType(
    {
        State.CLOSED: "green",
        State.OPEN: "red",
        State.HALF_OPEN: "yellow",
        State.THROTTLED: "yellow",
        State.OFF: "magenta",
    }
)
_OPEN_END = timedelta(days=30)
"""Who switches a stage off for longer wants it off until it is switched on."""

_WIDE = 140
"""Columns of a terminal on which all of the table stands side by side."""

_MAY_WRAP = frozenset({"calls", "until"})

Row = Mapping[str, Any]


def table(rows: Sequence[Row], width: int = 200) -> RenderableType:
    """One row a stage; limits and spend that no stage has take no column. Where it is too narrow, in two parts."""
    health = _columns(
        rows, ("stage", "state", "calls", "until", "why", "next probe", "parked"), droppable=width < _WIDE
    )
    limits = _columns(rows, ("in flight", "requests", "tokens", "USD today"), droppable=True)
    if width >= _WIDE or not limits:
        return made({**health, **limits}, _MAY_WRAP, _shared(rows))
    return Group(made(health, _MAY_WRAP), "", made({"stage": health["stage"], **limits}, _MAY_WRAP, _shared(rows)))


def _columns(rows: Sequence[Row], names: Sequence[str], *, droppable: bool) -> dict[str, list[str]]:
    """The cells of each column, without those that are empty from top to bottom."""
    found = {name: [_CELLS[name](row) for row in rows] for name in names}
    return {name: cells for name, cells in found.items() if any(cells) or not droppable}


def made(columns: Mapping[str, Sequence[str]], may_wrap: Collection[str], caption: str | None = None) -> Table:
    """A table of these columns; what may not wrap is folded where there is no room at all."""
    table = Table(box=None, caption=caption, caption_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name not in may_wrap, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def sentence(row: Row) -> str:
    """One stage in one line, after somebody has switched it."""
    until = _until(row)
    if row["state"] == State.OFF and _open_ended(row):
        until += f" (at most till {_local(row['until']):%Y-%m-%d %H:%M})"
    why = f" ({_why(row)})" if row["reason"] not in {None, "switched_off"} else ""
    parked = f"; {row['parked']} parked for it" if row["parked"] else ""
    undo = f"; `staffel stages on {row['stage']}` ends that" if row["state"] == State.OFF else ""
    return f"{row['stage']}: {row['state']}{f' until {until}' if until else ''}{why}{parked}{undo}"


def _calls(row: Row) -> str:
    counted = f"{row['failures']} of {row['calls']} failed" if row["calls"] else ""
    # A serial lane with long calls may have an empty window and a breaker that is about to open.
    more = row["failures_in_a_row"] if row["failures_in_a_row"] > row["failures"] else 0
    return ", ".join([counted] * bool(counted) + [f"{more} in a row"] * bool(more))


def _until(row: Row) -> str:
    if row["until"] is None:
        return ""
    if row["state"] == State.OFF and _open_ended(row):
        return "it is switched on"
    at, now = _local(row["until"]), _local(row["at"])
    return f"{_clock(at, now)}, in {span((at - now).total_seconds())}"


def _why(row: Row) -> str:
    """What a breaker opened on is what a person looks for."""
    reason = row["reason"] or ""
    return f"{reason}: {row['last_failure']}" if reason == "breaker_open" and row["last_failure"] else reason


def _open_ended(row: Row) -> bool:
    return _local(row["until"]) - _local(row["at"]) > _OPEN_END


def _probe(row: Row) -> str:
    if row["probe"]:
        by = row["probe"]["worker"]
        return "under way" if by else "job on its way"
    if row["next_probe"] is None:
        return ""
    at, now = _local(row["next_probe"]), _local(row["at"])
    return "next call" if at <= now else _clock(at, now)


def _of(left: int | None, most: int | None) -> str:
    if left is None:
        return ""
    return f"{left}/{most}" if most is not None else str(left)


def _money(row: Row) -> str:
    if row["usd_per_day"] is None:
        return f"{row['spent_usd']:.4f}" if row["spent_usd"] else ""
    return f"{row['spent_usd']:.4f}/{row['usd_per_day']:g}"


def _shared(rows: Iterable[Row]) -> str | None:
    """Stages behind one account show the same figures, which are the account's."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row["limit_group"]:
            groups.setdefault(row["limit_group"], []).append(row["stage"])
    lines = [f"{', '.join(names)}: the limits of {group}" for group, names in groups.items()]
    return _text("\n".join(lines)) or None


def _local(instant: str) -> datetime:
    return datetime.fromisoformat(instant).astimezone()


def _clock(at: datetime, now: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"


def _text(text: str) -> str:
    return escape(plain(text))


_CELLS: Mapping[str, Callable[[Row], str]] = MappingProxyType(
    {
        "stage": lambda row: _text(row["stage"]),
        "state": lambda row: f"[{_STYLES[row['state']]}]{row['state']}[/]",
        "calls": _calls,
        "until": _until,
        "why": lambda row: _text(_why(row)),
        "next probe": _probe,
        "parked": lambda row: str(row["parked"] or ""),
        "in flight": lambda row: _of(row["in_flight"], row["max_in_flight"]),
        "requests": lambda row: _of(row["requests_left"], row["requests_burst"]),
        "tokens": lambda row: _of(row["tokens_left"], row["tokens_burst"]),
        "USD today": _money,
    }
)
