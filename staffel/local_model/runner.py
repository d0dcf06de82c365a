"""The program in which llama.cpp runs: `python -m staffel.local_model.runner`.

One line of JSON comes in with what to load, one goes out: where it listens, or why it cannot. It ends when its input
does, so that it never outlives the server that started it, however that one dies. Only light modules are imported: a
load costs this program's start.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import IO, Any

from staffel.local_model.cores import core_limit
from staffel.local_model.openmp import load_openmp

MISSING = "missing"
BROKEN = "broken"

# Prompt tokens that llama.cpp evaluates at a stretch. It looks for a cancel only between two stretches: 256 is
# about one second on a slow core, and no slower than its default of 2048 (measured).
_STRETCH = 256


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of a terminal; the server says when it is over
    with _only_our_words() as out:
        wanted = json.loads(sys.stdin.buffer.readline())
        reply, server = _loaded(wanted)
        out.write(f"{json.dumps(reply)}\n")
        out.flush()
        if server is not None:
            sys.stdin.buffer.read()
        os._exit(0)  # llama.cpp's threads may be in the middle of an answer that nobody waits for


def _only_our_words() -> IO[str]:
    """Standard output for us alone: what llama.cpp prints there goes nowhere."""
    out = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    return out


def _loaded(wanted: Mapping[str, Any]) -> tuple[dict[str, str], Any]:
    # llama.cpp's threads wait for each other many times a token. Spinning there, as OpenMP does if not told otherwise,
    # they take the core from the one they wait for: 2 threads beside 1 busy process were 4 times slower (measured).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    load_openmp()
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        return {"failed": MISSING, "why": str(error)}, None
    try:
        server = llama.Server(_params(llama, wanted))
    except RuntimeError as error:
        return {"failed": BROKEN, "why": str(error)}, None
    return {"url": str(server.listening_address)}, server


def _params(llama: Any, wanted: Mapping[str, Any]) -> Any:  # noqa: ANN401 - C++ objects without types
    loading = wanted["loading"]
    params = llama.CommonParams()
    params.model.path = wanted["file"]
    params.api_keys = [wanted["key"]]
    params.n_ctx = loading["num_ctx"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = loading["num_batch"] if loading["num_batch"] > 0 else _STRETCH
    params.n_gpu_layers = loading["num_gpu"]
    params.main_gpu = loading["main_gpu"]
    params.ctx_shift = loading["shift"]
    if loading["use_mmap"] is not None:
        modes = llama.llama_load_mode
        params.load_mode = modes.LLAMA_LOAD_MODE_MMAP if loading["use_mmap"] else modes.LLAMA_LOAD_MODE_NONE
    params.cache_ram_mib = 0  # by default it keeps up to 8 GB of earlier prompts
    params.verbosity = -1
    if limit := loading["num_thread"] if loading["num_thread"] > 0 else core_limit():
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = limit
    return params


if __name__ == "__main__":
    main()
