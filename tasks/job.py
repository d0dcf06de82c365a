"""A job as a Celery task: the record is written first, the message holds its id, a worker walks it to its end."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from celery import Signature, Task, current_task, states
from celery.exceptions import Ignore
from celery.exceptions import Retry as RetryState
from kombu.utils.json import dumps

from staffel_wire import keys
from staffel_wire import request as door
from staffel_wire.errors import Cancelled, Exhausted, Expired, Invalid, Refused, StaffelError, Unavailable
from staffel_wire.message import CLIENT
from staffel_wire.record import handoff, line, unanswered
from tasks import canvas
from tasks.sending import Sending, cosmetic, follower, outlasting, sent_or_sought, sent_or_withdrawn
from worker import process
from worker.drain import Abandoned
from worker.failover.answer import Status, View
from worker.failover.chain import End
from worker.failover.state import Elsewhere, Follows, Over, Parked, Taken
from worker.state.entrance import enter

_log = logging.getLogger("staffel")


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
    track_started = False
    """It is tracked, by `_begins`."""
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
        be killed. What follows a task in a worker of ours waits for Redis, since the task before has ended well.
        """
        job = task_id or str(uuid.uuid4())
        if (runtime := process.here()) is None or not current_task:
            return self._submit(args, kwargs, job, options, sent_or_withdrawn)
        try:
            return outlasting(lambda: self._submit(args, kwargs, job, dict(options), sent_or_sought), runtime)
        except Invalid as refused:
            request = follower(job, self.name, options)
            self.backend.mark_as_failure(job, refused, request=request, store_result=not request.ignore_result)
            return self.AsyncResult(job)

    def _submit(self, args: Any, kwargs: Any, job: str, options: dict[str, Any], sending: Sending) -> Any:  # noqa: ANN401
        publish = super().apply_async
        if args and list(args) == [job]:
            return publish((job,), {}, task_id=job, **options)
        fields = self.fields(args or (), kwargs or {})
        limits = [options.pop(name, None) for name in ("expires", "time_limit", "soft_time_limit")]
        canvas.refuse_far(options, self.app.conf.broker_transport_options.get("visibility_timeout"))
        url, message = self.app.conf.broker_url, partial(canvas.message, self, job, options)
        entry = enter(url, self.door, job, fields, _earliest(*limits), signature=message)
        options = {"queue": entry.queue, "argsrepr": f"('{job}',)", "kwargsrepr": "{}", **options}
        return sending(self, job, lambda: publish((job,), {}, task_id=job, **options))

    def run(self, *args: Any, **kwargs: Any) -> Result:  # noqa: ANN401 - a job's id, or a foreign caller's fields
        """Walk the job of this message; what it raises is what the caller meets."""
        job, refused = str(self.request.id), None
        try:
            if list(args) != [job]:
                refused = self._adopt(job, args, kwargs)
            end = process.runtime().walk(job, self._begins)
        except Abandoned:  # its message goes back to the queue, or is sent again: see `JobRequest.acknowledge`
            raise Ignore from None
        if refused is not None and isinstance(end, Taken) and not end.known:
            raise self._as_end(refused)
        return self._outcome(job, end)

    def _begins(self) -> None:
        """Celery's own would be written before it is known whose the job is, and over the end that another tells."""
        self.request.update(has_begun=True)
        if not self.request.ignore_result:
            meta = {"pid": os.getpid(), "hostname": self.request.hostname}
            cosmetic(lambda: self.update_state(state=states.STARTED, meta=meta))

    def _adopt(self, job: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StaffelError | None:
        """A foreign producer's message holds the request itself: its record is made when it is first claimed.

        What is wrong with it, which counts only where there is no record: the workers may have changed since.
        """
        deadline = _earliest(self.request.expires, *(self.request.timelimit or ()))
        message = partial(canvas.message, self, job, self.request.as_execution_options())
        try:
            fields = self.fields(args, kwargs)
            while not self._entered(job, fields, deadline, message):
                process.runtime().pause(job)
            process.runtime().heed_revoke(job)
        except Abandoned:
            raise
        except Invalid as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, its caller must hear of it
            return Invalid(f"the message could not be read ({type(error).__name__})")
        return None

    def _entered(self, job: str, fields: object, deadline: float | None, message: Callable[[str], str]) -> bool:
        """Whether the record stands; else Redis is away."""
        try:
            enter(self.app.conf.broker_url, self.door, job, fields, deadline, signature=message)
        except Unavailable:
            return False
        return True

    def _outcome(self, job: str, end: End) -> Result:
        match end:
            case Over() | Taken():
                raise self._of_others(job, end)
            case View(status=status) if self._has_heard(job, status):
                process.runtime().telling.told(job)
                raise Ignore
            case View(status=Status.ANSWERED, shown=shown):
                return Result(shown)
            case View(status=Status.CANCELLED, shown=shown):
                self._revoked(job, line(shown))
                raise Ignore
            case View(shown=shown):
                raise self._as_end(_in_one_string(unanswered(shown)))
            case Elsewhere(lane, stage, view):
                raise self._handoff(job, _queue(lane, view), handoff(view.shown, stage))
            case Parked(lane=lane, reason=reason, view=view):
                self.request.update(is_parked=True)
                raise self._handoff(job, _queue(lane, view), f"{line(view.shown)}: {reason}")
            case Follows(view=view):
                self.request.update(is_parked=True)
                raise self._handoff(job, _queue(process.runtime().lane, view), line(view.shown))

    def _of_others(self, job: str, end: Over | Taken) -> Exception:
        """A second delivery: Celery has heard, its callbacks and chords have had their end; or a living worker has it.

        But this one, or the one that it replaces, may have written over the end that another has told.
        """
        request, stored = self.request, self._stored(job)
        if isinstance(end, Taken) and not end.known and stored not in states.READY_STATES:
            return self._as_end(Expired("expired: the job's record is gone"))
        wrote = request.get("has_begun") or (isinstance(end, Over) and request.replaced_task_nesting)
        if wrote and not request.ignore_result and stored not in states.READY_STATES:
            process.runtime().telling.untold(job)
        nothing: Exception = Ignore()
        return nothing

    # --- what Celery has heard

    def _as_end(self, error: StaffelError) -> StaffelError:
        self.request.update(end=error)
        return error

    def is_end(self, error: object) -> bool:
        """Whether this is how the job ended, and nothing that failed while we told it."""
        return error is not None and error is self.request.get("end")

    def _stored(self, job: str) -> str:
        return str(self.backend.get_task_meta(job, cache=False)["status"])

    def _has_heard(self, job: str, status: Status) -> bool:
        """Whether only the note that Celery has heard was lost.

        It sends what follows an answer before it stores that, and what follows a failure after; a chord it counts last.
        Of a cancel nothing follows, and a caller's revoke stores it before anybody has told it.
        """
        request = self.request
        if request.get("has_begun") or request.chord or status is Status.CANCELLED:
            return False
        if status is Status.ANSWERED:
            return bool(self._stored(job) == states.SUCCESS)
        return not (request.errbacks or request.chain or self._stored(job) != states.FAILURE)

    def on_success(self, retval: object, task_id: str, args: object, kwargs: object) -> None:  # noqa: ARG002 - Celery's
        self._note_heard(task_id)

    def on_failure(self, exc: object, task_id: str, args: object, kwargs: object, einfo: object) -> None:  # noqa: ARG002
        if self.is_end(exc):
            self._note_heard(task_id)

    def _note_heard(self, job: str) -> None:
        """Not where a client has sent the message: it waits at the record, and hears from nobody twice."""
        if self.request.origin != CLIENT:
            process.runtime().telling.told(job)

    def _handoff(self, job: str, queue: str, text: str) -> Ignore:
        """Replace the task by one for its next lane under the same id, which is sent now or, if parked, kept.

        replace() carries none of what is set here. RETRY is the one state that keeps Flower's buttons and gives way to
        what follows. The record says already where the job is: what cannot be sent, housekeeping sends.
        """
        delivery = self.request.delivery_info or {}
        waits = RetryState(text)
        waits.args = (text,)  # it is stored by its arguments, of which its own are itself
        cosmetic(lambda: self.update_state(state=states.RETRY, meta=waits))
        cosmetic(lambda: self.send_event("task-retried", exception=text, traceback="", result=text))
        signature = self.signature((job,)).set(
            queue=queue, argsrepr=f"('{job}',)", kwargsrepr="{}", priority=delivery.get("priority"),
            headers=self.request.headers or {}, ignore_result=self.request.ignore_result,
        )  # fmt: skip
        try:
            self.replace(signature)
        except Ignore as replaced:
            return replaced
        except Exception as error:  # noqa: BLE001 - Celery's, kombu's or Redis' own
            _log.warning("job %s could not be sent on (%s); it will be", job, type(error).__name__)
        return Ignore()

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
        cosmetic(lambda: self.send_event("task-revoked", terminated=True, signum=None, expired=False))
        process.runtime().telling.told(job)


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


def _queue(lane: str, view: View) -> str:
    return keys.queue(lane, view.shown["priority"])


def _in_one_string(error: StaffelError) -> StaffelError:
    return type(error)(str(error))
