"""The README is executed: its commands, its programs, its configuration."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.file import load
from config.settings import embedded_url
from tests.eventually import eventually
from tests.hosts import Host

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Terminal:
    """A folder and an environment in which a newcomer types what the README says, with a host that plays Ollama."""

    def __init__(self, folder: Path, host: Host) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        self.environ = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "STAFFEL_STATE_DIR": str(folder / "state"),
            "STAFFEL_STAGES__LOCAL__BASE_URL": host.ollama("ok:text=It scatters blue light."),
        }

    def type(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=self.environ, capture_output=True,
            text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=self.folder, env=self.environ, capture_output=True, text=True,
            timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """`staffel init`, `staffel check` and `staffel up` as the README types them; Ctrl-C at the end."""
    setup = next(block for block in blocks("sh") if "staffel init" in block)
    with Host() as host:
        made = Terminal(tmp_path_factory.mktemp("newcomer"), host)
        made.type("\n".join(line for line in setup.splitlines() if "staffel up" not in line))
        log = made.folder / "up.log"
        with log.open("w") as out:
            up = subprocess.Popen(
                [str(BIN / "staffel"), "up", "--port", str(free_port())], cwd=made.folder, env=made.environ,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            eventually(lambda: "staffel ask" in log.read_text() or up.poll() is not None, "staffel up is ready", 60)
            assert up.poll() is None, log.read_text()
            yield made
        finally:
            up.send_signal(signal.SIGINT)
            assert up.wait(timeout=60) == 0, log.read_text()


def test_the_commands_of_the_second_terminal_work(terminal: Terminal) -> None:
    """ask, submit, wait, show, cancel and summarize, in the order in which the README has them."""
    said = terminal.type(next(block for block in blocks("sh") if "staffel ask" in block))
    assert said.count("It scatters blue light.") >= 3
    assert len(list((terminal.folder / "summaries").glob("*.summary.md"))) == 6


def test_the_celery_program_works(terminal: Terminal) -> None:
    """`ask.delay(...).get()` from a script that knows no more than the README."""
    program = next(block for block in blocks("python") if "from tasks import" in block)
    assert "It scatters blue light." in terminal.python(program)


def test_the_client_program_works(terminal: Terminal) -> None:
    """The web backend's lines, inside a coroutine as they would be."""
    program = next(block for block in blocks("python") if "from staffel import Client" in block)
    program = program.replace("redis://localhost:6379/0", embedded_url(terminal.folder / "state"))
    imports, _, rest = program.partition("\n")
    whole = f"import asyncio\n{imports}\nasync def main():\n{textwrap.indent(rest, '    ')}\nasyncio.run(main())"
    assert "It scatters blue light." in terminal.python(whole)


def test_the_configuration_is_sound(tmp_path: Path) -> None:
    """The README's own TOML, with the variable set that it names."""
    (tmp_path / "staffel.toml").write_text(blocks("toml")[0])
    read = load(tmp_path / "staffel.toml", {}, {"OPENAI_API_KEY": "key"})
    assert read.chains["default"].plan == ("primary", "local")


def test_it_is_short_and_its_links_lead_somewhere() -> None:
    """At most 120 lines; every file that it names is there, and every make target too."""
    assert len(README.splitlines()) <= 120
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
