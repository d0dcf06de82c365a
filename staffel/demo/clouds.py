"""Clouds that fail to order, played by a host on loopback that keeps its own log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Clouds:
    """`calls` counts what reached each stage, by the name in its address."""

    url: str
    calls: Counter[str] = field(default_factory=Counter)

    def base_url(self, stage: str, behaviour: str) -> str:
        """The address of one stage; its behaviour is a status code, or `silent`."""
        return f"{self.url}/{behaviour}/{stage}/v1"


@asynccontextmanager
async def played() -> AsyncIterator[Clouds]:
    """The host while the demo runs, on a port of its own."""
    calls: Counter[str] = Counter()
    application = web.Application()
    application.router.add_post("/{behaviour}/{stage}/v1/chat/completions", _answering(calls))
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield Clouds(f"http://{host}:{port}", calls)
    finally:
        await runner.cleanup()


def _answering(calls: Counter[str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        calls[request.match_info["stage"]] += 1
        behaviour = request.match_info["behaviour"]
        if behaviour == "silent":
            await asyncio.Event().wait()
        error = {"error": {"message": "this cloud fails on purpose", "type": "demo"}}
        return web.json_response(error, status=int(behaviour))

    return answer
