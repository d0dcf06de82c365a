"""Whether a worker process of this machine lives, as another one sees it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.eventually import eventually
from worker.machine import lives_here, new_member


def of(pid: int) -> str:
    """A member as a process with this number would call itself."""
    return new_member("ollama", "o@here").replace(f"/{os.getpid()}-", f"/{pid}-")


def test_a_member_is_one_word_that_names_its_lane_and_its_process() -> None:
    member = new_member("ollama", "o 1@here")
    assert member.startswith(f"ollama/o_1@here/{os.getpid()}-")
    assert " " not in member
    assert member != new_member("ollama", "o 1@here"), "the next process may have the same number"


def test_a_process_lives_until_it_has_ended_also_if_nobody_has_asked_how() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert lives_here(of(child.pid))
    child.kill()
    eventually(lambda: not lives_here(of(child.pid)), "a process that has ended does not live")
    assert child.returncode is None, "nobody has asked"
    child.wait()
    child.stdin.close()
    assert not lives_here(of(child.pid))


def test_of_another_machines_process_nothing_is_seen() -> None:
    pid = os.getpid()
    assert lives_here(of(pid))
    assert not lives_here(f"ollama/o@there/{pid}-0123abcd-{'0' * 8}")
    assert not lives_here("ollama/two/2")
