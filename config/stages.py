"""Stages and chains as checked values; every mistake is named with its key."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from config.limits import Breaker, Count, Limits, Seconds, Usd
from config.problems import Table
from staffel_wire import keys

CLOUD = "cloud"
"""The lane that runs many at once. Every other lane runs one request at a time."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
NAMES = "a name has small letters, digits, _ and -, and starts with a letter"
_LANE = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
LANES = "a lane has small letters, digits, _, - and dots, and starts with a letter"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION = re.compile(r"[A-Za-z0-9._-]{1,40}")
_DURATION = re.compile(r"-?(\d+(\.\d+)?(ms|s|m|h))+")
MAX_REPLY_BYTES = 8_000_000
"""Bytes of one reply that are read where a stage names no other bound."""

COLD_LOAD_S = 60.0
"""A model of some gigabytes is read from a disk in so long."""

COOL_OFF_S = 1.0
"""A host that was left in mid-call may still work at it: it notices when it comes to the next token."""

MOST_TOKENS = 10_000_000
"""At the highest price that a stage may name, a call of so many is still a whole number of nano-USD to Redis's Lua."""

MOST_STAGES = 500
"""A chain's plan is written into each of its jobs, and one script on the one Redis walks all of it."""

_PORTS = {"http": 80, "https": 443}
_HERE = "127.0.0.1"
_THIS_MACHINE = frozenset({_HERE, "localhost", "::1", "0.0.0.0"})


class Price(Table):
    """USD per 1M tokens."""

    input: float = Field(ge=0, le=100_000, allow_inf_nan=False)
    output: float = Field(ge=0, le=100_000, allow_inf_nan=False)


class Takes(Table):
    """What a stage takes; what it does not is left out of its calls, and images make it be skipped.

    A `response_schema` that it does not take is told in the prompt instead; every answer is validated here anyway.
    """

    temperature: bool = True
    stop: bool = True
    seed: bool = True
    reasoning: bool = True
    response_schema: bool = True
    images: bool = True


class StageTable(Table):
    """One `[stages.NAME]` table. Times in seconds, lengths in tokens, `max_reply_bytes` in bytes."""

    provider: Literal["openai", "anthropic", "gemini", "ollama", "scripted"]
    base_url: str = ""
    # A variable that is all digits comes as a number.
    model: str = Field(default="", max_length=200, coerce_numbers_to_str=True)
    api_key_env: str | None = None
    lane: str | None = None
    local: bool = False
    timeout: Seconds = 60.0
    connect_timeout: Seconds = 3.0
    first_token_timeout: Seconds | None = None
    idle_timeout: Seconds | None = None
    cold_load_timeout: Seconds | None = None
    cool_off: float = Field(default=COOL_OFF_S, ge=0, le=86_400, allow_inf_nan=False)
    reserve: float = Field(default=0.0, ge=0, le=86_400, allow_inf_nan=False)
    num_ctx: int = Field(default=4096, ge=256)
    keep_alive: str | int = "30m"
    max_output_tokens: int = Field(default=2048, ge=1, le=MOST_TOKENS)
    max_reply_bytes: int = Field(default=MAX_REPLY_BYTES, ge=1_000, le=1_000_000_000)
    stream: bool = True
    api_version: str | None = None
    takes: Takes = Takes()
    price: Price | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    max_in_flight: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    burst: Seconds = 6.0
    usd_per_day: Usd | None = None
    retires_on: date | None = None
    limit_group: str | None = None
    on_unknown: Literal["retry", "skip"] = "retry"
    breaker: Breaker = Breaker()

    @field_validator("api_key_env")
    @classmethod
    def _variable(cls, value: str | None) -> str | None:
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError('must be the name of a variable such as "OPENAI_API_KEY", never the key itself')
        return value

    @field_validator("api_version", mode="before")
    @classmethod
    def _version(cls, value: object) -> object:
        # TOML has dates, and most versions are one: without quotation marks it comes as such.
        text = value.isoformat() if isinstance(value, date) else value
        if text is not None and not (isinstance(text, str) and _VERSION.fullmatch(text)):
            raise ValueError('must be a version such as "2023-06-01"')
        return text

    @field_validator("limit_group")
    @classmethod
    def _group(cls, value: str | None) -> str | None:
        if value is not None and not is_name(value):
            raise ValueError(NAMES)
        return value

    @field_validator("lane")
    @classmethod
    def _queue(cls, value: str | None) -> str | None:
        if value is not None and not _LANE.fullmatch(value):
            raise ValueError(LANES)
        if value is not None and keys.is_batch(value):
            lane = keys.lane_of(value)
            raise ValueError(
                f'{value!r} is where batch jobs of {lane!r} wait; write "{lane}", and `priority` in requests'
            )
        return value

    @field_validator("params")
    @classmethod
    def _sendable(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError):
            raise ValueError("must hold only what JSON can: no date or time, no nan or inf, not too deep") from None
        return value

    @field_validator("keep_alive", mode="before")
    @classmethod
    def _duration(cls, value: object) -> object:
        # Ollama answers anything else with 400, which would end the walk as the request's own fault.
        if isinstance(value, int) or (isinstance(value, str) and _DURATION.fullmatch(value)):
            return value
        raise ValueError('must be a time such as "30m" or "24h", or a number of seconds (-1: for ever)')


def address_of(base_url: str) -> tuple[str, int] | None:
    """Host and port, all names of this machine as one; None where it is no address."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or _PORTS[parts.scheme]
        name = parts.hostname
        (name or "").encode("idna")  # as the look-up of an address does: no empty part, none over 63 letters
    except (ValueError, KeyError):  # UnicodeError is a ValueError
        return None
    return (_HERE if name in _THIS_MACHINE else name, port) if name else None


class ChainTable(Table):
    """One `[chains.NAME]` table: stages or other chains, in the order in which they are tried."""

    stages: list[str] = Field(min_length=1)
    deadline: Seconds = 90.0
    usd_per_day: Usd | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One place a request can be sent. Times in seconds; `price` in USD per 1M tokens.

    `stream` false asks for the answer in one piece, whose first text is its last. `api_version` is a version that the
    provider's protocol knows (`anthropic-version`, Azure's `api-version`, a part of Gemini's path).
    """

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
    cold_load_timeout: float = COLD_LOAD_S
    """For the first token of a call whose model has to be loaded first; `timeout` then starts with that token."""
    cool_off: float = COOL_OFF_S
    """How long a lane's host is left alone after a call that was broken off."""
    reserve: float = 0.0
    num_ctx: int = 4096
    keep_alive: str | int = "30m"
    max_output_tokens: int = 2048
    max_reply_bytes: int = MAX_REPLY_BYTES
    stream: bool = True
    api_version: str | None = None
    takes: Takes = field(default_factory=Takes)
    price: Price | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    breaker: Breaker = field(default_factory=Breaker)
    limits: Limits = field(default_factory=Limits)
    limit_group: str | None = None
    usd_per_day: float | None = None
    on_unknown: Literal["retry", "skip"] = "retry"
    """Whether it is asked again where nobody saw what came of its call, since the worker died."""

    @property
    def longest(self) -> float:
        """Seconds that one call may take at most, the load of its model with it."""
        return self.timeout + (self.cold_load_timeout if self.provider == "ollama" else 0.0)


def identity(stage: Stage) -> str:
    """Which host and model a stage is: what was learned of one is not believed of another under the same name."""
    return hashlib.blake2b(f"{stage.provider} {stage.base_url} {stage.model}".encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Chain:
    """A flat plan of stage names, and the deadline (s) of a request that names none."""

    name: str
    plan: tuple[str, ...]
    deadline: float = 90.0
    usd_per_day: float | None = None


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
        cold_load_timeout=cold_load_timeout(table),
        cool_off=table.cool_off,
        reserve=table.reserve,
        num_ctx=table.num_ctx,
        keep_alive=table.keep_alive,
        max_output_tokens=table.max_output_tokens,
        max_reply_bytes=table.max_reply_bytes,
        stream=table.stream,
        api_version=table.api_version,
        takes=table.takes,
        price=table.price,
        params=table.params,
        breaker=table.breaker,
        limits=Limits(_max_in_flight(table), table.requests_per_minute, table.tokens_per_minute, table.burst),
        limit_group=table.limit_group,
        usd_per_day=table.usd_per_day,
        on_unknown=table.on_unknown,
    )


def _max_in_flight(table: StageTable) -> int | None:
    """None on a lane that runs one at a time: the lane sees to that, and has the next call admitted early."""
    return table.max_in_flight if lane_of(table) == CLOUD or table.limit_group else None


def cold_load_timeout(table: StageTable) -> float:
    """As written; else a minute, and never less than a call has whose model is there."""
    return table.cold_load_timeout or max(COLD_LOAD_S, table.first_token_timeout or table.timeout)


def lane_of(table: StageTable) -> str:
    return table.lane or ("ollama" if table.provider == "ollama" else CLOUD)
