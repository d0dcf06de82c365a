"""Which call of a host belongs to which row of a ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.evidence import Call, Row

SLACK_S = 0.25
"""What a host may note a call before its row says that it started: milliseconds of rounding, and a busy machine."""


@dataclass(frozen=True, slots=True)
class Owned:
    """One row with the id of its job."""

    job: str
    row: Row


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows with their calls, and the calls that no row accounts for."""

    calls: Mapping[int, Call]
    """By the place of the row among the rows."""
    strays: Sequence[Call]


def match(rows: Sequence[Owned], calls: Sequence[Call]) -> Matched:
    """Each call, in the order in which they came, is that of the last row of its stage that started before it.

    So a worker that was paused between its row and its call has the later call, and who took over its own.
    """
    found: dict[int, Call] = {}
    strays = []
    for call in sorted(calls, key=lambda call: call.started):
        before = [
            place
            for place, owned in enumerate(rows)
            if place not in found and owned.row.stage == call.stage and owned.row.started_at <= call.started + SLACK_S
        ]
        if before:
            found[max(before, key=lambda place: rows[place].row.started_at)] = call
        else:
            strays.append(call)
    return Matched(found, strays)
