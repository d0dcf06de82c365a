"""What it costs Redis to tell a job where it stands: server time of one `show`, with 10 and with 10,000 jobs waiting.

    python -m benchmarks.position [--rounds 2000] [--waiting 10000]

Half of them are of a batch; the job that is shown is the last, then one in the middle, then the first. The times are
Redis's own (`INFO commandstats`, microseconds a call) on an embedded Valkey. Ends with 1 where a look at a long queue
costs more than three times as much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from redis.asyncio import Redis

from benchmarks.state import served
from staffel import embedded
from staffel.client import Client
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import Priority, Request
from staffel_wire.scripts import source
from staffel_wire.submit import submitting
from worker.state.connection import connect

MOST = 3.0
FEW = 10
PACE = json.dumps({"calls": [[500 + 30 * n, 200, 60] for n in range(50)], "busy": "", "at": 0})
PRIORITIES: tuple[Priority, ...] = ("interactive", "batch")


async def fill(redis: Redis, count: int) -> list[str]:
    """So many jobs that wait on the lane, as a client submits them."""
    await redis.flushdb()
    await redis.hset(keys.PACE, "ollama", PACE)
    script = redis.register_script(source("submit"))
    jobs = [f"job-{number}" for number in range(count)]
    for number, job in enumerate(jobs):
        request = Request(prompt="Why is the sky blue?", priority=PRIORITIES[number % 2])
        names, given = submitting(job, request, Entry(("local",), "ollama", 3600.0), Catalogue({}), message="m")
        await script(keys=names, args=given)
    return jobs


async def shown(client: Client, redis: Redis, jobs: Sequence[str], rounds: int) -> float:
    """Microseconds of server time of one look, over the last, a middle and the first of these jobs."""
    asked = (jobs[-1], jobs[len(jobs) // 2], jobs[0])

    async def look() -> None:
        for number in range(rounds):
            found = await client.show(asked[number % len(asked)])
            assert found["position"]["of"] == len(jobs)

    await look()  # the script is there from now on, and warm
    return await served(redis, look, "evalsha")


async def measure(rounds: int, many: int) -> dict[int, float]:
    """By how many wait."""
    with tempfile.TemporaryDirectory(prefix="staffel-bench-") as folder:
        server = embedded.start(Path(folder))
        redis = connect(server.url)
        try:
            async with Client(server.url) as client:
                return {count: await shown(client, redis, await fill(redis, count), rounds) for count in (FEW, many)}
        finally:
            await redis.aclose()
            embedded.stop(server)


def report(found: dict[int, float]) -> str:
    few, many = found
    lines = [f"show with {count:6,} waiting: {us:6.1f} us of server time" for count, us in found.items()]
    return "\n".join([*lines, f"ratio {found[many] / found[few]:.2f}, at most {MOST:.0f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=10_000)
    given = parser.parse_args()
    found = asyncio.run(measure(given.rounds, given.waiting))
    print(report(found))
    sys.exit(found[given.waiting] > MOST * found[FEW])


if __name__ == "__main__":
    main()
