"""Which process of which machine a worker is, so that another one on the same machine can see whether it lives."""

from __future__ import annotations

import hashlib
import os
import secrets
from functools import cache
from pathlib import Path

_ENDED = frozenset("ZX")
"""States of a process that has ended, and that nobody has asked for yet (proc(5))."""


def new_member(lane: str, worker: str) -> str:
    """This process as a member of a lane, `LANE/WORKER/PID-MACHINE-RANDOM`: a lease's first word, so without blanks."""
    return f"{lane}/{'_'.join(worker.split())}/{os.getpid()}-{_machine()}-{secrets.token_hex(4)}"


def lives_here(member: str) -> bool:
    """Whether that process is one of this machine, and has not ended; False where nothing can be seen of it."""
    pid, _, rest = member.rpartition("/")[2].partition("-")
    if not pid.isdecimal() or not _machine() or rest.partition("-")[0] != _machine():
        return False
    try:
        state = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in _ENDED


@cache
def _machine() -> str:
    """This boot of this machine, and its numbering of processes: a container has its own. Empty without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        numbering = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot}{numbering}".encode(), digest_size=4).hexdigest()
