"""Does the schedule, and notes what was really done and when."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from chaos.crew import Crew, Member
from chaos.door import Door
from chaos.evidence import Done
from chaos.schedule import Fault, Kind
from chaos.yard import Yard

_SLOW_S = 0.3
_AT_ONCE = 24


class Faults:
    """Faults of a yard and its crew; they last at most until `over` is set."""

    def __init__(self, yard: Yard, crew: Crew, over: threading.Event, say: Callable[[str], None]) -> None:
        self.done: list[Done] = []
        self.missed: list[Fault] = []
        """Those of workers that were just starting."""
        self._yard, self._crew, self._over, self._say = yard, crew, over, say

    def run(self, faults: Sequence[Fault], began: float) -> None:
        """Do each at its instant, counted from `began` by the monotonic clock; return when all are over."""
        with ThreadPoolExecutor(_AT_ONCE, "fault") as doing:
            started = []
            for fault in faults:
                if self._over.wait(max(0.0, began + fault.at_s - time.monotonic())):
                    break
                started.append(doing.submit(self._do, fault))
        for one in started:
            one.result()

    def _do(self, fault: Fault) -> None:
        self._say(f"{fault.at_s:6.1f} s  {fault.whom} {fault.kind}" + (f" for {fault.for_s:g} s" * bool(fault.for_s)))
        match fault.kind:
            case Kind.KILL | Kind.PAUSE | Kind.PAUSE_KILL | Kind.DRAIN:
                self._worker(fault, self._crew.members[fault.whom])
            case Kind.VALKEY:
                with self._noted(fault):
                    self._valkey(fault)
            case Kind.CUT | Kind.SLOW | Kind.HOLE:
                with self._noted(fault):
                    self._line(fault, self._yard.lines[fault.whom])
            case Kind.ERRORS | Kind.HANG | Kind.REFUSES:
                with self._noted(fault):
                    self._host(fault)

    def _worker(self, fault: Fault, member: Member) -> None:
        if not member.lock.acquire(timeout=0.5):
            self.missed.append(fault)
            return
        try:
            if not member.is_ready():
                self.missed.append(fault)
                return
            with self._noted(fault):
                self._hurt(fault, member)
            if not member.is_running:
                member.start()
        finally:
            member.lock.release()

    def _hurt(self, fault: Fault, member: Member) -> None:
        match fault.kind:
            case Kind.KILL:
                member.kill()
            case Kind.DRAIN:
                self._crew.drain(member)
            case _:
                member.signal(signal.SIGSTOP)
                try:
                    self._over.wait(fault.for_s)
                finally:
                    if fault.kind is Kind.PAUSE:
                        member.signal(signal.SIGCONT)
                    else:
                        member.kill()

    def _valkey(self, fault: Fault) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._yard.valkey.running.pid, signal.SIGKILL)
        try:
            self._over.wait(fault.for_s)
        finally:
            self._yard.revive()

    def _line(self, fault: Fault, door: Door) -> None:
        match fault.kind:
            case Kind.CUT:
                door.cut()
            case Kind.SLOW:
                door.slow(_SLOW_S)
            case _:
                door.swallow()
        try:
            self._over.wait(fault.for_s)
        finally:
            door.restore()

    def _host(self, fault: Fault) -> None:
        door = self._yard.host_door(fault.whom)
        if fault.kind is Kind.REFUSES:
            door.cut()
        else:
            self._yard.play(fault.whom, "status:500:delay=0.1" if fault.kind is Kind.ERRORS else "silent")
        try:
            self._over.wait(fault.for_s)
        finally:
            self._yard.play(fault.whom, None)
            door.restore()

    @contextmanager
    def _noted(self, fault: Fault) -> Iterator[None]:
        began = time.time()
        try:
            yield
        finally:
            self.done.append(Done(fault.kind, fault.whom, began, time.time()))
