"""Stages and chains as checked values; every mistake is named with its key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

CLOUD = "cloud"
"""The lane that runs many at once. Every other lane runs one request at a time."""

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_LATER = {"anthropic", "gemini"}


class Price(BaseModel):
    """USD per 1M tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


class Breaker(BaseModel):
    """When a stage is taken for dead. Checked here, honoured once breakers are shared (see docs/configuration.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    failure_ratio: float = Field(default=0.5, gt=0, le=1)
    window: Seconds = 10.0
    min_calls: int = Field(default=5, ge=1)
    open_for: Seconds = 30.0


class StageTable(BaseModel):
    """One `[stages.NAME]` table. Times in seconds, lengths in tokens."""

    model_config = ConfigDict(extra="forbid")

    provider: Literal["openai", "ollama", "scripted"]
    base_url: str = ""
    model: str = Field(default="", max_length=200)
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    lane: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    local: bool = False
    timeout: Seconds = 60.0
    connect_timeout: Seconds = 3.0
    first_token_timeout: Seconds | None = None
    idle_timeout: Seconds | None = None
    cold_load_timeout: Seconds | None = None
    reserve: float = Field(default=0.0, ge=0, le=86_400)
    num_ctx: int = Field(default=4096, ge=256)
    keep_alive: str | int = "30m"
    max_output_tokens: int = Field(default=2048, ge=1)
    price: Price | None = None
    params: dict[str, Any] = {}
    max_in_flight: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    retires_on: date | None = None
    limit_group: str | None = None
    breaker: Breaker | None = None

    @field_validator("provider", mode="before")
    @classmethod
    def _known_later(cls, value: object) -> object:
        if value in _LATER:
            raise ValueError(f"{value} is not supported yet; write openai (any OpenAI-compatible endpoint) or ollama")
        return value

    @model_validator(mode="after")
    def _complete(self) -> StageTable:
        if self.provider == "scripted":
            return self
        if not self.model:
            raise ValueError("model: missing; write the model's name as the provider spells it")
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError('base_url: must be an address such as "https://api.example.com/v1"')
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("base_url: must hold no user, key or query; keys go into the variable of api_key_env")
        return self


class ChainTable(BaseModel):
    """One `[chains.NAME]` table: stages or other chains, in the order in which they are tried."""

    model_config = ConfigDict(extra="forbid")

    stages: list[str] = Field(min_length=1)
    deadline: Seconds = 90.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One place a request can be sent. Times in seconds; `price` in USD per 1M tokens."""

    name: str
    provider: str
    base_url: str = ""
    model: str = ""
    api_key: SecretStr | None = None
    lane: str = CLOUD
    local: bool = False
    timeout: float = 60.0
    connect_timeout: float = 3.0
    first_token_timeout: float | None = None
    idle_timeout: float | None = None
    reserve: float = 0.0
    num_ctx: int = 4096
    keep_alive: str | int = "30m"
    max_output_tokens: int = 2048
    price: Price | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """A flat plan of stage names, and the deadline (s) of a request that names none."""

    name: str
    plan: tuple[str, ...]
    deadline: float = 90.0


def is_name(text: str) -> bool:
    """Names go into keys, environment variables and log lines."""
    return _NAME.fullmatch(text) is not None


def stage(name: str, table: StageTable, api_key: str | None) -> Stage:
    """The checked value of a table; an Ollama host has the lane `ollama` where none is named."""
    return Stage(
        name=name,
        provider=table.provider,
        base_url=table.base_url.rstrip("/"),
        model=table.model or table.provider,
        api_key=SecretStr(api_key) if api_key else None,
        lane=lane_of(table),
        local=table.local,
        timeout=table.timeout,
        connect_timeout=table.connect_timeout,
        first_token_timeout=table.first_token_timeout,
        idle_timeout=table.idle_timeout,
        reserve=table.reserve,
        num_ctx=table.num_ctx,
        keep_alive=table.keep_alive,
        max_output_tokens=table.max_output_tokens,
        price=table.price,
        params=table.params,
    )


def lane_of(table: StageTable) -> str:
    return table.lane or ("ollama" if table.provider == "ollama" else CLOUD)
