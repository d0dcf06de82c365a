"""What every test stands on: a clean environment, nothing but loopback, one embedded Valkey, two workers.

Servers and workers are shared by the whole run, since a worker needs some seconds to start; each user of the Valkey
takes a database of its own.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from pytest_celery import CeleryBackendCluster, CeleryBrokerCluster, CeleryWorkerCluster

from tests.contract import real
from tests.hosts import Host
from tests.nodes import House, Valkey, ValkeyBackend, ValkeyBroker, Worker, WorkerNode, serving

_FOREIGN = re.compile(r"(STAFFEL_.*|.*_API_KEY|.*_proxy|OLLAMA_.*|CELERY_.*|FLOWER_.*|PYTHONPATH)", re.IGNORECASE)


class OutsideWorld(BaseException):
    """A test tried to leave this machine; not an `Exception`, so that no error handling of ours can swallow it."""


def pytest_configure() -> None:
    """Before any test module is imported: some of ours read the environment when they are."""
    for name in [name for name in os.environ if _FOREIGN.fullmatch(name)]:
        del os.environ[name]
    # Nobody's own embedded server is found from an empty home.
    os.environ["HOME"] = tempfile.mkdtemp(prefix="staffel-tests-home-")
    sys.addaudithook(_only_loopback)


def pytest_unconfigure() -> None:
    home = Path(os.environ["HOME"])
    if home.name.startswith("staffel-tests-home-"):
        for folder, _, files in os.walk(home, topdown=False):
            for file in files:
                (Path(folder) / file).unlink()
            Path(folder).rmdir()


def _only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple) and not _is_ours(str(arguments[1][0])):
        raise OutsideWorld(f"a test may not connect to {arguments[1][0]}")


def _is_ours(address: str) -> bool:
    """This machine, or the Ollama that the contract's tests were told of."""
    return address in real.ADDRESSES or _is_loopback(address)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address in {"localhost", ""}


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One embedded server for all tests that do not hurt it; `valkey.another()` is a database of one's own."""
    server = Valkey.started(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey) -> Iterator[House]:
    """The house that most tests share; each has a prompt of its own, by which its calls are told apart."""
    with Host() as host:
        yield House(valkey.another(), host, tmp_path_factory.mktemp("house"))


@pytest.fixture
def make_house(tmp_path: Path, valkey: Valkey, house: House) -> Callable[..., House]:
    """Houses of one's own, for tests that start workers: another database, the shared scripted host."""

    def make(**options: Any) -> House:
        folder = tmp_path / f"house{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return House(valkey.another(), house.host, folder, **options)

    return make


@pytest.fixture(scope="session")
def workers(house: House) -> Iterator[tuple[Worker, Worker]]:
    """A worker without any flag, and the lane's, to which somebody gave too wide a `-c`.

    They log all that they can, so that a prompt which any test leaves in a log is found.
    """
    with serving(house, (), ("-Q", "ollama", "-c", "4"), level="DEBUG") as (cloud, lane):
        yield cloud, lane


@pytest.fixture
def celery_broker_cluster(house: House) -> CeleryBrokerCluster:
    return CeleryBrokerCluster(ValkeyBroker(house.valkey))


@pytest.fixture
def celery_backend_cluster(house: House) -> CeleryBackendCluster:
    return CeleryBackendCluster(ValkeyBackend(house.valkey))


@pytest.fixture
def celery_worker_cluster(workers: tuple[Worker, Worker], celery_setup_app: Celery) -> CeleryWorkerCluster:
    return CeleryWorkerCluster(*(WorkerNode(worker, celery_setup_app) for worker in workers))


@pytest.fixture
def foreign(celery_setup_app: Celery) -> Iterator[Celery]:
    """A Celery app that knows nothing of this project but the names of a task and a queue."""
    yield celery_setup_app
    celery_setup_app.close()


@pytest.fixture
def prompt() -> str:
    """Words that no other test says."""
    return f"question {uuid.uuid4().hex}"
