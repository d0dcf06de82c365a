"""Which programs run beside Valkey, and with what: one cloud worker, one worker for every other lane, Flower."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from config.celery import LANE_SLOTS
from config.settings import Settings
from config.stages import CLOUD
from staffel.supervisor import signs

FLOWER = "flower"
ADDRESS = "127.0.0.1"
"""Flower's, always: without a login its buttons work for whoever reaches it."""

_FLOWER_GRACE_S = 5.0
_WORKER_GRACE_S = 10.0
"""What a worker may take beyond its drain, on a machine that is busy."""

# Celery's word on a superuser is for pickle, which is refused here.
_QUIET = "ignore:You're running the worker with superuser privileges"

Sign = Callable[[int], Awaitable[bool]]
"""Whether the program that runs under this pid is ready."""


@dataclass(frozen=True, slots=True)
class Program:
    """One child. `grace` (s) is what an orderly end may take; without a `vital` one the others go on."""

    name: str
    arguments: tuple[str, ...]
    ready: Sign
    grace: float
    vital: bool = True

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", "celery", "--quiet", "-A", "worker", *self.arguments]


def lanes(settings: Settings) -> list[str]:
    """The cloud lane, then every other one that the configuration uses."""
    return [CLOUD, *sorted({stage.lane for stage in settings.stages.values()} - {CLOUD})]


def worker(lane: str, settings: Settings, beats: signs.Beats) -> Program:
    """The worker of a lane; `mingle` and `gossip` would only make its start and its log longer."""
    width = settings.general.cloud_slots if lane == CLOUD else LANE_SLOTS
    serves = ("worker", "-Q", lane, "-c", str(width), "-n", f"{lane}@%h")
    quietly = ("-l", "INFO", "--without-mingle", "--without-gossip")
    grace = settings.general.drain + _WORKER_GRACE_S
    return Program(lane, (*serves, *quietly), lambda pid: beats.has(lane, pid), grace)


def flower(port: int) -> Program:
    # It looks for workers once, at its start; they may be busy with theirs.
    options = ("flower", f"--address={ADDRESS}", f"--port={port}", "--inspect_timeout=2500")
    return Program(FLOWER, options, lambda _: signs.http_answers(ADDRESS, port), _FLOWER_GRACE_S, vital=False)


def variables(url: str, config: Path, state_dir: Path) -> Mapping[str, str]:
    """What the children find in their environment; a password has no place on a command line."""
    warnings = [word for word in (os.environ.get("PYTHONWARNINGS"), _QUIET) if word]
    ours = {
        "STAFFEL_REDIS_URL": url,
        "STAFFEL_CONFIG": str(config.expanduser().absolute()),
        "STAFFEL_STATE_DIR": str(state_dir),
        "PYTHONWARNINGS": ",".join(warnings),
        "PYTHONUNBUFFERED": "1",
    }
    return {**os.environ, **ours}
