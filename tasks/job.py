"""A job as a Celery task: the record is written first, the message holds its id, a worker walks it to its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from celery import Signature, Task, states
from celery.exceptions import Ignore
from celery.exceptions import Retry as RetryState
from kombu.utils.json import dumps

from staffel_wire import request as door
from staffel_wire.errors import Cancelled, Exhausted, Expired, Invalid, Refused, StaffelError
from staffel_wire.record import line, unanswered
from worker import process
from worker.failover.answer import Status, View
from worker.failover.chain import End
from worker.failover.state import Elsewhere, Parked
from worker.runtime import Abandoned
from worker.state.entrance import enter


class Result:
    """The object that a task returns: JSON for the caller, one readable line for Flower, logs and events."""

    def __init__(self, shown: Mapping[str, Any]) -> None:
        self.shown = shown

    def __json__(self) -> dict[str, Any]:
        return dict(self.shown)

    def __repr__(self) -> str:
        return line(self.shown)


class JobTask(Task):
    """The base of every task here. A subclass says how a caller's fields become a request (`door`)."""

    abstract = True
    text_field = "prompt"
    """The field that a text alone is taken for."""
    Request = "worker.pool:JobRequest"
    typing = False
    throws: ClassVar[tuple[type[Exception], ...]] = (Exhausted, Expired, Refused, Cancelled)

    def door(self, fields: object, max_bytes: int) -> door.Request:
        """The request that a caller's fields make, or `Invalid`."""
        return door.parse(fields, max_bytes)

    def fields(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """One object or text, and keywords on top of it; nothing that a caller gave is dropped."""
        if len(args) > 1:
            raise Invalid(f"one request is one object or one text, not {len(args)} arguments; name the other fields")
        if not args:
            return kwargs
        first = {self.text_field: args[0]} if isinstance(args[0], str) else args[0]
        return {**first, **kwargs} if isinstance(first, Mapping) else first

    def apply_async(
        self,
        args: Any = None,  # noqa: ANN401 - Celery's own signature
        kwargs: Any = None,  # noqa: ANN401
        task_id: str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Write the job's record and send its id; raises `Invalid` before a job exists, `Unavailable` without Redis.

        `expires` and the time limits (s) shorten the deadline: only that ends a job with a reason, and a thread cannot
        be killed.
        """
        if args and task_id is not None and list(args) == [task_id]:
            return super().apply_async((task_id,), {}, task_id=task_id, **options)
        fields = self.fields(args or (), kwargs or {})
        job = task_id or str(uuid.uuid4())
        limits = [options.pop(name, None) for name in ("expires", "time_limit", "soft_time_limit")]
        entry = enter(self.app.conf.broker_url, self.door, job, fields, _earliest(*limits))
        options = {"queue": entry.lane, "argsrepr": f"('{job}',)", "kwargsrepr": "{}", **options}
        return super().apply_async((job,), {}, task_id=job, **options)

    def run(self, *args: Any, **kwargs: Any) -> Result:  # noqa: ANN401 - a job's id, or a foreign caller's fields
        """Walk the job of this message; what it raises is what the caller meets."""
        job = str(self.request.id)
        if list(args) != [job]:
            self._adopt(job, self.fields(args, kwargs))
        try:
            end = process.runtime().walk(job)
        except Abandoned:  # its message goes back to the queue, see `JobRequest.cancel`
            raise Ignore from None
        return self._outcome(job, end)

    def _adopt(self, job: str, fields: object) -> None:
        """A foreign producer's message holds the request itself: its record is made when it is first claimed."""
        deadline = _earliest(self.request.expires, *(self.request.timelimit or ()))
        enter(self.app.conf.broker_url, self.door, job, fields, deadline)

    def _outcome(self, job: str, end: End) -> Result:
        match end:
            case View(status=Status.ANSWERED, shown=shown):
                return Result(shown)
            case View(status=Status.CANCELLED, shown=shown):
                self._revoked(job, line(shown))
                raise Ignore
            case View(shown=shown):
                raise _in_one_string(unanswered(shown))
            case Elsewhere(lane, stage, view):
                raise self._handoff(job, lane, f"{line(view.shown).removesuffix('queued')}waits for {stage}")
            case Parked(lane=lane, reason=reason, view=view):
                self.request.update(is_parked=True)
                raise self._handoff(job, lane, f"{line(view.shown)}: {reason}")
        if not end.known:
            raise Expired("expired: the job's record is gone")
        raise Ignore  # a living worker has it

    def _handoff(self, job: str, lane: str, text: str) -> Exception:
        """Replace the task by one for its next lane under the same id, which is sent now or, if parked, kept.

        replace() carries none of what is set here. RETRY is the one state that keeps Flower's buttons and gives way to
        what follows.
        """
        delivery = self.request.delivery_info or {}
        waits = RetryState(text)
        waits.args = (text,)  # it is stored by its arguments, of which its own are itself
        self.update_state(state=states.RETRY, meta=waits)
        self.send_event("task-retried", exception=text, traceback="", result=text)
        signature = self.signature((job,)).set(
            queue=lane, argsrepr=f"('{job}',)", kwargsrepr="{}", priority=delivery.get("priority"),
            headers=self.request.headers or {}, ignore_result=self.request.ignore_result,
        )  # fmt: skip
        result: Exception = self.replace(signature)
        return result

    def on_replace(self, sig: Signature) -> Any:  # noqa: ANN401 - Celery's own signature
        """Keep what a parked job's task is replaced by in its record instead of sending it; no worker holds it then.

        A job that has ended meanwhile is sent on all the same, and its next delivery tells Celery how.
        """
        try:
            if self.request.get("is_parked") and process.runtime().park(str(self.request.id), str(dumps(sig))):
                raise Ignore
        except Abandoned:  # its message goes back to the queue as well
            raise Ignore from None
        return super().on_replace(sig)

    def _revoked(self, job: str, text: str) -> None:
        self.backend.mark_as_revoked(job, text, request=self.request, store_result=not self.request.ignore_result)
        self.send_event("task-revoked", terminated=True, signum=None, expired=False)


_PAST_S = 0.0001
"""What is left of a deadline that has passed: less than the millisecond in which a job could still be started."""


def _earliest(*limits: object) -> float | None:
    """Seconds until the first of these, or None where nothing is limited."""
    return min((left for limit in limits if (left := _seconds(limit)) is not None), default=None)


def _seconds(expires: object) -> float | None:
    """Celery takes seconds or an instant, and sends the instant as ISO 8601."""
    if isinstance(expires, str):
        expires = datetime.fromisoformat(expires)
    if isinstance(expires, datetime):
        expires = (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp() - time.time()
    return max(_PAST_S, float(expires)) if isinstance(expires, int | float) else None


def _in_one_string(error: StaffelError) -> StaffelError:
    return type(error)(str(error))
