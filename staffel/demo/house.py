"""What the demo starts: `staffel up` in a folder of its own, and a model if no Ollama is there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from config.settings import embedded_url
from staffel.client import Client
from staffel.demo.scenes import LocalHost
from staffel.errors import Unavailable
from staffel.local_model import running_ollama

OLLAMA = "http://127.0.0.1:11434"
SMALL = "smollm2:135m"
SMALL_WINDOW = 4096

_READY_S = 90.0
_STOP_S = 30.0


@asynccontextmanager
async def local_host() -> AsyncIterator[LocalHost]:
    """A real Ollama where one answers and has a model, else the small model as a process of its own."""
    url = os.environ.get("OLLAMA_HOST") or OLLAMA
    url = url if "://" in url else f"http://{url}"
    model = _pulled(url) if running_ollama(url) else None
    if model is not None:
        yield LocalHost(url, model, 4096, ours=False)
        return
    command = [sys.executable, "-m", "staffel.local_model", "--port", "0", "--num-ctx", str(SMALL_WINDOW)]
    async with _process("the local model", command, dict(os.environ), sys.stderr) as process:
        line = await _first_line(process)
        yield LocalHost(line.partition(" on ")[2].split(" ")[0], SMALL, SMALL_WINDOW, ours=True)


def calls(local: LocalHost) -> int | None:
    """How many calls the small model's own log counts; None where the host keeps none."""
    if not local.ours:
        return None
    return int(_asked(local.url, "/api/version")["calls"])


def _pulled(url: str) -> str | None:
    """The smallest model of a real Ollama that can chat."""
    try:
        models = _asked(url, "/api/tags")["models"]
        names = [str(m.get("model") or m["name"]) for m in sorted(models, key=lambda model: model.get("size", 0))]
        return next((name for name in names if _chats(url, name)), None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _chats(url: str, model: str) -> bool:
    """Not so for one that makes embeddings only; an old Ollama tells no capabilities, and is taken at its word."""
    return "completion" in _asked(url, "/api/show", {"model": model}).get("capabilities", ["completion"])


def _asked(url: str, path: str, body: Mapping[str, str] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"Content-Type": "application/json"})  # noqa: S310 - http
    with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310 - an http address
        found: dict[str, Any] = json.load(reply)
    return found


async def _first_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _READY_S)).decode()
    except TimeoutError:
        line = ""
    if not line:
        raise Unavailable("the local model did not start; `staffel local-model` shows why")
    return line


@dataclass(frozen=True, slots=True)
class House:
    """Everything that runs: a client of it, and the variables with which a command finds it."""

    client: Client
    environ: Mapping[str, str]


@asynccontextmanager
async def up(folder: Path, toml: str) -> AsyncIterator[House]:
    """`staffel up` with this configuration, its log in the folder; ready once both lanes are served."""
    config, log = folder / "staffel.toml", folder / "up.log"
    config.write_text(toml)
    # Nobody's own Redis or configuration: its workers would take these jobs, and ours theirs.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STAFFEL_")}
    environ |= {"STAFFEL_CONFIG": str(config), "STAFFEL_STATE_DIR": str(folder / "state")}
    command = [sys.executable, "-m", "staffel.cli", "up", "--no-flower"]
    with log.open("w") as out:
        async with _process("staffel up", command, environ, out, capture=False) as process:
            url = await _url(process, folder, log)
            async with Client(url) as client:
                await _served(client, process, log)
                yield House(client, environ)


async def _url(process: asyncio.subprocess.Process, folder: Path, log: Path) -> str:
    async with asyncio.timeout(_READY_S):
        while not (url := embedded_url(folder / "state")):
            _refuse_dead(process, log)
            await asyncio.sleep(0.05)
    return url


async def _served(client: Client, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_READY_S):
        while not {"cloud", "ollama"} <= await _lanes(client):
            _refuse_dead(process, log)
            await asyncio.sleep(0.1)


async def _lanes(client: Client) -> frozenset[str]:
    """None yet while the embedded server is on its way."""
    try:
        return await client.lanes()
    except Unavailable:
        return frozenset()


def _refuse_dead(process: asyncio.subprocess.Process, log: Path) -> None:
    if process.returncode is not None:
        last = (log.read_text().strip().splitlines() or ["no word"])[-1]
        raise Unavailable(f"staffel up ended ({process.returncode}): {last}")


@asynccontextmanager
async def _process(
    name: str, command: list[str], environ: Mapping[str, str], errors: IO[str], *, capture: bool = True
) -> AsyncIterator[asyncio.subprocess.Process]:
    out = asyncio.subprocess.PIPE if capture else errors
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                print(f"{name} did not stop within {_STOP_S:g} s and was killed", file=sys.stderr)
                process.kill()
                await process.wait()
