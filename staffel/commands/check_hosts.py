"""What the hosts of a sound configuration say: who is away, and what an Ollama host has and can."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from urllib.parse import urlsplit

from config.ollama import is_elsewhere
from config.problems import Problem
from config.stages import Stage
from worker.providers.ollama_host import Hosts, HostUnclear, Shown

_CONNECT_S = 2.0
_PORTS = {"http": 80, "https": 443}
_NOT_FOUND = 404


def looked_at(stages: Iterable[Stage]) -> tuple[list[str], list[Problem]]:
    """The stages at whose hosts nobody answers, and what is worth a line about the others.

    All hosts side by side; each step within 2 s, so that a host that is away makes nobody wait for longer.
    """
    return asyncio.run(_look(list(stages)))


async def _look(stages: list[Stage]) -> tuple[list[str], list[Problem]]:
    hosts = Hosts()
    try:
        found = await asyncio.gather(*(_of_stage(stage, hosts) for stage in stages))
    finally:
        await hosts.close()
    away = [stage.name for stage, notes in zip(stages, found, strict=True) if notes is None]
    return away, [note for notes in found for note in notes or ()]


async def _of_stage(stage: Stage, hosts: Hosts) -> list[Problem] | None:
    """None where nobody answers."""
    if stage.provider == "scripted":
        return []
    if not await _is_there(stage):
        return None
    if stage.provider != "ollama":
        return []
    return [Problem(f"stages.{stage.name}.{key}", text) async for key, text in _notes(stage, hosts)]


async def _is_there(stage: Stage) -> bool:
    """Whether something listens at the stage's host; nothing is sent to it."""
    parts = urlsplit(stage.base_url)
    try:
        async with asyncio.timeout(_CONNECT_S):
            port = parts.port or _PORTS[parts.scheme]
            _, writer = await asyncio.open_connection(parts.hostname or "", port, family=socket.AF_UNSPEC)
            writer.close()
            await writer.wait_closed()
    except (OSError, UnicodeError):  # a name that no name server could be asked for
        return False
    return True


async def _notes(stage: Stage, hosts: Hosts) -> AsyncIterator[tuple[str, str]]:
    if is_elsewhere(stage.base_url, stage.model):  # nobody pulls there, and the window is not ours to set
        return
    try:
        if not await hosts.pulled(stage):
            yield "model", f"{stage.model} is not on its host; type there: ollama pull {stage.model}"
            return
        shown = await hosts.shown(stage)
    except HostUnclear as error:
        yield "base_url", _unclear(error)
        return
    trained = shown.context_length
    if trained is not None and stage.num_ctx > trained:
        text = f"{stage.num_ctx}, but {stage.model} was trained for {trained}, and the host takes that without a word"
        yield "num_ctx", f"{text}; write num_ctx = {trained}"
    for key, text in _incapable(stage, shown):
        yield key, text


def _unclear(error: HostUnclear) -> str:
    if error.status == _NOT_FOUND:
        return f"the host does not know Ollama's API ({error}); write the address before /api, with no /v1"
    return f"the host does not say which models it has: {error}"


def _incapable(stage: Stage, shown: Shown) -> Iterable[tuple[str, str]]:
    """What the stage is said to do, and the model cannot. An older host says nothing of what a model can."""
    if shown.capabilities and "completion" not in shown.capabilities:
        yield "model", f"{stage.model} gives no answers (it can: {', '.join(sorted(shown.capabilities))}); name another"
        return
    for take, capability in (("images", "vision"), ("reasoning", "thinking")):
        wanted = take in stage.takes.model_fields_set and getattr(stage.takes, take)
        if wanted and shown.capabilities and capability not in shown.capabilities:
            yield f"takes.{take}", f"{stage.model} cannot; write takes = {{ {take} = false }}"
