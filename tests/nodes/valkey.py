"""The embedded Valkey as broker and result backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import redis
from pytest_celery import CeleryTestBackend, CeleryTestBroker, CeleryTestContainer

from staffel import embedded
from staffel.embedded.process import bundled_server

DATABASES = 1000
"""Sixteen, as it is by itself, are not enough for all the tests that take one of their own."""


class Valkey(CeleryTestContainer):
    """One database of the server of one state directory; a node's teardown leaves the server alone."""

    def __init__(self, folder: Path, running: embedded.Running, numbers: Iterator[int]) -> None:
        # See ProcessContainer: the base class is not initialised.
        self.folder, self.running, self.number = folder, running, next(numbers)
        self._numbers = numbers

    @classmethod
    def started(cls, folder: Path) -> Valkey:
        """The embedded server as it is, but with a database for everybody."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = folder / "valkey-server"
        program.write_text(f'#!/bin/sh\nexec "{bundled_server()}" "$@" --databases {DATABASES}\n')
        program.chmod(0o700)
        state = folder / "state"
        return cls(state, embedded.start(state, timeout=30, program=lambda: program), itertools.count())

    def another(self) -> Valkey:
        """A database that nobody else has; Celery keeps apps in different ones apart, their broadcasts too."""
        return Valkey(self.folder, self.running, self._numbers)

    @property
    def url(self) -> str:
        return f"{self.running.url.rpartition('/')[0]}/{self.number}"

    @property
    def password(self) -> str:
        return urlsplit(self.running.url).password or ""

    @property
    def client(self) -> redis.Redis:
        """A client of its own; close it."""
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=10)

    @property
    def celeryconfig(self) -> dict[str, Any]:
        url = self.url
        return {
            "url": url,
            "host_url": url,
            "hostname": "127.0.0.1",
            "port": self.running.port,
            "vhost": str(self.number),
        }

    @property
    def id(self) -> str:
        return f"valkey{self.running.pid}-{self.number}"

    @property
    def name(self) -> str:
        return "valkey"

    @property
    def attrs(self) -> Mapping[str, Any]:
        return {"Config": {"Hostname": "127.0.0.1"}}

    @property
    def status(self) -> str:
        return "running" if psutil.pid_exists(self.running.pid) else "exited"

    def logs(self) -> str:
        return (self.folder / "redis.log").read_text(errors="replace")

    def reload(self) -> None:
        """Nothing is cached."""

    def ready(self) -> bool:
        return embedded.find(self.folder) is not None

    def stop(self) -> None:
        embedded.stop(self.folder)


class ValkeyBroker(CeleryTestBroker):
    """The broker node."""


class ValkeyBackend(CeleryTestBackend):
    """The result backend's node."""
