"""Leases, rates and budgets in the memory of one process: the same integers as the Lua beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from config.stages import Chain, Stage
from staffel_wire.stages import DAY_MS, MINUTE_US
from worker.failover.state import Lesson
from worker.state.rules import LATER_MS, MOST_SENT, MOST_UNLIMITED, nano_usd

NOBODY = "-"
"""Who owns the lease of a job on its way; it needs no life."""


def cost(n: int, limit: int) -> int:
    """Microseconds in which a bucket of so many a minute gets `n` back."""
    return -(-n * MINUTE_US // limit)


def end_of_day(now: int) -> int:
    """The next midnight in UTC, in milliseconds."""
    return now // DAY_MS * DAY_MS + DAY_MS


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease; the fence makes a late owner harmless, who can give back nothing but its own."""

    owner: str
    job: str
    fence: int


def on_its_way(job: str) -> Holder:
    """What is kept for a job that no worker has yet."""
    return Holder(NOBODY, job, 0)


class Leases:
    """Places by their name, each with its holders and the end of their leases in milliseconds."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives
        self._ends: dict[str, dict[Holder, int]] = {}

    def held(self, name: str, most: int, now: int) -> int:
        """How many of the places are taken; the dead are looked for only where none seems free."""
        ends = {holder: end for holder, end in self._ends.get(name, {}).items() if now < end}
        if len(ends) >= most:
            ends = {one: end for one, end in ends.items() if one.owner == NOBODY or self._lives(one.owner)}
        self._ends[name] = ends
        return len(ends)

    def take(self, name: str, holder: Holder, end: int) -> None:
        self._ends.setdefault(name, {})[holder] = end

    def give_back(self, name: str, holder: Holder) -> bool:
        """Whether the holder still had it: nobody has found it too old since."""
        return self._ends.get(name, {}).pop(holder, None) is not None

    def clear(self, name: str) -> None:
        self._ends.pop(name, None)


@dataclass(slots=True)
class Account:
    """Two buckets, each told by the instant in microseconds at which it will be full again."""

    requests: int = 0
    tokens: int = 0
    tokens_each: int = 0
    """What the last call took of the tokens' bucket."""


@dataclass(slots=True)
class Day:
    """What was spent until the end of a day, in nano-USD and milliseconds."""

    nano: int = 0
    until: int = 0

    def spent(self, now: int) -> int:
        return self.nano if self.until > now else 0

    def spend(self, nano: int, now: int) -> None:
        self.nano, self.until = max(0, self.spent(now) + nano), end_of_day(now)


@dataclass(frozen=True, slots=True)
class Taking:
    """What a call has taken from all workers while it runs: leases, microseconds of the buckets, money of the day."""

    n: int
    stage: str
    place: int
    holder: Holder
    generation: int
    probe: bool
    requests: int
    tokens: int
    nano: int
    day: int
    chain: str


def account_of(stage: Stage) -> str:
    """Whose buckets and places a stage takes from: stages behind one account share them."""
    return f"group {stage.limit_group}" if stage.limit_group else f"stage {stage.name}"


class Limited:
    """What all workers together have asked of the stages, and what it has cost."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self.places, self.probes = Leases(lives), Leases(lives)
        self.accounts: dict[str, Account] = {}
        self.days: dict[str, Day] = {}

    def from_when(self, stage: Stage, tokens: int, first: int, now: int) -> int | None:
        """The instant from which there may be room for one more call of so many tokens; None where there is.

        So many come `first`.
        """
        limits, account, waits = stage.limits, self._account(stage), [0]
        if limits.max_in_flight and self._free_places(stage, limits.max_in_flight, now) - first <= 0:
            waits.append(LATER_MS)
        if limits.requests_per_minute:
            asked = cost(1, limits.requests_per_minute)
            waits.append(_wait(account.requests, (1 + first) * asked, _requests_room(stage), now))
        if limits.tokens_per_minute:
            asked = cost(tokens, limits.tokens_per_minute) + first * account.tokens_each
            wait = _wait(account.tokens, asked, _tokens_room(stage), now)
            # A call under way may take less than was reserved for it, and nobody knows when it ends.
            under_way = self.places.held(account_of(stage), sys.maxsize, now) > 0
            waits.append(min(wait, LATER_MS) if under_way else wait)
        return now + max(waits) if max(waits) > 0 else None

    def over_budget(self, stage: Stage, chain: Chain | None, nano: int, now: int) -> bool:
        """Whether one more call of this price would go beyond the stage's day or the chain's; a free one never does."""
        if nano == 0:
            return False
        days = [(f"stage {stage.name}", stage.usd_per_day)]
        if chain is not None:
            days.append((f"chain {chain.name}", chain.usd_per_day))
        return any(budget is not None and self._day(name).spent(now) + nano > nano_usd(budget) for name, budget in days)

    def take(self, stage: Stage, taking: Taking, end: int, chains: Mapping[str, Chain], now: int) -> None:
        """All that a call needs; its leases until `end` (ms)."""
        if taking.probe:
            self.probes.take(stage.name, taking.holder, end)
        self.places.take(account_of(stage), taking.holder, end)
        account = self._account(stage)
        if stage.limits.requests_per_minute:
            account.requests = max(account.requests, now * 1000) + taking.requests
        if stage.limits.tokens_per_minute:
            account.tokens = max(account.tokens, now * 1000) + taking.tokens
            account.tokens_each = taking.tokens
        self._spend(taking, taking.nano, chains, now)

    def give_back(self, stage: Stage, taking: Taking) -> bool:
        """Its leases; whether it was the probe, and still had it."""
        self.places.give_back(account_of(stage), taking.holder)
        return self.probes.give_back(stage.name, taking.holder) and taking.probe

    def refund(
        self, stage: Stage, taking: Taking, back: tuple[int, int, int], chains: Mapping[str, Chain], now: int
    ) -> None:
        """Put back so much of its requests, tokens and money; less than nothing where it was more than reserved."""
        requests, tokens, nano = back
        account = self._account(stage)
        if stage.limits.requests_per_minute:
            account.requests -= requests
        if stage.limits.tokens_per_minute:
            account.tokens -= tokens
        if taking.day == end_of_day(now):
            self._spend(taking, -nano, chains, now)

    def room(self, stage: Stage, on_their_way: int, now: int) -> int:
        """How many more jobs may be sent to it now."""
        limits, account = stage.limits, self._account(stage)
        limited = limits.max_in_flight or limits.requests_per_minute or limits.tokens_per_minute
        rooms = [MOST_SENT if limited else MOST_UNLIMITED]
        if limits.max_in_flight:
            rooms.append(self._free_places(stage, limits.max_in_flight, now) - on_their_way)
        if limits.requests_per_minute:
            asked, spent = cost(1, limits.requests_per_minute), max(0, account.requests - now * 1000)
            rooms.append((_requests_room(stage) - spent) // asked - on_their_way)
        if limits.tokens_per_minute:
            left = _tokens_room(stage) - max(0, account.tokens - now * 1000)
            calls = max(left // max(1, account.tokens_each), int(left >= _tokens_room(stage)))
            rooms.append(calls - on_their_way)
        return max(0, min(rooms))

    def _free_places(self, stage: Stage, most: int, now: int) -> int:
        return most - self.places.held(account_of(stage), most, now)

    def _spend(self, taking: Taking, nano: int, chains: Mapping[str, Chain], now: int) -> None:
        if nano:
            self._day(f"stage {taking.stage}").spend(nano, now)
            chain = chains.get(taking.chain)
            if chain is not None and chain.usd_per_day is not None:
                self._day(f"chain {taking.chain}").spend(nano, now)

    def _account(self, stage: Stage) -> Account:
        return self.accounts.setdefault(account_of(stage), Account())

    def _day(self, name: str) -> Day:
        return self.days.setdefault(name, Day())


def unused(stage: Stage, taking: Taking, lesson: Lesson) -> tuple[int, int, int]:
    """What was reserved and not taken: requests and tokens in microseconds, and money.

    What an answer took is as reserved where nobody counted it.
    """
    tokens = 0 if lesson.worked else taking.tokens
    if lesson.tokens is not None and stage.limits.tokens_per_minute:
        taken = cost(lesson.tokens, stage.limits.tokens_per_minute)
        tokens = taking.tokens - min(taken, max(10 * taking.tokens, MINUTE_US))  # whatever a host counts
    nano = 0 if lesson.usd is None else taking.nano - nano_usd(lesson.usd)
    return 0 if lesson.reached else taking.requests, tokens, nano


def _wait(full_at: int, asked: int, capacity: int, now: int) -> int:
    """Milliseconds until a bucket has room; what is larger than the bucket waits until it is full."""
    spent = max(0, full_at - now * 1000)
    return max(0, -((capacity - spent - min(asked, capacity)) // 1000))


def _requests_room(stage: Stage) -> int:
    assert stage.limits.requests_per_minute is not None  # noqa: S101 - asked of limited stages only
    return max(_tokens_room(stage), cost(1, stage.limits.requests_per_minute))


def _tokens_room(stage: Stage) -> int:
    return int(stage.limits.burst * 1_000_000)
