"""Whether a real Ollama is there already."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

_MOST = 4096  # bytes; the true answer has some 30


def running_ollama(url: str, timeout: float = 0.5) -> str | None:
    """The version of whatever answers Ollama's `/api/version` at `url`, or None.

    `timeout` in seconds, for the connection and for each read. Blocks that long at most on a silent host. The
    environment's proxies are not asked: the host is in the house.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/api/version")
            response = connection.getresponse()
            body = json.loads(response.read(_MOST)) if response.status == http.client.OK else None
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return None
    version = body.get("version") if isinstance(body, dict) else None
    return version if isinstance(version, str) else None
