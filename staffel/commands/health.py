"""Whether somebody works here: progress, not pids."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click

from staffel import redis_here
from staffel.cli import config_option, json_option, plain
from staffel.connection import Connection
from staffel_wire import keys
from staffel_wire.catalogue import from_json
from staffel_wire.health import Pulse, members, pulses

Row = dict[str, Any]


@click.command()
@click.option("--lane", metavar="NAME", help="only this lane")
@click.option("--worker", metavar="NAME", help="only this worker, such as cloud@host")
@click.option("--here", is_flag=True, help="only the workers on this machine")
@config_option
@json_option
def command(lane: str | None, worker: str | None, here: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Say whether jobs are taken: every lane that the chains use has a worker whose own loop says so.

    One line each. Exit codes: 0 healthy, 1 not, 6 Redis is not there.
    """
    if sum(map(bool, (lane, worker, here))) > 1:
        raise click.UsageError("--lane, --worker and --here do not go together")
    if worker or here:
        host = socket.gethostname()
        rows = _asked(as_json, lambda all_: _workers(all_, worker, host))
    else:
        rows = _asked(as_json, lambda all_: _lanes(all_, lane), lanes=True)
    healthy = bool(rows) and all(row["healthy"] for row in rows)
    if as_json:
        click.echo(json.dumps({"healthy": healthy, "found": rows}, ensure_ascii=False))
    else:
        for row in rows:
            click.echo(plain(f"{row['lane' if 'workers' in row else 'worker']}: {row['line']}"))
    return 0 if healthy else 1


STANDS_BY = "stands by, to follow whoever serves the lane"

Judge = Callable[["Found"], list[Row]]


class Found:
    """What Redis says: all workers, and the lanes of the catalogue."""

    def __init__(self, pulses_: Sequence[Pulse], lanes: Sequence[str]) -> None:
        self.pulses, self.lanes = pulses_, lanes


def _asked(quiet: bool, judge: Judge, *, lanes: bool = False) -> list[Row]:  # noqa: FBT001
    async def asking(url: str) -> list[Row]:
        connection = Connection(url)
        try:
            return judge(await look(connection, lanes=lanes))
        finally:
            await connection.close()

    return asyncio.run(asking(redis_here.found(quiet=quiet)))


async def look(connection: Connection, *, lanes: bool) -> Found:
    """Ask who there is, then what they say."""
    asked = members(await connection.script("health", [keys.WORKERS], []))
    names = [keys.WORKERS, *map(keys.worker, asked)]
    found = pulses(asked, await connection.script("health", names, []))
    catalogue = await connection.get(keys.CATALOGUE) if lanes else None
    used = {offer.lane for offer in from_json(catalogue).offers().values()} if catalogue else set()
    return Found(found, sorted(used))


def _lanes(found: Found, only: str | None) -> list[Row]:
    rows = [
        _lane(lane, [pulse for pulse in found.pulses if pulse.lane == lane])
        for lane in ([only] if only else found.lanes)
    ]
    if not rows:
        return [{"lane": "*", "healthy": False, "workers": [], "line": "no worker has ever started here"}]
    return rows


def _lane(lane: str, there: Sequence[Pulse]) -> Row:
    well = [pulse for pulse in there if pulse.healthy and not pulse.stands_by]
    waits = sum(pulse.healthy and pulse.stands_by for pulse in there)
    if well:
        behind = f", {waits} stand by" if waits else ""
        sick = "".join(f"; {pulse.name} {pulse.why}" for pulse in there if not pulse.healthy)
        line = f"{len(well)} of {len(there)} workers take jobs{behind}; {_counts(well)}{sick}"
    else:
        line = "; ".join(f"{pulse.name} {pulse.why or STANDS_BY}" for pulse in there) or "no worker lives"
    return {"lane": lane, "healthy": bool(well), "workers": [_object(pulse) for pulse in there], "line": line}


def _workers(found: Found, name: str | None, host: str) -> list[Row]:
    if name:
        there = [pulse for pulse in found.pulses if pulse.name == name]
    else:
        there = [pulse for pulse in found.pulses if pulse.name.partition("@")[2] == host]
    # A name may still be remembered of a process that was killed, while its next one works.
    rows = [_object(max(same, key=lambda pulse: pulse.healthy)) for same in _by_name(there)]
    if not rows:
        return [{"worker": name or f"*@{host}", "healthy": False, "line": "no such worker lives"}]
    return rows


def _by_name(there: Sequence[Pulse]) -> list[list[Pulse]]:
    names = sorted({pulse.name for pulse in there})
    return [[pulse for pulse in there if pulse.name == name] for name in names]


def _object(pulse: Pulse) -> Row:
    told = asdict(pulse)
    line = pulse.why or (STANDS_BY if pulse.stands_by else f"takes jobs; {_counts([pulse])}")
    return {"worker": told.pop("name"), "healthy": pulse.healthy, **told, "line": line}


def _counts(there: Sequence[Pulse]) -> str:
    busy, slots, taken = (sum(getattr(pulse, field) for pulse in there) for field in ("busy", "slots", "taken"))
    last = min((pulse.idle_s for pulse in there if pulse.idle_s is not None), default=None)
    return f"{busy} of {slots} slots busy, {taken} taken" + (f", the last {last:.0f} s ago" if last is not None else "")
