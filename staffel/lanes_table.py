"""The lanes as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape

from staffel.cli import plain
from staffel.stages_table import made
from staffel_wire.record import between, span

_WIDE = 130
"""Columns of a terminal on which all of the table stands side by side."""

_MAY_WRAP = frozenset({"calls", "worker"})

Row = Mapping[str, Any]


def lanes_table(rows: Sequence[Row], width: int = 200) -> RenderableType:
    """One row a lane; what is known of none takes no column. Where it is too narrow, in two parts."""
    found = {name: [cell(row) for row in rows] for name, cell in _CELLS.items()}
    shown = {name: cells for name, cells in found.items() if any(cells)}
    if width >= _WIDE or not shown.keys() & _SECOND:
        return made(shown, _MAY_WRAP)
    first = {name: cells for name, cells in shown.items() if name not in _SECOND}
    return Group(
        made(first, _MAY_WRAP), "", made({name: shown[name] for name in shown if name in {"lane", *_SECOND}}, _MAY_WRAP)
    )


def _waiting(row: Row) -> str:
    batch = f", {row['batch']} of them batch" if row["batch"] else ""
    others = row["in_queue"] - row["waiting"]
    return f"{row['waiting']}{batch}{f', {others} more messages' if others > 0 else ''}"


def _running(row: Row) -> str:
    prepared = row["in_hand"] - (row["running_s"] is not None)
    more = f", {prepared} prepared" if prepared > 0 else ""
    return f"for {span(row['running_s'])}{more}" if row["running_s"] is not None else more.removeprefix(", ")


def _calls(row: Row) -> str:
    if row["call_s"] is None:
        return ""
    tokens = f", {row['tokens_per_second']:.0f} tokens/s" if row["tokens_per_second"] else ""
    return f"{row['call_s']:.1f} s, {row['calls_per_minute']:.3g}/min{tokens}"


def _empty_in(row: Row) -> str:
    if not row["eta_s"]:
        return ""
    return f"{span(row['eta_s'])}{between(row)}"


def _worker(row: Row) -> str:
    """Whoever has the lane; on one that nobody has to itself, how many there are."""
    if not row["workers"]:
        return "none"
    if row["owner"] not in row["workers"]:
        return str(len(row["workers"]))
    standby = f", {len(row['standby'])} on standby" if row["standby"] else ""
    return f"{_name(row['owner'])}{standby}"


def _name(member: str) -> str:
    """Of `lane/name/start`."""
    return escape(plain(member.partition("/")[2].rpartition("/")[0]))


_CELLS: Mapping[str, Callable[[Row], str]] = MappingProxyType(
    {
        "lane": lambda row: escape(plain(row["lane"])),
        "waiting": _waiting,
        "oldest": lambda row: "" if row["oldest_s"] is None else span(row["oldest_s"]),
        "running": _running,
        "busy": lambda row: "" if row["busy_share"] is None else f"{row['busy_share']:.0%}",
        "calls": _calls,
        "empty in": _empty_in,
        "worker": _worker,
    }
)
_SECOND = frozenset({"calls", "empty in", "worker"})
"""The columns of the second part."""
