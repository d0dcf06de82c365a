"""`python -m chaos [--seed N] [--jobs 300] [--workers 3] [--seconds 45]`: exits 1 where a promise was broken."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos.report import table, write_json
from chaos.run import Plan, run
from chaos.schedule import Shape, asks, schedule
from chaos.yard import CHAINS, HOSTS, OLLAMA
from staffel_wire.request import NOT_YET, Request

_MOST_WORKERS = 8


def main(argv: Sequence[str] | None = None) -> int:
    given = _given(argv)
    plan = _plan(given)
    if given.plan:
        for fault in plan.faults:
            print(f"{fault.at_s:7.2f} s  {fault.whom} {fault.kind} for {fault.for_s:g} s")
        for ask in plan.asks:
            print(f"{ask.at_s:7.2f} s  {ask.job} {ask.caller} {ask.chain}" + (f" {ask.key}" if ask.key else ""))
        return 0
    print(f"seed {plan.seed}: {len(plan.asks)} jobs, {len(plan.faults)} faults in {plan.seconds:g} s", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="staffel-chaos-") as folder:
        try:
            found = run(plan, Path(folder), _say)
        except KeyboardInterrupt:
            print("interrupted; everything that was started has ended", file=sys.stderr)
            return 130
    if given.json:
        write_json(found, given.json)
    print("\n".join(table(found)), flush=True)
    return 1 if found.findings.broken else 0


def _given(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults on a seeded schedule, then an audit.")
    parser.add_argument("--seed", type=int, help="reproduces the schedule; without it a new one, which is printed")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=3, choices=range(1, _MOST_WORKERS + 1), metavar="N",
                        help="of the cloud lane")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=45.0, help="how long jobs are submitted and faults done")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two faults of workers, on average")
    parser.add_argument("--restarts", type=int, default=2, help="of Valkey")
    parser.add_argument("--deadline", type=float, default=120.0, help="of each job, in seconds")
    parser.add_argument("--no-lane", action="store_true", help="no worker on the ollama lane, no chain that goes there")
    parser.add_argument("--plan", action="store_true", help="print the schedule and do nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that is known of the run")
    return parser.parse_args(argv)


def _plan(given: argparse.Namespace) -> Plan:
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    names = [f"w{number}" for number in range(1, given.workers + 1)] + list(OLLAMA) * (not given.no_lane)
    hosts = [host for host in HOSTS if host != "local" or not given.no_lane]
    chains = [name for name, plan in CHAINS.items() if "local" not in plan or not given.no_lane]
    shape = Shape(names, hosts, chains, given.jobs, given.seconds, given.every, given.restarts)
    keyed = "idempotency_key" in Request.model_fields and "idempotency_key" not in NOT_YET
    return Plan(seed, schedule(seed, shape), asks(seed, shape, keyed=keyed), names, given.seconds, given.deadline)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
