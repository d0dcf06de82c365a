"""The tickets of the jobs that wait, as they stand in Redis, and what must hold of them whatever has happened."""

from __future__ import annotations

from redis import Redis

from staffel_wire import keys


def waiting(redis: Redis, queue: str) -> list[str]:
    """The jobs of one queue, the next one first."""
    found = redis.zrangebylex(keys.WAITING, f"[{queue} ", f"({queue}!")
    return [ticket.split(" ", 2)[2] for ticket in found]


def before(redis: Redis, job: str) -> int:
    """How many jobs wait before this one in its queue, as whoever shows it counts them."""
    ticket = redis.hget(keys.job(job), "ticket")
    return int(redis.zlexcount(keys.WAITING, f"[{ticket.partition(' ')[0]} ", f"({ticket}"))


def check(redis: Redis) -> None:
    """Each job that is queued has one ticket, for the queue of its lane and priority; nothing else has any."""
    found = {ticket.split(" ", 2)[2]: ticket for ticket in redis.zrange(keys.WAITING, 0, -1)}
    assert len(found) == redis.zcard(keys.WAITING), "a job has two"
    queued: dict[str, str] = {}
    for name in redis.scan_iter("staffel:job:{*}"):
        if name.endswith(":attempts"):
            continue
        status, ticket, lane, priority = redis.hmget(name, "status", "ticket", "lane", "priority")
        assert (ticket is not None) == (status == "queued"), (name, status, ticket)
        if ticket is not None:
            assert ticket.partition(" ")[0] == keys.queue(lane, priority or "interactive")
            queued[name.removeprefix("staffel:job:{").removesuffix("}")] = ticket
    assert found == queued
    assert not found or redis.pttl(keys.WAITING) > 0
