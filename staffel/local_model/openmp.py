"""The one library of the system that llama.cpp's wheel needs and a small Debian does not have: OpenMP's libgomp.

A package of the extra carries one, under a name of its own as wheels do. The loader asks for `libgomp.so.1`, so the
copy that is loaded gets that name back; it lives in memory only.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

WANTED = "libgomp.so.1"
_CARRIER = "diptest"


def load_openmp() -> None:
    """Have libgomp in this process: the system's, else the carried one; where there is neither, llama.cpp says so."""
    try:
        ctypes.CDLL(WANTED, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        load_carried()


def load_carried() -> bool:
    """Load the carried libgomp under the name that is asked for; says whether there is one."""
    file = carried()
    if file is None or not hasattr(os, "memfd_create"):
        return False
    memory = os.memfd_create(WANTED)
    with os.fdopen(memory, "wb") as copy:
        copy.write(renamed(file.read_bytes(), file.name))
        copy.flush()
        ctypes.CDLL(f"/proc/self/fd/{memory}", mode=ctypes.RTLD_GLOBAL)
    return True


def carried() -> Path | None:
    """The file beside the carrier, which is looked up and never imported."""
    spec = importlib.util.find_spec(_CARRIER)
    if spec is None or spec.origin is None:
        return None
    beside = Path(spec.origin).parent.parent / f"{_CARRIER}.libs"
    return next(iter(sorted(beside.glob("libgomp*.so*"))), None)


def renamed(library: bytes, name: str) -> bytes:
    """The library with its own name (ELF's SONAME) replaced by the wanted one, which is shorter."""
    old = name.encode() + b"\0"
    return library.replace(old, WANTED.encode().ljust(len(old), b"\0"))
