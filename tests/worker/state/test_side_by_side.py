"""The two members of the shared state live through the same random history and must give the same answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from config.stages import Stage, identity
from staffel_wire import keys
from staffel_wire.request import Priority
from staffel_wire.stages import Action
from tests.worker.state.books import Book, MemoryBook, RedisBook
from tests.worker.state.histories import ENDINGS, NAMES, NUMBERS, OWNERS, PLANS, SECONDS, STAGES, WALKS, Ending
from tests.worker.state.test_contract import answered, failed
from tests.worker.state.tickets import waiting
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Admission, Elsewhere, Lesson, Parked, Permit, Settlement, Visit
from worker.state.memory_limits import Account, Day, account_of
from worker.state.rules import ENOUGH_CALLS


def normal(admission: Admission) -> object:
    """Without the request, which each member hands out in its own words."""
    if isinstance(admission, Permit):
        return replace(admission, request=None), admission.request is not None
    return admission


class SideBySide(RuleBasedStateMachine):
    """Each step is done by both; what they answer is compared, and the job's view after it."""

    jobs = Bundle[str]("jobs")
    permits = Bundle[Permit]("permits")

    def __init__(self, url: str, redis: Redis) -> None:
        super().__init__()
        redis.flushdb()
        self.keys = redis
        self.memory, self.redis = MemoryBook(STAGES), RedisBook(url, STAGES)
        self.books: tuple[Book, ...] = (self.memory, self.redis)
        self.lives = [1, 1, 1]
        self.submitted = 0

    @initialize(in_hand=st.sampled_from([0, 15, 150, 9000]))
    def all_live(self, in_hand: int) -> None:
        for number in range(len(OWNERS)):
            self._each(lambda book, number=number: book.born(self._owner(number)))
        for _ in range(ENOUGH_CALLS):  # else nothing is known of its pace before much else has happened
            self._walk(self._visit(self._submit(["lane"], 90.0, (0, None), "default", at_home=False), 2), ["answers"])
        self.the_owner_of_the_lane_says(in_hand, None)

    @rule(
        target=jobs,
        plan=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
        deadline=st.sampled_from([90.0, 4000.0, 20.0, 3.0]),
        tokens=st.sampled_from([(0, None), (40, None), (100, 50), (1000, 10), (333, 4000)]),
        chain=st.sampled_from(["default", "cheap"]),
        at_home=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from(["interactive", "batch"]),
    )
    def submit(  # noqa: PLR0917 - hypothesis gives them by name
        self, plan: list[str], deadline: float, tokens: tuple[int, int | None], chain: str, at_home: bool,
        priority: Priority,
    ) -> str:  # fmt: skip
        return self._submit(plan, deadline, tokens, chain, at_home=at_home, priority=priority)

    @rule(target=permits, plan=PLANS, number=NUMBERS, endings=WALKS)
    def ask(self, plan: list[str], number: int, endings: list[str]) -> Any:
        """A new job is walked as far as the endings go; the call after them is still under way."""
        job = self._submit(plan, 90.0, (40, None), "cheap", at_home=False)
        return self._walk(self._visit(job, number), endings)

    @rule(target=permits, plan=PLANS, number=NUMBERS, ending=st.sampled_from([*ENDINGS]), times=st.integers(2, 4))
    def ask_several_with_one_ending(self, plan: list[str], number: int, ending: str, times: int) -> Any:
        """As when a host is down: all calls are under way at once."""
        made = [self._submit(plan, 4000.0, (60, 20), "default", at_home=False) for _ in range(times)]
        under_way = [self._admit(self._visit(job, number)) for job in made]
        return multiple(*(one for permit in under_way if permit for one in self._settled(permit, [ending])))

    @rule(target=permits, job=jobs, number=NUMBERS, endings=WALKS)
    def deliver(self, job: str, number: int, endings: list[str]) -> Any:
        return self._walk(self._visit(job, number), endings)

    @rule(target=permits, permit=consumes(permits), endings=WALKS, seconds=st.sampled_from(SECONDS))
    def go_on(self, permit: Permit, endings: list[str], seconds: float) -> Any:
        """The call has taken some time."""
        self._tick(seconds)
        return multiple(*self._settled(permit, endings))

    @rule(target=permits, permit=consumes(permits))
    def ask_again(self, permit: Permit) -> Any:
        """The reply to an admit was lost, so that nobody will settle it; or an old owner asks."""
        return self._walk(permit.visit, [])

    @rule(permit=permits, ending=st.sampled_from([*ENDINGS]))
    def settle_and_perhaps_again(self, permit: Permit, ending: str) -> None:
        self._settle(permit, ending)

    @rule(target=permits, endings=WALKS, seconds=st.sampled_from(SECONDS))
    def feed(self, endings: list[str], seconds: float) -> Any:
        """What is sent on is delivered to a worker of its lane."""
        self._tick(seconds)
        found: list[Permit] = []
        for job in self._each(lambda book: book.feed()):
            lane = self.memory.state.records[job]["lane"]
            found += self._walked(self._visit(job, OWNERS.index(lane)), endings)
        return multiple(*found)

    @rule(seconds=st.sampled_from([*SECONDS, 121.0, 40_000.0]))
    def tick(self, seconds: float) -> None:
        self._tick(seconds)

    @rule(number=st.integers(0, len(OWNERS) - 1))
    def die_and_start_again(self, number: int) -> None:
        """Each start of a worker has a name of its own."""
        self._each(lambda book: book.dies(self._owner(number)))
        self.lives[number] += 1
        self._each(lambda book: book.born(self._owner(number)))

    @rule(job=jobs, number=NUMBERS)
    def give_back(self, job: str, number: int) -> None:
        """As a worker that ends does with what it has under way."""
        self._each(lambda book: book.hand_back(self._owner(number), job))
        self._same_view(job)

    @rule(in_hand=st.sampled_from([0, 2, 15, 150, 9000]), under_way=st.sampled_from([None, 0.25, 3.0]))
    def the_owner_of_the_lane_says(self, in_hand: int, under_way: float | None) -> None:
        """What it has in hand comes before whoever waits, and makes its lane full for jobs of others."""
        owner = self._owner(OWNERS.index("ollama"))
        for book in self.books:
            book.says("ollama", owner, in_hand, None if under_way is None else book.now - under_way)

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        self._each(lambda book: book.cancel(job))
        self._same_view(job)

    @rule(job=jobs)
    def park(self, job: str) -> None:
        self._each(lambda book: book.park(job))
        self._each(lambda book: book.signature(job))

    @rule(
        stage=st.sampled_from(NAMES),
        action=st.sampled_from(["on", "reset", "off"]),
        for_s=st.sampled_from([3.0, 50.0, None]),
    )
    def switch(self, stage: str, action: Action, for_s: float | None) -> None:
        self._each(lambda book: book.switch(stage, action, for_s))

    @invariant()
    def same_knowledge(self) -> None:
        """What later answers are made of: a difference shows at once, and not only when a job happens to meet it."""
        now = self.redis.ms
        for name, stage in STAGES.items():
            mine, theirs = _of_memory(self.memory, stage, now), _of_redis(self.keys, stage, now)
            assert mine == theirs, name
        for queue in ("cloud", "cloud.batch", "ollama", "ollama.batch"):
            assert waiting(self.keys, queue) == self.memory.state.jobs.waiting.get(queue, []), queue

    def teardown(self) -> None:
        try:
            for number in range(self.submitted):
                self._same_view(f"j{number + 1:03}")
        finally:
            self.redis.close()

    def _owner(self, number: int) -> str:
        return f"{OWNERS[number]}/{number}/{self.lives[number]}"

    def _visit(self, job: str, number: int) -> Visit:
        return Visit(job, OWNERS[number], self._owner(number), f"{number}@host")

    def _tick(self, seconds: float) -> None:
        for book in self.books:
            book.tick(seconds)

    def _submit(
        self, plan: list[str], deadline: float, tokens: tuple[int, int | None], chain: str, *, at_home: bool,
        priority: Priority = "interactive",
    ) -> str:  # fmt: skip
        self.submitted += 1
        job = f"j{self.submitted:03}"
        for book in self.books:
            book.submit(*plan, job=job, deadline=deadline, tokens_in=tokens[0], tokens_out=tokens[1], chain=chain,
                        local_only=at_home, priority=priority)  # fmt: skip
        self._same_view(job)
        return job

    def _walk(self, visit: Visit, endings: list[str]) -> Any:
        return multiple(*self._walked(visit, endings))

    def _walked(self, visit: Visit, endings: list[str]) -> list[Permit]:
        """The call that is under way after as many as there are endings, if it comes so far, on whatever lane."""
        permit = self._admit(visit)
        return self._settled(permit, endings) if permit else []

    def _settled(self, permit: Permit, endings: list[str]) -> list[Permit]:
        if not endings:
            return [permit]
        self._settle(permit, endings[0])
        return self._walked(permit.visit, endings[1:])

    def _admit(self, visit: Visit) -> Permit | None:
        admission, other = (book.admit(visit) for book in self.books)
        assert normal(admission) == normal(other)
        self._same_view(visit.job)
        match admission:
            case Permit():
                return admission
            case Parked():
                self.park(visit.job)
            case Elsewhere() if admission.lane == visit.lane:
                raise AssertionError("the stage is of the visit's own lane")
            case Elsewhere():
                return self._admit(self._visit(visit.job, OWNERS.index(admission.lane)))
        return None

    def _settle(self, permit: Permit, name: str) -> None:
        ending = ENDINGS[name]
        if name == "refuses":
            lesson = Lesson(refused=f"mark{permit.n % 2}{self.submitted}")
            ending = Ending(Reason.BAD_REQUEST, Settlement(Status.REFUSED, lesson=lesson))
        attempt = answered(permit) if ending.reason is None else replace(failed(permit), reason=ending.reason)
        self._each(lambda book: book.settled(permit, attempt, ending.settlement))
        self._same_view(permit.visit.job)

    def _same_view(self, job: str) -> None:
        self._each(lambda book: book.view(job))

    def _each(self, do: Callable[[Book], Any]) -> Any:
        mine, theirs = (do(book) for book in self.books)
        assert mine == theirs
        return mine


def _of_memory(book: MemoryBook, stage: Stage, now: int) -> tuple[object, ...]:
    """Why it is closed, when its buckets will be full, what it has spent."""
    limits = book.state.limits
    triples = book.state.health.gates.triples(stage.name, identity(stage)).values()
    told = {(str(triple.reason), triple.until) for triple in triples}
    account = limits.accounts.get(account_of(stage), Account())
    day = limits.days.get(f"stage {stage.name}", Day())
    return _lasting(told, now), account.requests, account.tokens, day.spent(now)


def _of_redis(redis: Redis, stage: Stage, now: int) -> tuple[object, ...]:
    own, group = keys.stage(stage.name), keys.group(stage.limit_group or "")
    with redis.pipeline(transaction=False) as reading:
        reading.hget(keys.GATES, stage.name)
        reading.hmget(group if stage.limit_group else own, "requests_full_at", "tokens_full_at")
        reading.hmget(own, "spent_usd", "spent_until")
        gate, full_at, (spent, until) = reading.execute()
    triples = [triple.split() for triple in (gate or "").split("; ") if triple]
    told = {(reason, int(ends)) for reason, ends, _ in triples}
    nano = round(Decimal(spent) * 1_000_000_000) if spent and int(until) > now else 0
    return _lasting(told, now), *(int(instant or 0) for instant in full_at), nano


def _lasting(told: set[tuple[str, int]], now: int) -> set[tuple[str, int]]:
    """Without what is over: only a breaker is more than its time."""
    brief = {Reason.SWITCHED_OFF, Reason.THROTTLED, Reason.OVERLOADED}
    return {(reason, until) for reason, until in told if until > now or reason not in brief}


@pytest.mark.timeout(300)
def test_both_members_give_the_same_answers_to_the_same_history(redis_url: str, no_leaked_keys: Redis) -> None:
    """Every difference that a walk could notice, on random histories of jobs, faults, deaths, waits and switches.

    A history that fails is told as it was: to shorten it takes longer than to read it.
    """
    run_state_machine_as_test(
        lambda: SideBySide(redis_url, no_leaked_keys),
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, derandomize=True,
            phases=(Phase.generate,), database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )  # fmt: skip
