"""Who waits for what, and in which order: a job has a ticket for as long as it is queued, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from redis import Redis

from staffel_wire import keys
from tests.worker.state import tickets
from tests.worker.state.calls import visit
from tests.worker.state.rounds import LOOKS_S, claimed, found, needs
from tests.worker.state.test_contract import ANSWER, ONE, TWO, answered, failed, permit
from tests.worker.state.test_dead_letters import KeepingBook
from worker.failover.answer import Status
from worker.failover.state import Elsewhere, Parked, Permit, Settlement
from worker.state.open_jobs import Need

PLANS = (("a",), ("a", "lane"), ("lane",), ("lane", "b"), ("once", "lane-once"), ("two", "a"))


@pytest.fixture
def waits(no_leaked_keys: Redis, redis_url: str) -> Iterator[KeepingBook]:
    book = KeepingBook(redis_url)
    yield book
    tickets.check(no_leaked_keys)
    book.close()


def test_jobs_wait_in_the_order_in_which_they_came(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Also those of one millisecond, and those that come once the clock was set back."""
    names = [f"{number * 7 % 12:02}" for number in range(12)]
    for name in names:
        waits.submit("a", job=name)
    waits.tick(-5)
    waits.submit("a", job="late")
    assert tickets.waiting(no_leaked_keys, "cloud") == [*names, "late"]
    assert [tickets.before(no_leaked_keys, name) for name in (*names, "late")] == list(range(13))
    assert tickets.waiting(no_leaked_keys, "ollama") == []


def test_a_job_waits_no_more_once_a_worker_has_it(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """And waits behind all others where it is handed on."""
    waits.submit("lane", job="first", lane="ollama")
    waits.submit("a", "lane")
    waits.born(ONE.owner)
    first = permit(waits.admit(ONE))
    assert tickets.waiting(no_leaked_keys, "cloud") == []
    waits.settle(first, failed(first))
    assert isinstance(waits.admit(first.visit), Elsewhere)
    assert tickets.waiting(no_leaked_keys, "ollama") == ["first", "j"]


def test_a_job_that_is_given_back_is_the_next_one(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Its message goes to the front as well; so does that of one whose worker has died, or that was lost."""
    for job in ("j", "k", "l"):
        waits.submit("a", job=job)
    running = claimed(waits)
    assert waits.hand_back(running.visit.owner)
    assert tickets.waiting(no_leaked_keys, "cloud") == ["j", "k", "l"]
    claimed(waits, "k")
    waits.dies(ONE.owner)
    waits.tick(LOOKS_S)
    assert ("k", Need.SENDS) in needs(waits)
    assert tickets.waiting(no_leaked_keys, "cloud") == ["k", "j", "l"]
    queued = str(waits.field("enqueued_at", "l"))
    assert waits.run(waits.state.open.requeue("l", queued, waits.ms))
    assert tickets.waiting(no_leaked_keys, "cloud") == ["l", "k", "j"]


def test_one_whose_message_is_more_than_plain_goes_to_the_back(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """As its message does, which Celery sends."""
    waits.submitted("a", signature="{}")
    waits.submit("a", job="k")
    queued = str(waits.field("enqueued_at"))
    assert waits.run(waits.state.open.requeue("j", queued, waits.ms))
    assert tickets.waiting(no_leaked_keys, "cloud") == ["k", "j"]


def test_a_parked_job_waits_in_no_queue(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Also not once it was sent on: it stays parked until a worker has it."""
    waits.submit("lane", lane="ollama")
    waits.switch("lane", "off", 5)
    assert isinstance(waits.admit(visit("j", lane="ollama")), Parked)
    assert waits.park()
    assert tickets.waiting(no_leaked_keys, "ollama") == []
    waits.tick(6)
    assert waits.feed() == ["j"]
    assert tickets.waiting(no_leaked_keys, "ollama") == []


def test_a_batch_job_waits_beside_the_others(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """In the batch queue of each lane that it comes to."""
    waits.submit("a", "lane", priority="batch")
    waits.submit("a", "lane", job="k")
    assert [tickets.waiting(no_leaked_keys, queue) for queue in keys.queues("cloud")] == [["k"], ["j"]]
    one = claimed(waits)
    waits.settle(one, failed(one))
    assert isinstance(waits.admit(one.visit), Elsewhere)
    assert [tickets.waiting(no_leaked_keys, queue) for queue in keys.queues("ollama")] == [[], ["j"]]


def test_a_replayed_job_is_the_last(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Behind those that came meanwhile."""
    waits.born(ONE.owner)
    waits.dies_of("a", "b")
    waits.submit("a", job="k")
    assert waits.replay() == ["queued", "cloud"]
    assert tickets.waiting(no_leaked_keys, "cloud") == ["k", "j"]


def test_a_replayed_batch_job_goes_to_its_own_queue(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Its message too, of whatever lane it begins with."""
    waits.born(ONE.owner)
    waits.dies_of("a", "b", priority="batch")
    assert waits.replay() == ["queued", "cloud"]
    assert waits.field("lane") == "cloud"
    assert [no_leaked_keys.llen(queue) for queue in keys.queues("cloud")] == [0, 1]
    assert tickets.waiting(no_leaked_keys, "cloud.batch") == ["j"]


def test_a_follower_that_goes_its_own_way_waits_anew(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """It had no place while it waited for the other's end."""
    waits.submitted("a", job="first", key="k")
    waits.submitted("a", key="k", mode="follow")
    claimed(waits, "first")
    waits.admit(TWO)
    assert waits.park()
    assert tickets.waiting(no_leaked_keys, "cloud") == []
    waits.submit("a", job="l")
    waits.dies(ONE.owner)
    waits.cancel("first")
    assert waits.run(waits.state.open.follow("j", "first", waits.ms)) == ["goes"]
    assert tickets.waiting(no_leaked_keys, "cloud") == ["l", "j"], "its message is a signature"


def test_tickets_of_jobs_that_nobody_looked_at_in_time_are_taken_out(waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """No worker ran for so long that their records were over: whoever comes next would wait behind nobody."""
    for number in range(1200):
        waits.submit("a", job=f"old {number}")
        no_leaked_keys.delete(keys.job(f"old {number}"))
    waits.submit("a")
    assert tickets.before(no_leaked_keys, "j") == 1200
    waits.tick(LOOKS_S)
    for _ in range(3):
        found(waits)
    assert tickets.waiting(no_leaked_keys, "cloud") == ["j"]
    assert no_leaked_keys.zrange(keys.OPEN, 0, -1) == ["j"]


class Life:
    """A random history of everything that makes a job wait, or wait no more."""

    def __init__(self, book: KeepingBook, seed: int) -> None:
        self.book, self.random = book, Random(seed)
        self.jobs: list[str] = []
        self.permits: list[Permit] = []
        self.owners = [1, 1]

    def step(self) -> None:
        steps = (self.submit, self.submit, self.deliver, self.deliver, self.deliver, self.settle, self.settle,
                 self.give_back, self.die, self.look, self.cancel, self.again, self.replay, self.feed, self.poll,
                 self.lose, self.switch)  # fmt: skip
        self.random.choice(steps)()
        self.book.tick(self.random.choice((0, 0, 0.5, 3, 12)))

    def owner(self, number: int) -> str:
        return f"{('cloud', 'ollama')[number]}/{self.owners[number]}/1"

    def some(self) -> str:
        return self.random.choice(self.jobs or ["nobody"])

    def submit(self) -> None:
        job, plan = f"j{len(self.jobs)}", self.random.choice(PLANS)
        key, lane = self.random.choice((None, None, "key")), "ollama" if plan[0].startswith("lane") else "cloud"
        more = self.random.choice(({}, {"signature": "{}"}, {"celery": "1"}))
        self.book.submitted(*plan, job=job, lane=lane, key=key, mode="follow",
                            deadline=self.random.choice((5, 60, 400)),
                            priority=self.random.choice(("interactive", "batch")), **more)  # fmt: skip
        self.jobs.append(job)

    def deliver(self) -> None:
        number = self.random.randrange(2)
        self.book.born(self.owner(number))
        at = visit(self.some(), str(self.owners[number]), ("cloud", "ollama")[number])
        match self.book.admit(at):
            case Permit() as one:
                self.permits.append(one)
            case Parked():
                if self.random.random() < 0.8:  # else its worker dies before
                    self.book.park(at.job)

    def settle(self) -> None:
        if self.permits:
            one = self.permits.pop(self.random.randrange(len(self.permits)))
            if self.random.random() < 0.3:
                self.book.settled(one, answered(one), Settlement(Status.ANSWERED, ANSWER))
            else:
                self.book.settled(one, failed(one), Settlement())
                at = self.book.admit(one.visit)
                self.permits += [at] if isinstance(at, Permit) else []

    def give_back(self) -> None:
        died = self.random.random() < 0.5
        for one in self.permits[:2]:
            back = self.book.state.hand_back(one.visit.job, one.visit.owner, self.book.ms, died=died)
            self.book.run(back)

    def die(self) -> None:
        number = self.random.randrange(2)
        with suppress(KeyError):
            self.book.dies(self.owner(number))
        self.owners[number] += 1

    def look(self) -> None:
        for one in found(self.book):
            if one.need is Need.FOLLOWS:
                self.book.run(self.book.state.open.follow(one.job, one.mark, self.book.ms))

    def lose(self) -> None:
        job = self.some()
        self.book.run(self.book.state.open.requeue(job, str(self.book.field("enqueued_at", job)), self.book.ms))

    def cancel(self) -> None:
        self.book.cancelled(self.some(), running=self.random.random() < 0.5)

    def again(self) -> None:
        self.book.submitted("a", "lane", job=self.some(), again=True)

    def replay(self) -> None:
        self.book.replay(self.some())

    def feed(self) -> None:
        self.book.feed()

    def poll(self) -> None:
        self.book.polled(*self.jobs[-20:])

    def switch(self) -> None:
        self.book.switch(self.random.choice(("lane", "a")), self.random.choice(("on", "off")), 20)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_who_is_queued_has_one_ticket(seed: int, waits: KeepingBook, no_leaked_keys: Redis) -> None:
    """Over followers, deaths, drains, cancels, replays and lost messages; checked after every step."""
    life = Life(waits, seed)
    for _ in range(150):
        life.step()
        tickets.check(no_leaked_keys)
    waits.tick(1000)
    for _ in range(3):
        found(waits)
        waits.tick(LOOKS_S)
    assert no_leaked_keys.zcard(keys.WAITING) == 0, "all have ended"
