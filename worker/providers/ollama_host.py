"""What an Ollama host says beside its answers: which models it has, which is in its memory; and the load of one.

Never whether it is alive: a host whose runner is stuck still answers all of this.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from config.ollama import is_same
from config.stages import Stage
from worker.failover.detail import detail
from worker.failover.provider import Kind
from worker.failover.request import Request
from worker.providers.ollama import authorization, loading
from worker.providers.replies import failed
from worker.providers.transport import OK, client_arguments, error_body, fault_of

LOOK_S = 2.0
"""A look that takes longer is given up: `/api/ps` waits for a load to end."""

_MOST_BYTES = 4_000_000
"""Of a description: a model's license and its vocabulary may be in it."""

_WORDS = {
    Kind.CONNECT: "nobody answers",
    Kind.CUT: "the connection was cut",
    Kind.OURS: "no room for a connection on this side",
}


class HostUnclear(Exception):
    """The host did not say what was asked, and this is why, in words without its address. `away`: nobody answered;
    `status`: what it answered instead of 200.
    """

    def __init__(self, why: str, *, away: bool = False, status: int | None = None) -> None:
        super().__init__(why)
        self.away, self.status = away, status


@dataclass(frozen=True, slots=True)
class Resident:
    """A model in the host's memory: its window in tokens, and until when it stays (ISO 8601), as far as it says."""

    context_length: int | None = None
    expires_at: str | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A model as it is described: the longest window it was trained for, and what it can (`vision`, `thinking`)."""

    context_length: int | None = None
    capabilities: frozenset[str] = frozenset()


class Hosts:
    """Asks the hosts of stages; every look within `LOOK_S`. All of it raises `HostUnclear`, and nothing else.

    One client a stage, as for its calls: no proxy of the environment, no redirect, no key but the stage's.
    """

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def pulled(self, stage: Stage) -> bool:
        """Whether the host has the stage's model on its disk."""
        return any(_is_it(stage, model) for model in await self._models(stage, "/api/tags"))

    async def resident(self, stage: Stage) -> Resident | None:
        """The stage's model as it is in the host's memory; None where it is not there."""
        for model in await self._models(stage, "/api/ps"):
            if _is_it(stage, model):
                expires = model.get("expires_at")
                return Resident(_count(model.get("context_length")), expires if isinstance(expires, str) else None)
        return None

    async def shown(self, stage: Stage) -> Shown:
        found = await self._asked(stage, "POST", "/api/show", {"model": stage.model}, LOOK_S)
        info, able = found.get("model_info"), found.get("capabilities")
        lengths = info.items() if isinstance(info, Mapping) else ()
        length = next((value for key, value in lengths if str(key).endswith(".context_length")), None)
        return Shown(_count(length), frozenset(map(str, able if isinstance(able, list) else ())))

    async def load(self, stage: Stage) -> None:
        """Come back when the model is in the host's memory, as the stage's calls will want it.

        No clock but the caller's; whoever gives up throws the load away.
        """
        found = await self._asked(stage, "POST", "/api/chat", loading(stage), None)
        if found.get("done") is not True:
            raise HostUnclear("an answer without its end")

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def _models(self, stage: Stage, path: str) -> list[Mapping[str, Any]]:
        listed = (await self._asked(stage, "GET", path, None, LOOK_S)).get("models")
        # An empty list is spelled null by some versions.
        if listed is not None and not isinstance(listed, list):
            raise HostUnclear("an answer that is none of Ollama's")
        return [model for model in listed or () if isinstance(model, Mapping)]

    async def _asked(
        self, stage: Stage, method: str, path: str, body: Mapping[str, Any] | None, seconds: float | None
    ) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(seconds), self._answered(stage, method, path, body) as response:
                data = bytearray()
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > _MOST_BYTES:
                        raise HostUnclear("an answer that is far too long")
                found = json.loads(data)
        except HostUnclear:
            raise
        except TimeoutError:
            raise HostUnclear(f"no answer within {seconds or LOOK_S:g} s") from None
        except (ValueError, RecursionError):
            raise HostUnclear("an answer that is none of Ollama's") from None
        except Exception as error:
            kind = fault_of(error).kind
            raise HostUnclear(_WORDS.get(kind, "an answer that cannot be read"), away=kind is Kind.CONNECT) from error
        if not isinstance(found, Mapping):
            raise HostUnclear("an answer that is none of Ollama's")
        if "error" in found:
            raise HostUnclear(_said(stage, OK, str(found["error"])))
        return found

    @asynccontextmanager
    async def _answered(
        self, stage: Stage, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[httpx.Response]:
        url = f"{stage.base_url.rstrip('/')}{path}"
        if stage.name not in self._clients:
            self._clients[stage.name] = httpx.AsyncClient(**client_arguments(stage))  # type: ignore[arg-type]
        headers = dict(authorization(stage))
        async with self._clients[stage.name].stream(method, url, json=body, headers=headers) as response:
            if response.status_code != OK:
                said = failed(response.status_code, response.headers, await error_body(response), time.time())
                why = _said(stage, response.status_code, said.words.text)
                raise HostUnclear(why, status=response.status_code)
            yield response


def _said(stage: Stage, status: int, text: str) -> str:
    """The host's own words, cleaned as those on an attempt are."""
    words = detail(text, stage, Request([]))
    return f"status {status}: {words}" if words else f"status {status}"


def _is_it(stage: Stage, model: Mapping[str, Any]) -> bool:
    return any(isinstance(name := model.get(key), str) and is_same(name, stage.model) for key in ("model", "name"))


def _count(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
