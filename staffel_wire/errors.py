"""What a caller can meet.

StaffelError
 ├── Refused          a stage said that the request itself is wrong
 │    └── Invalid     the request was refused where it entered; there is no job
 ├── Exhausted        every stage of the plan failed or was skipped
 ├── Expired          the deadline passed
 ├── Cancelled        the caller cancelled it
 └── Unavailable      Redis or the workers are not there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class StaffelError(Exception):
    """Something of Staffel went wrong.

    Carries one string, since Celery loses exceptions with more arguments on their way through a JSON
    result; `attempts`, `job` and `retry_at` are there only where the error was raised by the client. `retry_at`, ISO
    8601, UTC: the first instant at which a stage that was not asked may be, where there is one.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str = "",
        *,
        job: str | None = None,
        attempts: Sequence[Mapping[str, Any]] = (),
        retry_at: str | None = None,
    ) -> None:
        super().__init__(message or (type(self).__doc__ or "").splitlines()[0])
        self.job = job
        self.attempts = tuple(attempts)
        self.retry_at = retry_at


class Refused(StaffelError):
    """A stage refused the request as wrong in itself."""

    exit_code = 4


class Invalid(Refused, ValueError):
    """The request cannot be taken."""

    exit_code = 2


class Exhausted(StaffelError):
    """No stage answered."""

    exit_code = 3


class Expired(StaffelError):
    """The deadline passed before an answer came."""

    exit_code = 5


class Cancelled(StaffelError):
    """The job was cancelled."""

    exit_code = 130


class Unavailable(StaffelError):
    """Redis or the workers are not there."""

    exit_code = 6


UNANSWERED: dict[str, type[StaffelError]] = {
    "refused": Refused,
    "exhausted": Exhausted,
    "expired": Expired,
    "cancelled": Cancelled,
}
"""The error that stands for each end of a job without an answer."""
