"""What a worker's log says of attempts: for a person on duty, and nothing that a customer wrote."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from worker.failover.attempt import Attempt, Reason

_log = logging.getLogger("staffel")


def alarm_line(job: str, attempt: Attempt) -> str:
    """What a person on duty must know of a stage that will not get better by itself."""
    status = f" {attempt.status}" if attempt.status not in {None, 200} else ""
    said = f": {attempt.detail}" if attempt.detail else ""
    key = f"{_LOOK_AT[attempt.reason]}; " if attempt.reason in _LOOK_AT else ""
    return f"stage {attempt.stage} ({attempt.model}) needs a look: {attempt.reason}{status}{said} ({key}job {job})"


_LOOK_AT: Mapping[Reason | None, str] = MappingProxyType(
    {
        Reason.AUTH: "api_key_env",
        Reason.MODEL_MISSING: "model",
        Reason.MISROUTED: "base_url, api_version",
        Reason.UNSUPPORTED: "a field is left out for a day; takes or params may leave it out for good",
        Reason.BAD_REQUEST: "it called so many requests in a row wrong that others are asked instead",
    }
)
"""Where a person should look, by the key of the stage's table."""


def log_attempt(job: str, attempt: Attempt) -> None:
    """One line an attempt: what a person on duty needs, and nothing that a customer wrote."""
    _log.info(
        "job %s %d/%d %s %s%s %.2f s",
        job, attempt.n, attempt.of, attempt.stage, attempt.outcome,
        f" {attempt.reason}" + (f" {attempt.status}" if attempt.status not in {None, 200} else "")
        if attempt.reason else "",
        attempt.duration_s,
    )  # fmt: skip
