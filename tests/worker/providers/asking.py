"""Calls over real sockets: what was read, and what a walk made of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from config.stages import Stage
from tests.hosts import Host
from worker.failover.answer import View
from worker.failover.chain import Engine, Stop
from worker.failover.clocks import Reply, Sink, read
from worker.failover.provider import Call
from worker.failover.request import Request
from worker.failover.state import Visit
from worker.prices import cost
from worker.providers.adapter import Adapter
from worker.providers.anthropic import Anthropic
from worker.providers.gemini import Gemini
from worker.providers.ollama import Ollama
from worker.providers.openai import OpenAI
from worker.providers.scripted import Scripted
from worker.state.memory import Memory

PATIENT = {"timeout": 30.0, "first_token_timeout": 20.0, "idle_timeout": 20.0}
"""Clocks that no machine is slow enough to meet."""

MESSAGES = [{"role": "user", "content": "Why?"}]


ADAPTERS: Mapping[str, type[Adapter]] = {"openai": OpenAI, "anthropic": Anthropic, "gemini": Gemini, "ollama": Ollama}


def place(host: Host, protocol: str, script: str) -> str:
    """The base URL of a new stage of this protocol."""
    return str(getattr(host, protocol)(script))


def stage_at(url: str, protocol: str, **fields: Any) -> Stage:
    return Stage("first", protocol, url, "m", **{**PATIENT, **fields})


@asynccontextmanager
async def provider_of(protocol: str) -> AsyncIterator[Adapter]:
    provider = ADAPTERS[protocol]()
    try:
        yield provider
    finally:
        await provider.close()


def replies(stage: Stage, times: int = 1, **request: Any) -> list[Reply]:
    """The same call, so many times one after the other, by one provider."""

    async def asking() -> list[Reply]:
        call = Call(stage, Request(MESSAGES, **request), 100)
        async with provider_of(stage.provider) as provider:
            return [await read(provider, call, stage.timeout) for _ in range(times)]

    return asyncio.run(asking())


def reply(stage: Stage, **request: Any) -> Reply:
    return replies(stage, **request)[0]


def walked(stage: Stage, stop: Stop | None = None, during: Any = None, **request: Any) -> Mapping[str, Any]:
    """A walk along this stage and one that always answers, as it is shown; `during` runs beside it."""
    return asyncio.run(walking(stage, stop, during, **request))


async def walking(
    stage: Stage, stop: Stop | None = None, during: Any = None, sink: Sink | None = None, **request: Any
) -> Mapping[str, Any]:
    """The same on a running loop; pieces of the answer go to the sink."""
    stages = {"first": stage, "second": Stage("second", "scripted", model="m", price=None, local=True)}
    memory = Memory(stages, time.time)
    memory.submit("j", {"messages": MESSAGES, **request}, ("first", "second"), stage.lane, 60)
    async with provider_of(stage.provider) as provider:
        engine = Engine(
            memory, stages, {stage.provider: provider, "scripted": Scripted()},
            lambda fields: Request(**fields), lambda *_: None, lambda *_: None, lambda _: sink, cost,
        )  # fmt: skip
        beside = asyncio.ensure_future(during()) if during else None
        end = await engine.walk(Visit("j", stage.lane, "w", "w@host"), stop or Stop())
        if beside is not None:
            await beside
    assert isinstance(end, View)
    return end.shown
