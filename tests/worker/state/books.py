"""The two members of the shared state, each with a clock that is wound by hand."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from config.file import General
from config.stages import Stage
from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.ends import cancelling, polling
from staffel_wire.pace import Now
from staffel_wire.position import looked, looking
from staffel_wire.request import Priority, Request
from staffel_wire.scripts import source
from staffel_wire.stages import Action
from staffel_wire.submit import Mode, submitting
from tests.worker.state.stages import CHAINS, price
from tests.worker.state.stages import STAGES as STAGES  # noqa: PLC0414 - tests take it from here too
from worker.failover.answer import Answer, Status, View
from worker.failover.attempt import Attempt
from worker.failover.state import NO_LESSON, Admission, Lesson, Permit, Settled, Settlement, State, Visit
from worker.state.connection import connect
from worker.state.memory import Memory
from worker.state.redis import RedisState
from worker.state.rules import Prices

EPOCH = 1_700_000_000.0
GENERAL = General(answer_ttl=100, ledger_ttl=1000, dead_ttl=0)
KEPT = Catalogue({}, answer_ttl=GENERAL.answer_ttl, ledger_ttl=GENERAL.ledger_ttl, dead_ttl=GENERAL.dead_ttl)
T = TypeVar("T")

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
"""One grey pixel as PNG."""


class Book(ABC):
    """What the contract is written in. `now` in seconds; whoever is `born` lives until it `dies`."""

    now = EPOCH
    stages: Mapping[str, Stage] = STAGES

    def tick(self, seconds: float) -> None:
        self.now += seconds

    @abstractmethod
    def submit(
        self,
        *plan: str,
        job: str = "j",
        lane: str = "cloud",
        deadline: float = 90,
        local_only: bool = False,
        images: bool = False,
        chain: str = "default",
        tokens_in: int = 0,
        tokens_out: int | None = None,
        priority: Priority = "interactive",
    ) -> None:
        """Write a record; tokens as the door estimates them."""

    @abstractmethod
    def admit(self, visit: Visit) -> Admission: ...

    def settle(
        self, permit: Permit, attempt: Attempt, end: Status | None = None, answer: Answer | None = None,
        lesson: Lesson = NO_LESSON,
    ) -> View | None:  # fmt: skip
        """What most tests ask for: the job's view if it ended."""
        return self.settled(permit, attempt, Settlement(end, answer, lesson=lesson)).view

    @abstractmethod
    def hand_back(self, owner: str, job: str = "j") -> bool: ...

    @abstractmethod
    def park(self, job: str = "j", signature: str = "the message") -> bool: ...

    @abstractmethod
    def feed(self) -> list[str]: ...

    @abstractmethod
    def switch(self, stage: str, action: Action, for_s: float | None = None) -> bool: ...

    @abstractmethod
    def signature(self, job: str = "j") -> str | None:
        """What sends it on where no worker has it."""

    @abstractmethod
    def settled(self, permit: Permit, attempt: Attempt, settlement: Settlement) -> Settled: ...

    @abstractmethod
    def change(self, stage: Stage) -> None:
        """Another configuration is loaded: this stage instead of the one of its name."""

    @abstractmethod
    def cancel(self, job: str = "j") -> None: ...

    @abstractmethod
    def born(self, owner: str) -> None: ...

    @abstractmethod
    def dies(self, owner: str) -> None: ...

    @abstractmethod
    def says(self, lane: str, owner: str, in_hand: int, since: float | None = None) -> None:
        """The owner of a lane says how many jobs it has in hand, and since when (s) its call is under way."""

    @abstractmethod
    def forget(self, job: str) -> None:
        """The time for which a job is kept is over."""

    @abstractmethod
    def view(self, job: str = "j") -> Mapping[str, Any]: ...

    @abstractmethod
    def holds_request(self, job: str = "j") -> bool: ...


class MemoryBook(Book):
    def __init__(self, stages: Mapping[str, Stage] = STAGES, prices: Prices = price) -> None:
        self.stages = stages
        self.state = Memory(stages, lambda: self.now, CHAINS, prices, GENERAL)
        self.as_protocol: State = self.state

    def submit(
        self, *plan: str, job: str = "j", lane: str = "cloud", deadline: float = 90, local_only: bool = False,
        images: bool = False, chain: str = "default", tokens_in: int = 0, tokens_out: int | None = None,
        priority: Priority = "interactive",
    ) -> None:  # fmt: skip
        fields = {"prompt": "Why?", **({"local_only": True} if local_only else {})}
        fields |= {"images": [PICTURE]} if images else {}
        self.state.submit(job, fields, plan, lane, deadline, chain, tokens_in, tokens_out, priority)

    def admit(self, visit: Visit) -> Admission:
        return asyncio.run(self.state.admit(visit))

    def settled(self, permit: Permit, attempt: Attempt, settlement: Settlement) -> Settled:
        return asyncio.run(self.state.settle(permit, attempt, settlement))

    def hand_back(self, owner: str, job: str = "j") -> bool:
        return asyncio.run(self.state.hand_back(job, owner))

    def park(self, job: str = "j", signature: str = "the message") -> bool:
        return asyncio.run(self.state.park(job, signature))

    def feed(self) -> list[str]:
        return asyncio.run(self.state.feed())

    def switch(self, stage: str, action: Action, for_s: float | None = None) -> bool:
        return asyncio.run(self.state.switch(stage, action, for_s))

    def signature(self, job: str = "j") -> str | None:
        record = self.state.records[job]
        return None if record["status"] in {"queued", "running"} else record.get("signature")

    def change(self, stage: Stage) -> None:
        self.state.stages = {**self.stages, stage.name: stage}

    def cancel(self, job: str = "j") -> None:
        self.state.cancel(job)

    def born(self, owner: str) -> None:
        self.state.workers.add(owner)

    def dies(self, owner: str) -> None:
        self.state.workers.discard(owner)

    def says(self, lane: str, owner: str, in_hand: int, since: float | None = None) -> None:
        self.state.jobs.lanes.said[lane] = Now(owner, None if since is None else round(since * 1000), in_hand)

    def forget(self, job: str) -> None:
        del self.state.records[job]

    def view(self, job: str = "j") -> Mapping[str, Any]:
        return self.state.view(job).shown

    def holds_request(self, job: str = "j") -> bool:
        return "request" in self.state.records[job]


class RedisBook(Book):
    """Also what only Redis has: scripts of the client, times to live, several servers' worth of keys."""

    def __init__(self, url: str, stages: Mapping[str, Stage] = STAGES, prices: Prices = price) -> None:
        self.stages, self._prices = stages, prices
        self._runner = asyncio.Runner()
        self.redis = self.run(self._connected(url))
        self.state = RedisState(self.redis, stages, GENERAL, CHAINS, prices)
        self.as_protocol: State = self.state
        self._beats: dict[str, float] = {}

    @staticmethod
    async def _connected(url: str) -> Any:
        return connect(url)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def ms(self) -> int:
        return round(self.now * 1000)

    def script(self, name: str, names: Sequence[str], arguments: Sequence[object]) -> Any:
        """One script of the client's, as the client calls it."""

        async def calling() -> Any:
            return await self.redis.eval(source(name), len(names), *names, *arguments)

        return self.run(calling())

    def submit(
        self, *plan: str, job: str = "j", lane: str = "cloud", deadline: float = 90, local_only: bool = False,
        images: bool = False, chain: str = "default", tokens_in: int = 0, tokens_out: int | None = None,
        priority: Priority = "interactive",
    ) -> None:  # fmt: skip
        made = self.submitted(
            *plan, job=job, lane=lane, deadline=deadline, local_only=local_only, images=images, chain=chain,
            tokens=(tokens_in, tokens_out), priority=priority,
        )  # fmt: skip
        assert made == ["new", "queued"]

    def submitted(self, *plan: str, job: str = "j", lane: str = "cloud", deadline: float = 90, local_only: bool = False,
                  again: bool = False, message: str = "", label: str | None = None, images: bool = False,
                  chain: str = "default", tokens: tuple[int, int | None] = (0, None), key: str | None = None,
                  mode: Mode = "join", priority: Priority = "interactive", **others: str) -> list[str]:  # fmt: skip
        pictures = [PICTURE] if images else []
        request = Request(
            prompt="Why?", local_only=local_only, label=label, images=pictures, chain=chain, idempotency_key=key
        )
        estimate = {"tokens_in": str(tokens[0]), "tokens_out": "" if tokens[1] is None else str(tokens[1])}
        names, given = submitting(
            job, request, Entry(plan, lane, deadline, priority), KEPT, message, again=again, others=estimate | others,
            now_ms=self.ms, mode=mode,
        )  # fmt: skip
        return list(self.script("submit", names, given))

    def admit(self, visit: Visit) -> Admission:
        self._beat_all()
        return self.run(self.state.admit(visit, self.ms))

    def settled(self, permit: Permit, attempt: Attempt, settlement: Settlement) -> Settled:
        self._beat_all()
        return self.run(self.state.settle(permit, attempt, settlement, self.ms))

    def hand_back(self, owner: str, job: str = "j") -> bool:
        return self.run(self.state.hand_back(job, owner, self.ms))

    def park(self, job: str = "j", signature: str = "the message") -> bool:
        return self.run(self.state.park(job, signature, self.ms))

    def feed(self) -> list[str]:
        self._beat_all()
        return self.run(self.state.feed(self.ms))

    def switch(self, stage: str, action: Action, for_s: float | None = None) -> bool:
        return self.run(self.state.switch(stage, action, for_s, self.ms))

    def signature(self, job: str = "j") -> str | None:
        return self.run(self.state.signatures([job]))[0]

    def change(self, stage: Stage) -> None:
        stages = {**self.stages, stage.name: stage}
        self.state = RedisState(self.redis, stages, GENERAL, CHAINS, self._prices)

    def cancel(self, job: str = "j") -> None:
        self.cancelled(job)

    def cancelled(self, job: str = "j", *, running: bool = True) -> str:
        self._beat_all()
        return str(self.script("cancel", *cancelling(job, GENERAL, running=running, now_ms=self.ms)))

    def polled(self, *jobs: str) -> tuple[list[str], list[str]]:
        self._beat_all()
        lanes, found = self.script("poll", *polling(jobs, GENERAL, self.ms))
        return list(lanes), list(found)

    def born(self, owner: str) -> None:
        self._beats[owner] = self.now
        self._beat_all()

    def dies(self, owner: str) -> None:
        """Its last heartbeat is too old by now."""
        del self._beats[owner]
        self.run(self.redis.zadd(keys.WORKERS, {owner: self.ms - keys.WORKER_DEAD_AFTER_MS}))

    def says(self, lane: str, owner: str, in_hand: int, since: float | None = None) -> None:
        since_ms = None if since is None else round(since * 1000)
        said = {"owner": owner, "since": since_ms, "in_hand": in_hand, "at": self.ms}
        self.run(self.redis.hset(keys.LANES, lane, json.dumps(said)))
        self.run(self.redis.expire(keys.LANES, 3600))

    def _beat_all(self) -> None:
        for owner in self._beats:
            self.run(self.state.beat(owner, [], self.ms))

    def forget(self, job: str) -> None:
        self.run(self.redis.delete(keys.job(job), keys.attempts(job)))

    def view(self, job: str = "j") -> Mapping[str, Any]:
        names, given = looking(job, self.ms)
        return looked(job, self.script("look", names, given))

    def field(self, name: str, job: str = "j") -> str | None:
        return self.run(self.redis.hget(keys.job(job), name))

    def holds_request(self, job: str = "j") -> bool:
        request = self.field("request", job)
        assert request is None or json.loads(request)["prompt"] == "Why?"
        return request is not None

    def ttl(self, name: str) -> float:
        """Seconds; negative where there is no key, or no end of it."""
        return self.run(self.redis.pttl(name)) / 1000

    def close(self) -> None:
        self.run(self.redis.aclose())
        self._runner.close()
