"""The workers: whoever of them ends is started again right away."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from chaos.evidence import Exit
from chaos.yard import DRAIN_S, OLLAMA, Yard
from tests.nodes import Worker

SLOTS = 16
READY = " ready.\n"

_LAST_LINES, _LAST_CHARACTERS = 6, 1500
_LOOKS_S = 0.1
_MORE_S = 20.0
"""What a worker that was told to end may take beyond its drain, on a slow machine, before it is called stuck."""


class Member:
    """One worker, in one process after the other. Whoever does something to it holds its lock."""

    def __init__(self, name: str, worker: Worker) -> None:
        self.name, self.worker = name, worker
        self.lock = threading.RLock()
        self.began = 0.0
        self._from = 0

    def start(self) -> None:
        self._from = self.worker.log.stat().st_size if self.worker.log.exists() else 0
        self.began = time.time()
        self.worker.start()

    @property
    def pid(self) -> int:
        return self.worker.process.pid

    @property
    def is_running(self) -> bool:
        return self.worker.status == "running"

    def is_ready(self) -> bool:
        return self.is_running and READY in self.said()

    def said(self) -> str:
        """What its present process has logged."""
        with self.worker.log.open("rb") as log:
            log.seek(self._from)
            return log.read().decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.worker.process.send_signal(number)

    def kill(self) -> None:
        """End it the hard way and wait until it is gone; also one that is stopped."""
        self.signal(signal.SIGKILL)
        self.worker.process.wait(20)


class Crew:
    """All workers of a yard, and a thread that starts again whoever has ended by itself."""

    def __init__(self, yard: Yard, names: list[str]) -> None:
        self.members: Mapping[str, Member] = {name: Member(name, _worker(yard, name)) for name in names}
        self.exits: list[Exit] = []
        self.stuck: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="crew", daemon=True)

    def start(self) -> None:
        """Start all, and wait until each is ready."""
        for member in self.members.values():
            member.start()
        for member in self.members.values():
            member.worker.ready()
        self._thread.start()

    def drain(self, member: Member) -> None:
        """Tell it to end and wait for that; its lock is held."""
        began = time.monotonic()
        member.signal(signal.SIGTERM)
        while member.is_running and time.monotonic() - began < DRAIN_S + _MORE_S:
            time.sleep(_LOOKS_S / 2)
        if member.is_running:
            self.stuck.append(f"{member.name} did not end within {DRAIN_S + _MORE_S:g} s of SIGTERM, and was killed")
            member.kill()

    def stop(self) -> None:
        """End all of them, whatever state they are in."""
        self._over.set()
        if self._thread.ident:
            self._thread.join()
        started = [member for member in self.members.values() if member.worker._process is not None]
        for member in started:
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGTERM)
        end = time.monotonic() + DRAIN_S + _MORE_S
        for member in started:
            while member.is_running and time.monotonic() < end:
                time.sleep(_LOOKS_S)
            if member.is_running:
                self.stuck.append(f"{member.name} did not end when all was over, and was killed")
                member.kill()

    def _keep(self) -> None:
        while not self._over.wait(_LOOKS_S):
            for member in self.members.values():
                if member.lock.acquire(blocking=False):
                    try:
                        self._look_after(member)
                    finally:
                        member.lock.release()

    def _look_after(self, member: Member) -> None:
        if member.is_running:
            return
        said = member.said()
        last = " | ".join(said.splitlines()[-_LAST_LINES:])[-_LAST_CHARACTERS:]
        code, ready = member.worker.process.wait(), READY in said
        self.exits.append(Exit(member.name, member.began, time.time(), code, ready, last))
        member.start()


def _worker(yard: Yard, name: str) -> Worker:
    lane = ("-Q", "ollama") if name in OLLAMA else ("-Q", "cloud", "-c", str(SLOTS))
    return yard.house.worker(*lane, "-n", f"{name}@chaos", STAFFEL_REDIS_URL=yard.url(name))
