"""What Redis is asked while a test looks."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from staffel_wire.scripts import source
from tests.nodes.valkey import Valkey
from worker.state.redis import SCRIPTS

NAMED = {hashlib.sha1(source(path.stem, SCRIPTS).encode()).hexdigest(): path.stem for path in SCRIPTS.glob("*.lua")}
"""The workers' scripts by the digest by which they are asked for."""


_CONNECTING = frozenset({"HELLO", "AUTH", "CLIENT", "SELECT"})
"""What a new connection asks before anything else."""


@contextmanager
def monitored(valkey: Valkey) -> Iterator[Counter[str]]:
    """All that the workers' own connections asked of this database meanwhile: a script by its name, else the command.

    Counted once it is over. What Celery asks goes over connections of its own, and is none of this; nor is what a
    script does.
    """
    asked: Counter[str] = Counter()
    seen: list[tuple[str, str]] = []
    over = threading.Event()
    with valkey.client as redis, redis.monitor() as monitor:

        def listen() -> None:
            while not over.is_set():
                line = monitor.next_command()
                if line["db"] == valkey.number and line["client_type"] != "lua":
                    seen.append((f"{line['client_address']}:{line['client_port']}", line["command"]))

        thread = threading.Thread(target=listen)
        thread.start()
        yield asked
        with valkey.client as looking:
            ours = {client["addr"] for client in looking.client_list() if client["name"] == "staffel-worker"}
        over.set()
        thread.join()  # a beat is never far
    for address, command in seen:
        name, *rest = command.split(maxsplit=2)
        if address in ours and name not in _CONNECTING:
            asked[NAMED.get(rest[0], rest[0]) if name == "EVALSHA" else name] += 1
