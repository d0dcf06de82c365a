"""What the tests of the embedded server see of it from outside."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from staffel.embedded import Running
from tests.eventually import eventually


@contextmanager
def client(running: Running, password: str = "") -> Iterator[redis.Redis]:
    """A client that never tries again; with a password given, that one instead of the server's own."""
    url = running.url if not password else f"redis://:{password}@127.0.0.1:{running.port}/0"
    never = Retry(NoBackoff(), 0)
    with redis.Redis.from_url(url, decode_responses=True, socket_timeout=5, retry=never) as connected:
        yield connected


def servers_of(home: Path) -> list[int]:
    conf = str(home.resolve() / "redis.conf")
    return [p.pid for p in psutil.process_iter(["cmdline"]) if conf in (p.info["cmdline"] or [])]


def crash(running: Running) -> None:
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(running.pid), "the killed server is gone, and no zombie either")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
