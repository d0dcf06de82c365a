"""Sees each job's end, and whether it stays; reads the records and ledgers directly, by no door."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from chaos.callers import Submitted
from chaos.evidence import Job, Row, Seen
from chaos.schedule import FOREIGN
from chaos.yard import Yard
from staffel_wire import keys
from staffel_wire.record import ENDED

_EVERY_S = 0.5
_QUEUES = (*keys.queues("cloud"), *keys.queues("ollama"))
_UNACKED = "staffel:unacked"
_MOST_HELD = 20
_FIELDS = ("status", "answer", "ended_at", "follows", "why")


class Watch:
    """Looks at all jobs again and again, in a thread of its own, until it is stopped."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self.jobs: Sequence[Submitted] = ()
        self.ends: dict[str, list[Seen]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.look()

    def look(self) -> None:
        """One look at every job; nothing where Valkey is away."""
        try:
            with self._yard.valkey.client as client:
                for job, record in self._records(client).items():
                    self._note(job, record)
        except redis.RedisError:
            return

    def _records(self, client: redis.Redis) -> dict[str, Mapping[str, str | None]]:
        names = [each.job for each in self.jobs]
        reading = client.pipeline(transaction=False)
        for name in names:
            reading.hmget(keys.job(name), _FIELDS)
        found = reading.execute()
        return {name: dict(zip(_FIELDS, values, strict=True)) for name, values in zip(names, found, strict=True)}

    def _note(self, job: str, record: Mapping[str, str | None]) -> None:
        status = record["status"] or "unknown"
        seen = self.ends.setdefault(job, [])
        # Only an end counts, and whatever is seen after one.
        if status in ENDED or seen:
            found = Seen(status, _text(record["answer"]))
            if not seen or seen[-1] != found:
                seen.append(found)

    def open(self) -> list[str]:
        """The submitted jobs that have not ended; a foreign one has none to begin with once its message is gone."""
        with self._yard.valkey.client as client:
            records, waiting = self._records(client), _waiting(client)
        return [
            each.job
            for each in self.jobs
            if each.at is not None
            and (status := records[each.job]["status"]) not in ENDED
            and not (each.ask.caller == FOREIGN and status is None and each.job not in waiting)
        ]

    def found(self) -> list[Job]:
        """Every job as it stands now."""
        with self._yard.valkey.client as client:
            records, waiting = self._records(client), _waiting(client)
            return [self._job(client, each, records[each.job], waiting) for each in self.jobs]

    def _job(
        self, client: redis.Redis, each: Submitted, record: Mapping[str, str | None], waiting: frozenset[str]
    ) -> Job:
        ask = each.ask
        ledger = {str(n): str(text) for n, text in client.hgetall(keys.attempts(each.job)).items()}
        told = client.get(f"celery-task-meta-{each.job}")
        ended = record["ended_at"]
        return Job(
            id=each.job, mark=ask.mark, caller=ask.caller, chain=ask.chain, submitted_at=each.at, raised=each.raised,
            status=record["status"] or "unknown", text=_text(record["answer"]),
            ended_at=float(ended) / 1000 if ended else None, rows=rows(ledger),
            seen=tuple(self.ends.get(each.job, ())), celery=json.loads(told) if told else None,
            follows=record["follows"] or (each.job if each.job != ask.job else None), why=record["why"],
            waits=each.job in waiting,
        )  # fmt: skip


def rows(ledger: Mapping[str, str]) -> tuple[Row, ...]:
    """The calls of a ledger, in their order."""
    found = sorted((json.loads(row) for row in ledger.values()), key=lambda row: int(row["n"]))
    return tuple(
        Row(
            int(row["n"]), row["stage"], row["outcome"], row.get("reason"), float(row["started_at"]),
            float(row.get("duration_s") or 0), (row.get("worker") or "").partition("@")[0] or None,
        )
        for row in found
        if row["outcome"] != "skipped"
    )  # fmt: skip


def leftovers(yard: Yard) -> list[str]:
    """What should not be there once all is quiet."""
    found = []
    with yard.valkey.client as client:
        for key in sorted(client.scan_iter("*", count=1000)):
            kind, size = client.type(key), _size(client, key)
            for_ever = key.startswith("staffel:") and client.ttl(key) < 0 and key != keys.CATALOGUE
            full = size and (
                key in {"staffel:open", keys.PARKED, _UNACKED, f"{_UNACKED}_index"}
                or key.partition("\x06")[0] in _QUEUES
                or (key.endswith((":in_flight", ":probe", ":parked")) and kind == "zset")
            )
            if for_ever or full:
                whose = _held(client) if key == _UNACKED else ""
                found.append(f"{key} ({kind} of {size})" + (" has no end" if for_ever else " is not empty") + whose)
    return found


def settled(yard: Yard, within_s: float) -> list[str]:
    """What is left over, after up to so many seconds for it to go."""
    end = time.monotonic() + within_s
    while (found := leftovers(yard)) and time.monotonic() < end:
        time.sleep(_EVERY_S)
    return found


def _held(client: redis.Redis) -> str:
    """Which messages are held, and how long ago whoever holds each has said so."""
    now, told = time.time(), []
    index: Any = client.zrange(f"{_UNACKED}_index", 0, _MOST_HELD - 1, withscores=True)
    for tag, at in index:
        text = client.hget(_UNACKED, tag)
        job = json.loads(text)[0]["headers"].get("id") if text else "nothing"
        told.append(f"{job} {now - at:.0f} s ago")
    mutex = client.pttl(f"{_UNACKED}_mutex")
    locked = f"; whoever gives them back is locked out for {mutex / 1000:.0f} s" if mutex > 0 else ""
    return f": {', '.join(told)}{locked}"


def _size(client: redis.Redis, key: str) -> int:
    match client.type(key):
        case "zset" if key.endswith((":in_flight", ":probe")):
            seconds, micro = client.time()
            return client.zcount(key, seconds * 1000 + micro // 1000, "+inf")  # leases, by their end
        case "zset":
            return client.zcard(key)
        case "hash":
            return client.hlen(key)
        case "list":
            return client.llen(key)
    return 1


def _waiting(client: redis.Redis) -> frozenset[str]:
    """The ids of all messages in a queue or held by a worker."""
    texts: list[Any] = []
    for key in client.scan_iter("*", count=1000):
        if key.partition("\x06")[0] in _QUEUES and client.type(key) == "list":
            texts += client.lrange(key, 0, -1)
    held = [json.loads(text)[0] for text in client.hvals(_UNACKED)]
    return frozenset(str(message["headers"].get("id")) for message in (*map(json.loads, texts), *held))


def _text(answer: str | None) -> str | None:
    found = json.loads(answer or "{}").get("text")
    return None if found is None else str(found)
