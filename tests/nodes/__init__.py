"""Real processes as pytest-celery's nodes, without Docker: an embedded Valkey, and workers started as a person does.

Valkey           broker and result backend: one embedded server for the whole run
Worker           `celery -A worker worker ...` in a process of its own
House            a Redis, a configuration whose stages are played by a scripted host, and what a person types in it
"""

from __future__ import annotations

from tests.nodes.house import Finished, House, running, serving
from tests.nodes.stages import CHAINS, STAGES, Played, write_config
from tests.nodes.valkey import Valkey, ValkeyBackend, ValkeyBroker
from tests.nodes.worker import Worker, WorkerNode

__all__ = [
    "CHAINS",
    "STAGES",
    "Finished",
    "House",
    "Played",
    "Valkey",
    "ValkeyBackend",
    "ValkeyBroker",
    "Worker",
    "WorkerNode",
    "running",
    "serving",
    "write_config",
]
