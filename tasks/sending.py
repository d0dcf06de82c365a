"""How a job's message is sent, and what becomes of it where Redis does not take it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from celery import Task
from celery.app.task import Context
from kombu.exceptions import OperationalError

from staffel_wire.errors import Unavailable
from worker.runtime import Runtime
from worker.state.connection import AWAY
from worker.state.entrance import withdraw
from worker.state.patient import PAUSE_S

OUTLASTS_S = 60.0
"""How long what follows an ended task waits for Redis; then the end is told once more, by whoever gets the message."""

Publish = Callable[[], Any]
Sending = Callable[[Task, str, Publish], Any]
_AWAY = (*AWAY, Unavailable, OperationalError)
_log = logging.getLogger("staffel")


def sent_or_withdrawn(task: Task, job: str, publish: Publish) -> Any:  # noqa: ANN401 - Celery's result
    """A caller who is told that it could not be sent will ask again: this job must not run as well."""
    try:
        return publish()
    except Exception:
        withdraw(task.app.conf.broker_url, job)
        raise


def sent_or_sought(task: Task, job: str, publish: Publish) -> Any:  # noqa: ANN401 - Celery's result
    """Its record stands: housekeeping sends what has no message."""
    try:
        return publish()
    except _AWAY:
        return task.AsyncResult(job)


def outlasting(step: Callable[[], Any], runtime: Runtime) -> Any:  # noqa: ANN401 - what the step brings
    """Do this once Redis is there; raises `OperationalError` where it stays away, or the process ends."""
    ends = time.monotonic() + OUTLASTS_S
    while True:
        try:
            return step()
        except _AWAY as error:
            if runtime.is_closed or time.monotonic() > ends:
                # The one error that Celery takes for what it is where a callback cannot be sent.
                raise OperationalError(f"Redis is away ({type(error).__name__})") from None
        time.sleep(PAUSE_S)


def follower(job: str, name: str, options: Mapping[str, Any]) -> Context:
    """What Celery knows of a task that is to follow another, for the end of one that cannot begin."""
    return Context(
        {
            "id": job, "task": name, "delivery_info": {}, "ignore_result": bool(options.get("ignore_result")),
            "errbacks": _listed(options.get("link_error")), "chain": options.get("chain"),
            "chord": options.get("chord"), "group": options.get("group_id"),
            "group_index": options.get("group_index"), "root_id": options.get("root_id"),
        }
    )  # fmt: skip


def _listed(found: object) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found] if found else []


def cosmetic(step: Callable[[], object]) -> None:
    """Do what only shows how a job is: where it fails, the job goes on."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - Celery's, kombu's or Redis' own
        _say_once(type(error).__name__)


@cache
def _say_once(what: str) -> None:
    _log.warning("Celery could not be told how a job is (%s): Flower may show an older state", what)
