"""How many cores a computation may really use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def core_limit() -> int | None:
    """The cores this process is held to, or None where it has the whole machine.

    llama.cpp counts the machine's cores and sees neither affinity nor a container's quota; with more threads than
    may run at once it is many times slower than with one.
    """
    machine = os.cpu_count() or 1
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    allowed = min(affine, quota() or machine)
    return allowed if allowed < machine else None


def quota(file: Path = _QUOTA) -> int | None:
    """The whole cores of a container's CPU quota, at least one; None without a quota.

    The file is `cpu.max` of cgroup v2: microseconds of quota, or the word max, and microseconds of period.
    """
    try:
        granted, period = map(int, file.read_text().split())
    except (OSError, ValueError):
        return None
    return max(1, granted // period)
