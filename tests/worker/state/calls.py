"""Jobs, each with one call under way, for tests of what all workers know together of a stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from tests.worker.state.books import Book
from tests.worker.state.test_contract import ANSWER, answered, failed, permit
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Admission, Lesson, Permit, Settled, Settlement, Visit

_numbers = count(1)


def visit(job: str, owner: str = "one", lane: str = "cloud") -> Visit:
    return Visit(job, lane, f"{lane}/{owner}/1", f"{owner}@host")


def admit(book: Book, *plan: str, job: str = "", owner: str = "one", **fields: Any) -> Admission:
    """A new job's first admit, by an owner that lives."""
    job = job or f"job-{next(_numbers)}"
    book.submit(*plan, job=job, **fields)
    asked = visit(job, owner)
    book.born(asked.owner)
    return book.admit(asked)


def ask(book: Book, *plan: str, job: str = "", owner: str = "one", **fields: Any) -> Permit:
    """A new job whose first call is under way."""
    return permit(admit(book, *plan, job=job, owner=owner, **fields))


def lets(book: Book, stage: str) -> bool:
    """Whether a job that could go elsewhere is let through to this stage; its call counts nothing."""
    admitted = ask(book, stage, "b")
    settle(book, admitted, Reason.CANCELLED, reached=False)
    return admitted.stage == stage


def settle(book: Book, admitted: Permit, reason: Reason, **lesson: Any) -> Settled:
    """The call ends and the job goes on."""
    return book.settled(admitted, replace(failed(admitted), reason=reason), Settlement(lesson=Lesson(**lesson)))


def fails(book: Book, *admitted: Permit) -> None:
    for one in admitted:
        settle(book, one, Reason.SERVER_ERROR, failed=True)


def answers(book: Book, *admitted: Permit, **lesson: Any) -> None:
    for one in admitted:
        settlement = Settlement(Status.ANSWERED, ANSWER, lesson=Lesson(worked=True, **lesson))
        assert book.settled(one, answered(one), settlement).view is not None


def skips(book: Book, job: str) -> list[tuple[str, str | None]]:
    """The stages that this job was not let through to, and why."""
    return [(row["stage"], row["reason"]) for row in book.view(job)["attempts"] if row["outcome"] == "skipped"]
