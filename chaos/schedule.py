"""What is done to the house and what is asked of it: pure functions of the seed. Times in seconds from the start."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Kind(StrEnum):
    KILL = "killed"
    PAUSE = "paused"
    PAUSE_KILL = "paused, then killed"
    DRAIN = "told to end"
    VALKEY = "Valkey killed"
    CUT = "cut off"
    SLOW = "slow line"
    HOLE = "black hole"
    ERRORS = "answers 500"
    HANG = "hangs"
    REFUSES = "refuses"


WORKER_FAULTS = {Kind.KILL: 11, Kind.PAUSE: 3, Kind.PAUSE_KILL: 3, Kind.DRAIN: 3}
LINK_FAULTS = {Kind.CUT: 2, Kind.SLOW: 1, Kind.HOLE: 2}
HOST_FAULTS = {Kind.ERRORS: 1, Kind.HANG: 1, Kind.REFUSES: 1}
"""How often each is drawn, as weights."""

LASTS = {
    Kind.KILL: (0, 0), Kind.PAUSE: (1, 14), Kind.PAUSE_KILL: (0.3, 4), Kind.DRAIN: (0, 0), Kind.VALKEY: (1, 3),
    Kind.CUT: (0, 2), Kind.SLOW: (1, 4), Kind.HOLE: (1, 14), Kind.ERRORS: (1, 4), Kind.HANG: (1, 4),
    Kind.REFUSES: (1, 4),
}  # fmt: skip
"""The shortest and the longest of each; a worker that is silent for more than 10 s is taken for dead."""

CALM_S = 2.0
"""Before the first fault."""

CALLERS = "callers"
"""The line of those who submit."""

CLIENT, DELAY, FOREIGN = "client", "delay", "foreign"
WHO_ASKS = {CLIENT: 5, DELAY: 3, FOREIGN: 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of everything; times in seconds."""

    workers: Sequence[str]
    hosts: Sequence[str]
    chains: Sequence[str]
    jobs: int
    seconds: float
    every_s: float
    """Between two faults of workers, on average."""
    restarts: int
    """Of Valkey."""


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: Kind
    whom: str
    for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One job: when it is submitted, by which kind of caller, for which chain; no other prompt holds its `mark`."""

    at_s: float
    job: str
    mark: str
    caller: str
    chain: str
    key: str | None = None
    """An idempotency key; two asks may share one, and then their mark."""


def schedule(seed: int, shape: Shape) -> tuple[Fault, ...]:
    """The faults, in their order. All are over when the seconds are."""
    chance = random.Random(f"faults {seed}")
    found = [
        *_drawn(chance, shape, shape.workers, WORKER_FAULTS, shape.every_s),
        *_restarts(chance, shape),
        *_drawn(chance, shape, [*shape.workers, CALLERS], LINK_FAULTS, 2 * shape.every_s),
        *_drawn(chance, shape, shape.hosts, HOST_FAULTS, 3 * shape.every_s),
    ]
    return tuple(sorted(found, key=lambda fault: (fault.at_s, fault.whom)))


def asks(seed: int, shape: Shape, *, keyed: bool = False) -> tuple[Ask, ...]:
    """The jobs, in their order; with `keyed` some are asked twice at once under one idempotency key."""
    chance = random.Random(f"jobs {seed}")
    found: list[Ask] = []
    for at_s in sorted(round(chance.uniform(0, shape.seconds), 2) for _ in range(shape.jobs)):
        number = len(found)
        caller = _weighted(chance, WHO_ASKS)
        chain, twin = chance.choice(shape.chains), chance.random() < 0.1  # drawn whether they are used or not
        ask = Ask(at_s, f"chaos-{seed}-{number}", f"mark-{seed}-{number}-", caller, chain)
        last = found[-1] if found else None
        if keyed and twin and last is not None and last.caller == CLIENT and last.key is None:
            key = f"key-{seed}-{number}"
            found[-1] = Ask(last.at_s, last.job, last.mark, CLIENT, last.chain, key)
            ask = Ask(last.at_s, ask.job, last.mark, CLIENT, last.chain, key)
        found.append(ask)
    return tuple(sorted(found, key=lambda ask: ask.at_s))


def _drawn(
    chance: random.Random, shape: Shape, whom: Sequence[str], kinds: Mapping[Kind, int], every_s: float
) -> Iterator[Fault]:
    """Faults at random instants, never two at once for the same."""
    free_at = dict.fromkeys(whom, 0.0)
    at_s = CALM_S
    while (at_s := at_s + every_s * chance.uniform(0.5, 1.5)) < shape.seconds:
        kind, among, lasts = _weighted(chance, kinds), [one for one in whom if free_at[one] <= at_s], chance.random()
        if among:
            one = chance.choice(among)
            least, most = LASTS[kind]
            for_s = min(least + (most - least) * lasts, shape.seconds - at_s)
            free_at[one] = at_s + for_s + 1
            yield Fault(round(at_s, 2), kind, one, round(for_s, 2))


def _restarts(chance: random.Random, shape: Shape) -> Iterator[Fault]:
    each = (shape.seconds - CALM_S) / max(1, shape.restarts)
    for number in range(shape.restarts):
        at_s = CALM_S + each * (number + chance.uniform(0.2, 0.8))
        yield Fault(round(at_s, 2), Kind.VALKEY, "valkey", round(chance.uniform(*LASTS[Kind.VALKEY]), 2))


def _weighted(chance: random.Random, weights: Mapping[T, int]) -> T:
    return chance.choices(list(weights), list(weights.values()))[0]
