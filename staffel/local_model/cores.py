"""How many cores a computation may really use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def core_limit(quota_file: Path = _QUOTA) -> int | None:
    """The cores this process is held to, or None on a machine it has for itself.

    llama.cpp counts the machine's cores and does not see a container's CPU quota (`cpu.max` of cgroup v2: quota and
    period in microseconds); with more threads than it may run it is many times slower than with one.
    """
    machine = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    try:
        quota, period = quota_file.read_text().split()
        allowed = min(allowed, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no such file, or the quota is the word "max"
    return allowed if allowed < machine else None
