"""What a message holds beside its job: callbacks, the rest of a chain, a chord, and when it may be run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Task
from kombu.utils.json import dumps

from config.celery import VISIBILITY_TIMEOUT_S
from staffel_wire.errors import Invalid

_TELLING = ("link", "link_error", "chain", "chord", "eta", "countdown", "ignore_result")
"""Options by which a message is more than plain; without them, the job's id and queue are all that there is to it."""

_KEPT = (*_TELLING, "group_id", "group_index", "root_id", "parent_id", "headers", "priority", "replaced_task_nesting")


def message(task: Task, job: str, options: Mapping[str, Any], queue: str) -> str:
    """What sends this job again, as JSON, where its message gets lost; '' where it is plain."""
    if not any(options.get(name) for name in _TELLING):
        return ""
    kept = {name: options[name] for name in _KEPT if options.get(name)}
    if (seconds := kept.pop("countdown", None)) is not None:
        kept["eta"] = datetime.now(UTC) + timedelta(seconds=seconds)
    sent = task.signature((job,)).set(task_id=job, queue=queue, argsrepr=f"('{job}',)", kwargsrepr="{}", **kept)
    return str(dumps(sent))


def refuse_far(options: Mapping[str, Any], visibility_timeout: float | None) -> None:
    """Raise `Invalid` where a message would wait in a worker's memory for longer than half the visibility timeout (s).

    Redis would give it out again and again (Celery's documentation of the Redis transport).
    """
    eta, seconds = options.get("eta"), options.get("countdown")
    if isinstance(eta, datetime):
        seconds = ((eta if eta.tzinfo else eta.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    most = (visibility_timeout or VISIBILITY_TIMEOUT_S) / 2
    if seconds is not None and seconds > most:
        raise Invalid(
            f"countdown, eta: at most {most:g} s ahead, half the visibility timeout; submit the job when it is due"
        )
