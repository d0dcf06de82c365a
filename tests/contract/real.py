"""A real Ollama, if the environment names one; read before the tests clean the environment."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from staffel.local_model.probe import running_ollama

_PORT = 11434


def _named() -> str | None:
    name = os.environ.get("OLLAMA_HOST", "")
    if not name:
        return None
    parts = urlsplit(name if "://" in name else f"http://{name}")
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORT}"


def _addresses(url: str | None) -> frozenset[str]:
    """Its name and what that stands for: the tests connect to nothing else outside this machine."""
    host = urlsplit(url).hostname if url else None
    if host is None:
        return frozenset()
    with suppress(OSError):
        return frozenset({host, *(str(found[4][0]) for found in socket.getaddrinfo(host, None))})
    return frozenset({host})


URL = _named()
ADDRESSES = _addresses(URL)
MODEL = os.environ.get("STAFFEL_TEST_MODEL", "smollm2:135m")


def answers() -> bool:
    return URL is not None and running_ollama(URL, timeout=3.0) is not None
