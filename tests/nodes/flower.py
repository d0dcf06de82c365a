"""Flower in a process of its own."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nodes.process import ProcessContainer
from tests.nodes.worker import CELERY


def free_port() -> int:
    with socket.socket() as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        return int(endpoint.getsockname()[1])


class Flower(ProcessContainer):
    """`celery -A worker flower`, with a port so that it meets nobody else's."""

    def __init__(self, *options: str, environ: Mapping[str, str], folder: Path) -> None:
        self.port = free_port()
        argv = [str(CELERY), "-A", "worker", "flower", f"--port={self.port}", *options]
        super().__init__("flower", argv, environ, folder)

    @property
    def ready_prompt(self) -> str:
        return "Visit me at"

    def get(self, path: str, data: bytes | None = None) -> Any:
        """What stands at a path, posted to if there is data: JSON below /api/, text elsewhere."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.startswith("/api/") else text
