"""The worker's side of everything a person or a limit may do to a running job, and which pools may run it.

Private API of Celery stands here and in `consumer.py` only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, cast

from billiard.einfo import ExceptionInfo
from celery import states
from celery.app.trace import TraceInfo
from celery.exceptions import Ignore
from celery.worker.request import Request

from config.stages import CLOUD
from staffel_wire import keys
from worker import process

FIT = "thread"
"""Celery's module of the one pool whose slots can wait on an event loop in another thread of the same process."""


_log = logging.getLogger("staffel")


class Heard(TraceInfo):
    """What Celery takes a failed task for: FAILURE only where that is how the job ended.

    Celery makes the same FAILURE of whatever is raised on the way of telling an end: a link that could not be sent, a
    result that could not be stored. The record keeps that nobody has heard, and the job's message is sent again.
    """

    def handle_error_state(self, task: Any, req: Any, eager: bool = False, call_errbacks: bool = True) -> Any:  # noqa: ANN401, FBT001, FBT002
        is_end = getattr(task, "is_end", None)
        error: Any = cast("Any", self).retval
        if is_end is None or is_end(error):
            try:
                return super().handle_error_state(task, req, eager=eager, call_errbacks=call_errbacks)
            except Exception as failed:
                if is_end is None:
                    raise
                error = failed
        _log.warning("job %s: Celery could not be told how it is (%s); it will be", req.id, type(error).__name__)
        self.state, self.retval = states.IGNORED, Ignore()
        try:
            raise self.retval
        except Ignore:
            return ExceptionInfo(internal=True)


class JobRequest(Request):
    """A message in a worker: shows no arguments, whoever produced it, and is cancelled rather than killed.

    Celery's thread pool cannot terminate a task; here the walk's call is cancelled, its socket closes, and the task
    itself says REVOKED once nothing runs any more. So there is one place that decides between an answer and a
    cancel, and neither overwrites the other.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Celery's own signature
        super().__init__(*args, **options)
        # A foreign producer writes these itself, so they may be the prompt.
        self._argsrepr = f"('{self.id}',)"
        self._kwargsrepr = "{}"
        self._request_dict["argsrepr"] = self._argsrepr
        self._request_dict["kwargsrepr"] = self._kwargsrepr
        self.expires = None  # became the job's deadline, or does when the job is adopted: that ends it with a reason

    def revoked(self) -> bool:
        """Whether Celery drops this message unread; never one that only names its job, since its record decides.

        Workers keep the ids of revokes in their memory, also of a job that ran on when it heard a plain one: its
        handoff must not be dropped here.
        """
        return list(self.args) != [self.id] and bool(super().revoked())

    def info(self, safe: bool = False) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - `inspect` asks for the real ones
        found: dict[str, Any] = super().info(safe=True)
        return found

    def terminate(self, pool: Any, signal: Any = None) -> None:  # noqa: ANN401, ARG002 - Celery's own signature
        process.runtime().cancel(self.id)

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:  # noqa: ANN401, ARG002, FBT001, FBT002
        """Celery calls this for each task of a worker that is told a second time to end, and only there."""
        process.runtime().drain(0)

    def acknowledge(self) -> None:
        """Not where the process ends before the job: its record is given back by now, and its message follows."""
        if process.runtime().gave_back(self.id):
            self.reject(requeue=True)
        else:
            super().acknowledge()

    def __repr__(self) -> str:
        return f"<Request: {self.name}[{self.id}]>"


def lane_of(queues: Iterable[str], lanes: Iterable[str]) -> str:
    """The one lane of a worker; ends the process with one line where the queues make none."""
    named = sorted({keys.lane_of(queue) for queue in queues})
    known = sorted(set(lanes) | {CLOUD})
    strange = [name for name in named if name not in known]
    if strange:
        sys.exit(f"-Q {','.join(named)}: no stage runs on {strange[0]!r}; lanes are {', '.join(known)}")
    if not named:
        sys.exit(f"no queue is left to serve: celery -A worker worker -Q {CLOUD}")
    if len(named) != 1:
        one_each = "; ".join(f"celery -A worker worker -Q {name}" for name in named)
        sys.exit(
            f"-Q {','.join(named)}: a worker serves one lane, since their widths differ. Start one each: {one_each}"
        )
    return named[0]


def serve_both(queues: Any, lane: str) -> None:  # noqa: ANN401 - Celery's queues
    """Have the worker take from both queues of its lane, whichever of them `-Q` names."""
    for name in keys.queues(lane):
        if name not in queues.consume_from:
            # A bare name would be bound to the default exchange.
            queues.select_add(name, exchange=name, exchange_type="direct", routing_key=name)


def refuse_unfit(pool: type, lane: str) -> None:
    """End the process with one line if the pool cannot work here."""
    name = pool.__module__.rpartition(".")[2]
    if name != FIT:
        sys.exit(f"-P {name} cannot run these tasks; use threads: celery -A worker worker -P threads -Q {lane}")
