"""The real thing in small: real workers, a real Valkey, and a seed whose faults are of many kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN_S = 300
"""What the run may take on a machine that is busy with others; alone it is some 40 s."""


@pytest.mark.timeout(RUN_S + 30)
def test_no_promise_is_broken_in_a_small_run(tmp_path: Path) -> None:
    """Workers killed and paused, lines cut, a host that refuses, Valkey killed: jobs end once, all is explained."""
    told = tmp_path / "run.json"
    ended = subprocess.run(
        [sys.executable, "-m", "chaos", "--seed", "7", "--jobs", "40", "--workers", "2", "--seconds", "15",
         "--restarts", "1", "--json", str(told)],
        cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-12_000:] + ended.stderr[-3_000:]
    run = json.loads(told.read_text())
    assert run["broken"] == []
    assert {job["status"] for job in run["jobs"]} <= {"answered", "exhausted", "unknown"}
    assert {fault["kind"] for fault in run["faults"]} >= {"killed", "Valkey killed"}
