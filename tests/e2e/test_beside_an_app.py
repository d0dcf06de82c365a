"""The client in somebody's web backend, installed from the wheel: their names are theirs, and Celery may be any."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.nodes import House

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, json, sys
for name in {absent!r}:
    sys.modules[name] = None

import config, tasks, worker
import staffel
from staffel import Client, Exhausted, SyncClient

async def work():
    async with Client() as client:
        answer = await client.ask({prompt!r}, chain="quick")
        try:
            await client.ask({prompt!r}, chain="hopeless")
        except Exhausted as error:
            return answer.text, [attempt["stage"] for attempt in error.attempts]

text, stages = asyncio.run(work())
with SyncClient() as client:
    again = client.ask({prompt!r}, chain="quick").text
print(json.dumps({{"text": text, "again": again, "stages": stages, "staffel": staffel.__file__,
                   "theirs": [config.OWNER, tasks.OWNER, worker.OWNER],
                   "loaded": [name for name in {never!r} if sys.modules.get(name)]}}))
"""


NEVER = ["kombu", "httpx", "aiohttp", "ollama", "click", "rich"]
"""What a client has no use for."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel is unpacked, as an installer does with a wheel of pure Python."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A backend with a package and two modules that are called like ours."""
    (tmp_path / "config").mkdir()
    for name in ("config/__init__.py", "tasks.py", "worker.py"):
        (tmp_path / name).write_text('OWNER = "them"\n')
    return tmp_path


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("celery", ["none", "older"])
def test_it_asks(house: House, installed: Path, app: Path, prompt: str, celery: str) -> None:
    """Without Celery, and beside one that is older than any that our workers could use."""
    if celery == "older":
        (app / "celery.py").write_text('__version__ = "4.4.7"\n')
    program = PROGRAM.format(prompt=prompt, never=NEVER, absent=["celery", "kombu"] if celery == "none" else [])
    path = os.pathsep.join([str(app), str(installed)])

    done = house.run([sys.executable, "-W", "error", "-c", program], PYTHONPATH=path)

    assert done.code == 0, done.err
    assert done.json == {
        "text": prompt,
        "again": prompt,
        "stages": ["broken", "overloaded"],
        "staffel": str(installed / "staffel" / "__init__.py"),
        "theirs": ["them"] * 3,
        "loaded": [],
    }


def test_the_wheel_holds_all_that_is_read_at_run_time(installed: Path) -> None:
    """Scripts of both sides of Redis, and the commented example."""
    packed = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.suffix in {".lua", ".toml"}}
    source = {
        str(path.relative_to(ROOT))
        for package in ("config", "worker", "staffel_wire", "staffel", "tasks")
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".lua", ".toml"}
    }
    assert packed == source
    assert len(source) > 5
