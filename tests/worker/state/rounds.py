"""One look of whoever keeps house at the open jobs, for the tests of it."""

from __future__ import annotations

from staffel_wire import keys
from staffel_wire.submit import LOOKS_MS
from tests.worker.state.books import RedisBook
from tests.worker.state.calls import visit
from tests.worker.state.test_contract import ONE, permit
from worker.failover.state import Permit
from worker.state.open_jobs import SOONER_MS, Found, Need

ME = "cloud/housekeeper/1"
LOOKS_S, SOONER_S, DEAD_S = LOOKS_MS / 1000, SOONER_MS / 1000, keys.WORKER_DEAD_AFTER_MS / 1000


def found(book: RedisBook) -> list[Found]:
    """One round of whoever keeps house."""
    book.run(book.redis.delete(book.state.open.office))
    book.run(book.state.beat(ME, [], book.ms))
    book._beat_all()
    due = book.run(book.state.open.due(book.ms))
    return book.run(book.state.open.reconcile(due, ME, book.ms)) if due else []


def needs(book: RedisBook) -> list[tuple[str, Need]]:
    return [(one.job, one.need) for one in found(book)]


def open_jobs(book: RedisBook) -> list[str]:
    return book.run(book.redis.zrange(keys.OPEN, 0, -1))


def claimed(book: RedisBook, job: str = "j") -> Permit:
    book.born(ONE.owner)
    return permit(book.admit(visit(job)))
