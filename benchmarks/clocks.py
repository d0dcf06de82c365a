"""How late each clock of a stage strikes against hosts that never come to an end.

    python -m benchmarks.clocks [--clock 1.0]

Each call goes over a real socket to a host of its own on loopback. Beside it a timer of the same loop sleeps for 10 ms
again and again; the most that it woke late is the lag. A clock holds where its overshoot is at most 0.2 s or three
times that lag. The host runs on the same loop: its own work is part of the lag.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from tests.worker.providers.asking import stage_at
from tests.worker.providers.endless import ERROR, SILENT, STALLING, TALKING, Endless, Play, Struck, deaf, drip, struck

_LARGE = {"max_reply_bytes": 1_000_000_000}


def cases() -> Mapping[str, Mapping[str, Play]]:
    """The hosts that each clock must hold against."""
    return {
        "first_token_timeout": SILENT,
        "idle_timeout": STALLING,
        "timeout": {**SILENT, **STALLING, **TALKING},
    }


async def against(play: Play, *, reads: bool = True, scheme: str = "http", **fields: Any) -> Struck:
    async with Endless(play, reads).serving() as url:
        return await struck(stage_at(url.replace("http", scheme), "openai", **fields))


async def connecting(clock: float) -> Mapping[str, Struck]:
    """What stops a connection from being made."""
    with deaf() as port:
        unaccepted = await struck(stage_at(f"http://127.0.0.1:{port}", "openai", connect_timeout=clock))
    silence = SILENT["silence"]
    silent = await against(silence, reads=False, scheme="https", connect_timeout=clock)
    return {"TCP, never accepted": unaccepted, "TLS, no word": silent}


async def report(clock: float) -> None:
    print(f"{'clock':21}{'host':34}{'reason':13}{'set s':>7}{'over ms':>9}{'lag ms':>8}  holds")
    for host, found in (await connecting(clock)).items():
        print(row("connect_timeout", host, clock, found))
    for name, hosts in cases().items():
        for host, play in hosts.items():
            print(row(name, host, clock, await against(play, **{name: clock}, **_LARGE)))
    print(row("(error body)", "status 500, body dripping", 1.0, await against(drip(ERROR, b"oops "))))


def row(name: str, host: str, clock: float, found: Struck) -> str:
    over = found.overshoot(clock)
    reason = found.reply.fault.kind if found.reply.fault else "none"
    holds = "yes" if over <= found.allowed else "NO"
    return f"{name:21}{host:34}{reason:13}{clock:7.1f}{over * 1000:9.1f}{found.lag * 1000:8.1f}  {holds}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clock", type=float, default=1.0, help="seconds that each clock is set to")
    asyncio.run(report(parser.parse_args().clock))
