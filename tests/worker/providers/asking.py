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
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call
from worker.failover.request import Request
from worker.failover.state import Visit
from worker.providers.ollama import Ollama
from worker.providers.openai import OpenAI
from worker.providers.scripted import Scripted
from worker.state.memory import Memory

PATIENT = {"timeout": 30.0, "first_token_timeout": 20.0, "idle_timeout": 20.0}
"""Clocks that no machine is slow enough to meet."""

MESSAGES = [{"role": "user", "content": "Why?"}]


def place(host: Host, protocol: str, script: str) -> str:
    return host.openai(script) if protocol == "openai" else host.ollama(script)


def stage_at(url: str, protocol: str, **fields: Any) -> Stage:
    return Stage("first", protocol, url, "m", **{**PATIENT, **fields})


@asynccontextmanager
async def provider_of(protocol: str) -> AsyncIterator[OpenAI | Ollama]:
    provider: OpenAI | Ollama = OpenAI() if protocol == "openai" else Ollama()
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


def walked(stage: Stage, stop: Stop | None = None, during: Any = None) -> Mapping[str, Any]:
    """A walk along this stage and one that always answers, as it is shown; `during` runs beside it."""

    async def walking() -> Mapping[str, Any]:
        stages = {"first": stage, "second": Stage("second", "scripted", model="m", price=None, local=True)}
        memory = Memory(stages, time.time)
        memory.submit("j", {"messages": MESSAGES}, ("first", "second"), stage.lane, 60)
        async with provider_of(stage.provider) as provider:
            engine = Engine(
                memory, stages, {stage.provider: provider, "scripted": Scripted()},
                lambda fields: Request(**fields), lambda *_: None, lambda _: None,
            )  # fmt: skip
            beside = asyncio.ensure_future(during()) if during else None
            end = await engine.walk(Visit("j", stage.lane, "w", "w@host"), stop or Stop())
            if beside is not None:
                await beside
        assert isinstance(end, View)
        return end.shown

    return asyncio.run(walking())
