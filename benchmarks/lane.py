"""How busy one lane keeps its host: the share of time, from the first call's start to the last one's end, in which the
host answers.

    python -m benchmarks.lane [--calls 200] [--runs 3]

The host answers each call after 50 ms and keeps the log that is read here. The baseline, in the same minute and turn by
turn, is a bare Celery worker of one slot with late acknowledgement that asks the same host with httpx: no lease, no
breaker, no ledger. Its prefetch is once 1, once Celery's own default, 4.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from staffel import SyncClient, embedded
from staffel_wire import keys
from tests.hosts import Call, Host

CELERY = Path(sys.executable).parent / "celery"
BARE = """
import httpx
from celery import Celery

app = Celery("bare", broker={url!r}, backend={url!r})
app.conf.update(task_acks_late=True, worker_prefetch_multiplier={prefetch})
client = httpx.Client(trust_env=False, timeout=60)

@app.task(name="bare.ask")
def ask(prompt):
    body = {{"model": "m", "messages": [{{"role": "user", "content": prompt}}], "stream": False}}
    return client.post({host!r} + "/api/chat", json=body).json()["message"]["content"]
"""
OURS = """
[stages.local]
provider = "ollama"
base_url = "{host}"
model = "m"
local = true
[chains.default]
stages = ["local"]
deadline = 600
"""
DELAY_S = 0.05


def busy(calls: Sequence[Call]) -> float:
    """Between the first call's start and the last one's end; two at once would count twice."""
    spans = [(call.started, call.ended) for call in calls if call.ended is not None]
    whole = max(ended for _, ended in spans) - min(started for started, _ in spans)
    return sum(ended - started for started, ended in spans) / whole


@contextmanager
def worker(folder: Path, environ: dict[str, str], *argv: str) -> Iterator[None]:
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen([str(CELERY), *argv], cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def finished(host: Host, url: str, count: int) -> list[Call]:
    ends = time.monotonic() + 120
    while len(calls := [call for call in host.calls(url) if call.ended is not None]) < count:
        if time.monotonic() > ends:
            raise SystemExit(f"only {len(calls)} of {count} calls were made")
        time.sleep(0.1)
    return calls


def bare(prefetch: int, host: Host, redis: str, folder: Path, count: int) -> float:
    url = host.ollama(f"ok:delay={DELAY_S}")
    (folder / "bare.py").write_text(BARE.format(url=redis, prefetch=prefetch, host=url))
    sending = f"import bare\nfor n in range({count}): bare.ask.delay(f'question {{n}}')"
    subprocess.run([sys.executable, "-c", sending], cwd=folder, check=True)
    with worker(folder, dict(os.environ), "-A", "bare", "worker", "-c", "1", "-P", "threads", "-l", "INFO"):
        return busy(finished(host, url, count))


def ours(host: Host, redis: str, folder: Path, count: int) -> float:
    url = host.ollama(f"ok:delay={DELAY_S}")
    (folder / "staffel.toml").write_text(OURS.format(host=url))
    environ = {**os.environ, "STAFFEL_REDIS_URL": redis, "STAFFEL_CONFIG": str(folder / "staffel.toml")}
    with worker(folder, environ, "-A", "worker", "worker", "-l", "INFO", "-Q", "cloud"), SyncClient(redis) as client:
        _there(redis)
        jobs = [client.submit(f"question {n}") for n in range(count)]
        with worker(folder, environ, "-A", "worker", "worker", "-l", "INFO", "-Q", "ollama"):
            share = busy(finished(host, url, count))
            for job in jobs:
                client.wait(job)
    if (most := host.most_at_once(url)) > 1:
        raise SystemExit(f"{most} calls at once")
    return share


def _there(redis: str) -> None:
    """A worker says what can be asked."""
    ends = time.monotonic() + 30
    with Redis.from_url(redis) as client:
        while not client.exists(keys.CATALOGUE):
            if time.monotonic() > ends:
                raise SystemExit("no worker has started")
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    ways: dict[str, Callable[[Host, str, Path, int], float]] = {
        "bare Celery, prefetch 1": lambda *found: bare(1, *found),
        "bare Celery, prefetch 4": lambda *found: bare(4, *found),
        "this lane": ours,
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(asked.runs):
        for way, run in ways.items():
            with tempfile.TemporaryDirectory(prefix="staffel-bench-") as name, Host() as host:
                folder = Path(name)
                server = embedded.start(folder / "redis")
                try:
                    found[way].append(run(host, server.url, folder, asked.calls))
                finally:
                    embedded.stop(folder / "redis")
    print(f"busy share of the host, {asked.calls} calls of {DELAY_S * 1000:.0f} ms, median of {asked.runs}")
    for way, shares in found.items():
        runs = " ".join(f"{share:.3f}" for share in shares)
        print(f"{way:26} {statistics.median(shares):.3f}  ({runs})")


if __name__ == "__main__":
    main()
