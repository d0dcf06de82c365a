"""The environment and the file as one frozen value."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from config.file import General, load
from config.problems import ConfigError, Problem, sentence
from config.stages import Chain, Stage

RUN_FILE = "redis.json"
"""Where the embedded server says how to reach it, in the state folder (mode 0600)."""


class Environment(BaseSettings):
    """Every variable of ours. `STAFFEL_STAGES__PRIMARY__TIMEOUT=5` overrides a key of the file."""

    model_config = SettingsConfigDict(
        env_prefix="STAFFEL_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    config: Path = Path("staffel.toml")
    redis_url: str = Field(default="", repr=False)
    broker_url: str = Field(default="", repr=False)
    state_dir: Path = Path("~/.local/state/staffel")
    max_request_bytes: int | None = None
    answer_ttl: int | None = None
    ledger_ttl: int | None = None
    dead_ttl: int | None = None
    idempotency_ttl: int | None = None
    cloud_slots: int | None = None
    max_deliveries: int | None = None
    drain: float | None = None
    visibility_timeout: float | None = None
    stages: dict[str, Any] = {}
    chains: dict[str, Any] = {}

    def overrides(self) -> dict[str, Any]:
        """What goes on top of the file."""
        given = self.model_dump(exclude={"config", "redis_url", "broker_url", "state_dir"}, exclude_none=True)
        return {key: value for key, value in given.items() if value != {}}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker is built from; the URL may hold a password, and is in no repr."""

    redis_url: str = field(repr=False)
    state_dir: Path
    general: General
    stages: Mapping[str, Stage]
    chains: Mapping[str, Chain]
    notes: tuple[Problem, ...] = ()


def environment() -> Environment:
    """The variables, or `ConfigError` naming the one that is wrong."""
    try:
        return Environment()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [Problem(_variable(*e["loc"]), sentence(e["type"], e["msg"])) for e in found]
        raise ConfigError("the environment", problems) from None
    except SettingsError as error:
        # The only one that names its field in words alone.
        name = next((name for name in Environment.model_fields if f'"{name}"' in str(error)), "")
        raise ConfigError("the environment", [Problem(_variable(name), "must be JSON, or left out")]) from None
    except RecursionError:
        # The reader of JSON gave up, which does not say on whose value.
        named = {key.upper(): value for key, value in os.environ.items() if key.upper().startswith("STAFFEL_")}
        deepest = max(named, key=lambda name: sum(map(named[name].count, "[{")))
        raise ConfigError("the environment", [Problem(deepest, "is nested too deeply to be read")]) from None


def _variable(*place: object) -> str:
    return "STAFFEL_" + "__".join(map(str, place)).upper()


def settings(config: Path | None = None) -> Settings:
    """Read everything once; raises `ConfigError` with all that is wrong."""
    env = environment()
    read = load(config or at_home(env.config, "config"), env.overrides(), os.environ)
    return Settings(redis_url(env), state_dir(env), read.general, read.stages, read.chains, read.notes)


def state_dir(env: Environment) -> Path:
    return at_home(env.state_dir, "state_dir")


def at_home(path: Path, name: str) -> Path:
    """The path with its `~` replaced; raises `ConfigError` naming the variable where nobody has that home."""
    try:
        return path.expanduser()
    except RuntimeError:
        text = f"there is no home folder for {path.parts[0]}; write the whole path"
        raise ConfigError("the environment", [Problem(_variable(name), text)]) from None


def redis_url(env: Environment) -> str:
    """The URL of STAFFEL_REDIS_URL, else of the embedded server that runs, else an empty string."""
    url = env.redis_url or embedded_url(state_dir(env))
    if env.broker_url and env.broker_url != url:
        text = "another broker than Redis is not supported yet; leave it unset"
        raise ConfigError("the environment", [Problem("STAFFEL_BROKER_URL", text)])
    return url


def embedded_url(folder: Path) -> str:
    """What the embedded server's run file says, or an empty string."""
    try:
        return str(json.loads((folder / RUN_FILE).read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
