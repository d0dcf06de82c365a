"""Keep web pages away from a server that listens on loopback only."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_loopback(host: str) -> bool:
    """Whether a name or address without a port can only mean this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@web.middleware
async def only_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 403 with an empty body, as Ollama does, where Host or Origin name another machine.

    Any page in a browser can reach loopback, by a name that it rebinds or by a form post; it cannot forge these two.
    """
    named = [f"//{request.host}"]
    if "Origin" in request.headers:
        named.append(request.headers["Origin"])
    try:
        allowed = all(is_loopback(urlsplit(name).hostname or "") for name in named)
    except ValueError:
        allowed = False
    return await handler(request) if allowed else web.Response(status=403)
