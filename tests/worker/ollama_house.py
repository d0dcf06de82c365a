"""An Ollama host with a memory: models that are loaded, stay, are driven out, and whose loads are thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, web


@dataclass
class House:
    """`loads_s`: seconds of a load, in which `/api/ps` waits as well; `failing`: what a load says instead.

    Has room for one model. Its window is as asked for, at most `trained`.
    """

    loads_s: float = 0.0
    trained: int = 8192
    capabilities: tuple[str, ...] = ("completion",)
    pulled: tuple[str, ...] = ("m:latest",)
    failing: str = ""
    odd: web.Response | None = None
    """What any look says instead."""
    hangs: bool = False
    resident: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    thrown_away: int = 0
    url: str = ""
    _loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def loads(self) -> list[Any]:
        return [body for path, body in self.asked if path == "/api/chat"]

    @property
    def looks(self) -> int:
        return sum(path == "/api/ps" for path, _ in self.asked)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.path, body))
        if self.hangs:
            await asyncio.sleep(3600)
        if self.odd is not None:
            return web.Response(status=self.odd.status, body=self.odd.body, content_type=self.odd.content_type)
        match request.path:
            case "/api/tags":
                return web.json_response({"models": [{"name": name, "model": name} for name in self.pulled]})
            case "/api/ps":
                async with self._loading:
                    return web.json_response({"models": [self._row(*one) for one in self.resident.items()] or None})
            case "/api/show":
                info = {"general.architecture": "llama", "llama.context_length": self.trained}
                return web.json_response({"model_info": info, "capabilities": list(self.capabilities)})
            case "/api/chat":
                return await self._load(body)
        return web.Response(status=404, text="404 page not found")

    def _row(self, name: str, window: int) -> dict[str, Any]:
        return {"name": name, "model": name, "context_length": window, "expires_at": "2026-12-01T12:00:00Z"}

    async def _load(self, body: Any) -> web.Response:
        async with self._loading:
            try:
                await asyncio.sleep(self.loads_s)
            except asyncio.CancelledError:
                self.thrown_away += 1
                raise
            if self.failing:
                return web.json_response({"error": self.failing}, status=500)
            name, window = body["model"], min(body["options"]["num_ctx"], self.trained)
            self.resident = {name if ":" in name else f"{name}:latest": window}
        message = {"role": "assistant", "content": ""}
        return web.json_response({"model": name, "message": message, "done": True, "done_reason": "load"})


@asynccontextmanager
async def house(**fields: Any) -> AsyncIterator[House]:
    """On a port of its own; a request whose client leaves is given up, as Ollama does."""
    found = House(**fields)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found._serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        # Whoever only knocked and left has been taken and let go when one who came after has its answer.
        found.hangs, found.odd = False, None
        async with ClientSession() as last, last.get(found.url):
            pass
        await runner.cleanup()
        for _ in range(5):
            await asyncio.sleep(0)
