"""Run all tests, the two halves side by side: those with real workers mostly wait, the others mostly compute.

From Python, since what a shell puts into the background does not hear of Ctrl-C, nor does what it starts.
"""

from __future__ import annotations

import subprocess
import sys

WAITING = ("tests/e2e", "tests/chaos", "tests/test_demo.py", "tests/test_readme.py")


def main() -> int:
    """The worse of the two exit codes."""
    halves = [list(WAITING), [f"--ignore={place}" for place in WAITING]]
    running = [subprocess.Popen([sys.executable, "-m", "pytest", *half]) for half in halves]
    return max(abs(half.wait()) for half in running)


if __name__ == "__main__":
    sys.exit(main())
