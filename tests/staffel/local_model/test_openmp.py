"""A machine without libgomp."""

from __future__ import annotations

import subprocess
import sys

from staffel.local_model.openmp import WANTED, carried, renamed

PROGRAM = """
import ctypes
from staffel.local_model.openmp import load_carried
assert load_carried()
ctypes.CDLL("libgomp.so.1")
maps = open("/proc/self/maps").read()
assert "/memfd:libgomp" in maps, "the carried one is loaded"
assert "/libgomp.so.1" not in maps.replace("/memfd:libgomp.so.1", ""), "and it is what the loader finds by the name"
"""


def test_the_carried_library_is_what_the_loader_finds() -> None:
    """The first `make demo` on a small Debian ended here: llama.cpp could not be loaded."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_library_gets_the_name_that_is_asked_for() -> None:
    """Its length stays, so that nothing else in the file moves."""
    file = carried()
    assert file is not None, "the extra llamacpp carries one"
    before = file.read_bytes()
    after = renamed(before, file.name)
    assert len(after) == len(before)
    assert file.name.encode() not in after
    assert after.count(WANTED.encode()) > before.count(WANTED.encode())
