"""What many workers do together: a dead first stage, a rate, a worker killed in the middle of a probe, round trips.

    python -m benchmarks.together [--workers 8] [--slots 4]

Real Celery workers on an embedded Valkey, a scripted host on loopback. Prints what the host and Redis saw; of all that
is printed only the used share of the rate and the seconds of the jobs depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from staffel import SyncClient
from staffel_wire import keys
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, Valkey, Worker, running
from tests.nodes.monitor import monitored
from tests.nodes.stages import Played

JOBS = 400
RATE, RATE_S = 600, 20.0
RECOVERY_S = 3.0
LEASE_S = keys.WORKER_DEAD_AFTER_MS / 1000
BREAKER = {"open_for": RECOVERY_S, "open_growth": 1}

STAGES = {
    "dead": Played("openai", "status:500:delay=0.2", {"breaker": BREAKER}),
    "second": Played("openai", "ok:delay=0.2"),
    "rated": Played("openai", "ok", {"requests_per_minute": RATE}),
    "sick": Played("openai", "status:500,status:500,silent,ok", {"breaker": {**BREAKER, "consecutive_failures": 2}}),
}
CHAINS = {"dead-first": ("dead", "second"), "rate": ("rated",), "sick-first": ("sick", "second"), "good": ("second",)}


class Yard:
    """So many workers of so many slots on one Valkey, and what their host has seen."""

    def __init__(self, house: House, workers: Sequence[Worker], slots: int) -> None:
        self.house, self.workers, self.slots = house, workers, slots
        self.client = SyncClient(house.url)
        self.broken = 0

    def holds(self, bound: bool) -> None:  # noqa: FBT001 - a condition
        """Count a bound that does not."""
        self.broken += not bound

    def submit(self, count: int, chain: str) -> list[str]:
        return [self.client.submit(f"question {number}", chain=chain, deadline=120) for number in range(count)]

    def calls(self, stage: str) -> list[float]:
        """When each call came, in seconds."""
        return sorted(call.started for call in self.house.host.calls(self.house.urls[stage]))

    def dead_first_stage(self) -> Iterator[str]:
        began = time.monotonic()
        by = Counter(self.client.wait(job).stage for job in self.submit(JOBS, "dead-first"))
        took, calls = time.monotonic() - began, self.calls("dead")
        before = sum(at < calls[0] + RECOVERY_S for at in calls)
        yield f"dead first stage: {JOBS} jobs answered by {dict(by)} in {took:.1f} s"
        yield f"  {before} calls at it before its first probe (5 + {len(self.workers) * self.slots} may be)"
        self.holds(set(by) == {"second"} and before <= 5 + len(self.workers) * self.slots)
        self.holds(all(later - earlier >= RECOVERY_S for earlier, later in pairwise(calls[before:])))
        yield f"  {len(calls) - before} probes in {took / RECOVERY_S:.1f} recovery windows"

    def rate(self) -> Iterator[str]:
        self.submit(int(RATE / 60 * (RATE_S + 20)), "rate")
        eventually(lambda: self.calls("rated") and time.monotonic() - self.calls("rated")[0] > RATE_S, "20 s", 60)
        calls, burst, per_s = self.calls("rated"), RATE / 10, RATE / 60
        above = max(
            j - i + 1 - burst - (calls[j] - calls[i]) * per_s for i in range(len(calls)) for j in range(i, len(calls))
        )
        used, allowed = sum(at <= calls[0] + RATE_S for at in calls), burst + RATE_S * per_s
        yield f"{RATE} requests a minute: {used} calls in {RATE_S:g} s, {used / allowed:.0%} of bucket and burst"
        self.holds(above <= 1 and used >= 0.9 * allowed)
        yield f"  {max(0.0, above):.2f} calls above them in any stretch of time"

    def killed_probe(self) -> Iterator[str]:
        for job in self.submit(2, "sick-first"):
            self.client.wait(job)
        with self.house.valkey.client as redis:
            until = int(redis.hget(keys.stage("sick"), "until")) / 1000
            eventually(lambda: time.time() > until, "its breaker is due", 30)
            self.submit(1, "sick-first")
            eventually(lambda: len(self.calls("sick")) == 3, "the probe is at the host")
            owner = str(redis.zrange(keys.probe("sick"), 0, 0)[0]).split(" ")[0]
        pid = int(owner.rpartition("/")[2].partition("-")[0])
        os.kill(pid, signal.SIGKILL)
        died, passed = time.monotonic(), 0
        while len(self.calls("sick")) == 3 and time.monotonic() - died < 3 * LEASE_S:
            self.client.ask("and now?", chain="sick-first")
            passed += 1
        yield f"killed in its probe: the next one {self.calls('sick')[-1] - died:.1f} s later (lease {LEASE_S:g} s)"
        self.holds(self.calls("sick")[-1] - died <= LEASE_S + 1)
        yield f"  {passed} jobs were answered meanwhile"

    def round_trips(self) -> Iterator[str]:
        for job in self.submit(100, "good"):
            self.client.wait(job)  # the connections are there from now on
        with monitored(self.house.valkey) as asked:
            for job in self.submit(100, "good"):
                self.client.wait(job)
        yield f"100 jobs of one attempt asked Redis for {dict(asked)} (beats and SET are the processes' own)"
        self.holds(asked["admit"] + asked["settle"] <= 2 * 100)
        with self.house.valkey.client as redis:
            eventually(lambda: not redis.exists("staffel:unacked"), "every message is acknowledged")
            endless = {key for key in redis.scan_iter("staffel:*", count=1000) if redis.ttl(key) < 0}
        yield f"  keys without an end: {sorted(endless)}"
        self.holds(endless == {keys.CATALOGUE})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--slots", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="staffel-bench-") as folder, Host() as host:
        valkey = Valkey.started(Path(folder) / "valkey")
        try:
            house = House(valkey, host, Path(folder), stages=STAGES, chains=CHAINS)
            options = ("-Q", "cloud", "-c", str(given.slots))
            workers = [house.worker(*options, "-n", f"w{number}@here") for number in range(given.workers)]
            with running(*workers):
                print(f"{given.workers} workers of {given.slots} slots")
                yard = Yard(house, workers, given.slots)
                for scene in (yard.round_trips, yard.dead_first_stage, yard.rate, yard.killed_probe):
                    for line in scene():
                        print(line, flush=True)
                print(f"{yard.broken} bounds are broken")
                for worker in workers:
                    if worker.status != "running":
                        worker.process.wait()
        finally:
            valkey.stop()
    sys.exit(yard.broken > 0)


if __name__ == "__main__":
    main()
