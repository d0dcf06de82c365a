"""Becomes another program that ends when its parent dies, however it died: `tether.py PARENT PROGRAM ARGUMENT...`.

Run as a file, without the package, so that it costs 20 ms. The kernel sends SIGTERM, which lets a worker finish its
calls; it remembers that across the exec, see prctl(2), PR_SET_PDEATHSIG. Where it cannot, the program just runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def become(parent: int, program: list[str]) -> None:
    """Replace this process; ends it instead when `parent` was dead before the kernel could be asked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            sys.exit(0)
    os.execv(program[0], program)  # noqa: S606 - a shell would be the one that dies with its parent


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
