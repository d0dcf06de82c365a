"""What a stage of the host has seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tests.hosts.memory import Memory
from tests.hosts.script import Step, read_script
from tests.hosts.turns import Turns

Clock = Callable[[], float]


class Outcome(StrEnum):
    IN_FLIGHT = "in flight"
    SERVED = "served"
    ABORTED = "aborted"
    """The client closed first."""
    CUT = "cut"
    """The host closed before the end, as its script says."""
    STOPPED = "stopped"
    """The host itself was stopped meanwhile."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request for an answer. Times are seconds of the host's clock, by default `time.monotonic`."""

    number: int
    """Counts from 1 in its stage."""
    connection: int
    """Counts the host's connections: calls with the same number shared a socket."""
    protocol: str
    behaviour: str
    path: str
    """As it came, below the stage, with its query."""
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: Any = field(repr=False)
    """The parsed JSON, None if it was none."""
    started: float
    """When the whole request had been read."""
    ended: float | None = None
    """Just before the last bytes went out, so that a client that has them finds the call ended."""
    closed_at: float | None = None
    """When the client closed, if it did so before the end."""
    outcome: Outcome = Outcome.IN_FLIGHT


class Stage:
    """One place to send requests to: a script and a log of its own.

    Written by the host's loop and read from any thread.
    """

    def __init__(self, script: str, models: tuple[str, ...], clock: Clock, *, strict: bool = False) -> None:
        """`strict` is a judge of requests too, see `tests.hosts.ollama_rules`. Raises ValueError if the script has a
        mistake."""
        self._steps = read_script(script)
        self.models = models
        self.strict = strict
        self.memory = Memory(clock, () if self._steps[0].has("load") else models)
        self.turns = Turns()
        """Of a strict stage, which answers one call at a time."""
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._others: list[str] = []
        self._in_flight = 0
        self._most = 0

    def begin(self, describe: Callable[[int, Step, float], Call]) -> tuple[int, Step]:
        """Log a call; `describe` makes its record from number, step and time."""
        with self._lock:
            number = len(self._calls) + 1
            step = self._step(number)
            self._calls.append(describe(number, step, self._clock()))
            self._in_flight += 1
            self._most = max(self._most, self._in_flight)
        return number, step

    def load_seconds(self) -> float:
        """How long the next call would load a model that is not there."""
        with self._lock:
            return self._step(len(self._calls) + 1).number("load", 0)

    def _step(self, number: int) -> Step:
        return self._steps[min(number, len(self._steps)) - 1]

    def end(self, number: int, outcome: Outcome) -> None:
        """The first end counts, a later one changes nothing."""
        with self._lock:
            call = self._calls[number - 1]
            if call.ended is not None:
                return
            now = self._clock()
            closed_at = now if outcome is Outcome.ABORTED else None
            self._calls[number - 1] = replace(call, ended=now, closed_at=closed_at, outcome=outcome)
            self._in_flight -= 1
            if not self._in_flight:
                self.memory.rest()

    def note(self, request: str) -> None:
        with self._lock:
            self._others.append(request)

    def calls(self) -> list[Call]:
        with self._lock:
            return list(self._calls)

    def others(self) -> list[str]:
        with self._lock:
            return list(self._others)

    def in_flight(self) -> int:
        with self._lock:
            return self._in_flight

    def most_at_once(self) -> int:
        with self._lock:
            return self._most
